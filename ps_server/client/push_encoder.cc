#include "ps_server/client/push_encoder.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/finite.h"

namespace monsoon {

PushEncoder::PushEncoder(const ShardMap& map, WireFormat format, std::unique_ptr<TensorCodec> codec)
    : map_(map), format_(format), codec_(std::move(codec)) {
  size_t offset = 0;
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    auto& offsets = offset_.emplace_back();
    for (uint32_t stripe = 0; stripe < map_.stripes(shard); ++stripe) {
      offsets.push_back(offset);
      offset += codec_->EncodedBytes(map_.stripe(shard, stripe).size());
    }
    offsets.push_back(offset);
  }
  if (format_ != FLOAT32) {
    residual_.assign(map_.size(), 0.0f);
    scratch_.resize(map_.stripe_floats());
    encoded_.resize(offset);
  }
}

void PushEncoder::Encode(uint64_t sequence, std::span<const float> gradient) {
  CHECK_EQ(gradient.size(), map_.size());
  given_ = {};
  if (format_ == FLOAT32) {
    gradient_ = gradient;
    return;
  }
  if (sequence == sequence_) {
    return;
  }
  CHECK(sequence > sequence_);
  sequence_ = sequence;
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map_.stripes(shard); ++stripe) {
      const Slice slice = map_.stripe(shard, stripe);
      codec_->EncodeWithFeedback(
          gradient.subspan(slice.begin, slice.size()),
          std::span(residual_).subspan(slice.begin, slice.size()),
          std::span(scratch_).first(slice.size()),
          std::span(encoded_).subspan(Offset(shard, stripe), StripeBytes(shard, stripe)));
    }
  }
}

void PushEncoder::UseEncoded(std::span<const std::byte> bytes) {
  CHECK(format_ == BFLOAT16 || format_ == FLOAT16);
  CHECK_EQ(bytes.size(), offset_.back().back());
  given_ = bytes;
}

size_t PushEncoder::StripeBytes(uint32_t shard, uint32_t stripe) const {
  return offset_[shard][stripe + 1] - offset_[shard][stripe];
}

std::span<const std::byte> PushEncoder::Bytes(uint32_t shard, uint32_t first, uint32_t end) const {
  const std::span<const std::byte> all = !given_.empty() ? given_
                                         : format_ == FLOAT32
                                             ? std::as_bytes(gradient_)
                                             : std::span<const std::byte>(encoded_);
  return all.subspan(Offset(shard, first), Offset(shard, end) - Offset(shard, first));
}

void PushEncoder::Refused(uint32_t shard, uint32_t stripe) {
  if (as_it_is()) {
    return;
  }
  const Slice slice = map_.stripe(shard, stripe);
  const std::span<float> content = std::span(scratch_).first(slice.size());
  const std::span<float> residual = std::span(residual_).subspan(slice.begin, slice.size());
  CHECK_OK(codec_->Decode(Bytes(shard, stripe, stripe + 1), content));
  for (size_t i = 0; i < content.size(); ++i) {
    residual[i] += content[i];
  }
  if (FirstNonFinite(residual).has_value()) {
    std::ranges::fill(residual, 0.0f);
  }
}

}  // namespace monsoon
