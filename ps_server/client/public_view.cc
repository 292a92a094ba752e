#include "ps_server/client/public_view.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {

PublicView::PublicView(const ShardMap& map, WireFormat format)
    : map_(map), codec_(TensorCodec::Find(format)), copy_(map.size()), stripes_(map.shards()) {
  CHECK(codec_ != nullptr);
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    stripes_[shard].resize(map_.stripes(shard));
  }
}

void PublicView::AddKnown(uint32_t shard, FetchRequest* request) const {
  request->set_changes(true);
  request->set_format(FLOAT32);
  const std::span<const Stripe> asked =
      std::span(stripes_[shard]).subspan(request->first_stripe(), request->stripe_count());
  request->set_known_epoch(asked.front().epoch);
  if (std::ranges::any_of(asked, [&](const Stripe& stripe) {
        return stripe.epoch == 0 || stripe.epoch != asked.front().epoch;
      })) {
    request->set_known_epoch(0);  // they come whole
    return;
  }
  for (const Stripe& stripe : asked) {
    request->add_known_version(stripe.version);
  }
}

absl::StatusOr<bool> PublicView::Take(uint32_t shard, const FetchRecord& record, uint64_t epoch,
                                      ChunkCursor* payload, std::span<float> out) {
  Stripe& stripe = stripes_[shard][record.stripe()];
  const Slice slice = map_.stripe(shard, record.stripe());
  const std::span<float> copy = std::span(copy_).subspan(slice.begin, slice.size());
  const size_t step = codec_->EncodedBytes(slice.size());
  const bool fits = record.changed() ? record.length() % step == 0 && stripe.epoch == epoch
                                     : record.length() == copy.size_bytes();
  if (!fits || record.length() > payload->remaining()) {
    return absl::InternalError(absl::StrCat("stripe ", record.stripe(), " of shard ", shard,
                                            " came with ", record.length(), " bytes of ",
                                            record.changed() ? "changes" : "its public copy"));
  }
  bytes_.resize(record.length());
  payload->Copy(bytes_.size(), bytes_.data());
  if (stripe.taken == exchange_) {
    std::ranges::copy(copy, out.begin());
    return false;
  }
  stripe.epoch = 0;  // until all of it was taken
  if (record.changed()) {
    change_.resize(copy.size());
    for (size_t at = 0; at < bytes_.size(); at += step) {
      RETURN_IF_ERROR(codec_->Decode(std::span(bytes_).subspan(at, step), change_));
      // As the shard does (PublicCopy).
      for (size_t i = 0; i < copy.size(); ++i) {
        copy[i] += change_[i];
      }
    }
  } else {
    std::memcpy(copy.data(), bytes_.data(), bytes_.size());
  }
  stripe = {epoch, record.version(), exchange_};
  std::ranges::copy(copy, out.begin());
  return true;
}

}  // namespace monsoon
