#include "ps_server/client/push_encoder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/codec/wire_formats.h"

namespace monsoon {

PushEncoder::PushEncoder(const ShardMap& map, const FragmentMap& fragments, WireFormat format,
                         std::unique_ptr<TensorCodec> codec, std::vector<Slice> values,
                         double residual_decay)
    : map_(map),
      fragments_(fragments),
      format_(format),
      codec_(std::move(codec)),
      values_(std::move(values)),
      residual_decay_(static_cast<float>(residual_decay)),
      place_(map.shards()),
      shard_place_(fragments.count()) {
  std::vector<size_t> end(fragments_.count(), 0);
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    for (uint32_t fragment = 0; fragment < fragments_.count(); ++fragment) {
      shard_place_[fragment].push_back({end[fragment], end[fragment]});
    }
    for (uint32_t stripe = 0; stripe < map_.stripes(shard); ++stripe) {
      const uint32_t fragment = fragments_.Of(shard, stripe);
      const size_t begin = end[fragment];
      end[fragment] += codec_->EncodedBytes(map_.stripe(shard, stripe).size());
      place_[shard].push_back({begin, end[fragment]});
      shard_place_[fragment].back().end = end[fragment];
    }
  }
}

void PushEncoder::SetAbsent(std::span<const TensorSlice> absent) {
  absent_.clear();
  std::ranges::transform(absent, std::back_inserter(absent_), &TensorSlice::number);
}

void PushEncoder::EncodeStripe(std::span<const float> gradient, uint32_t shard, uint32_t stripe) {
  const Slice slice = map_.stripe(shard, stripe);
  const Slice place = place_[shard][stripe];
  const std::span<const float> floats = gradient.subspan(slice.begin, slice.size());
  const std::span<std::byte> out = std::span(encoded_).subspan(place.begin, place.size());
  if (format_ == FLOAT32) {
    std::ranges::copy(std::as_bytes(floats), out.begin());
    return;
  }
  const std::span<float> residual = std::span(residual_).subspan(slice.begin, slice.size());
  if (residual_decay_ != 1.0f) {
    std::ranges::for_each(residual, [this](float& left) { left *= residual_decay_; });
  }
  codec_->EncodeWithFeedback(floats, residual, std::span(scratch_).first(slice.size()), out);
}

void PushEncoder::Encode(uint64_t sequence, std::span<const float> gradient,
                         std::span<const TensorSlice> absent) {
  CHECK_EQ(gradient.size(), map_.size());
  given_ = {};
  SetAbsent(absent);
  if (format_ == FLOAT32 && fragments_.whole()) {
    gradient_ = gradient;
    return;
  }
  if (sequence == sequence_) {
    return;
  }
  CHECK(sequence > sequence_);
  if (encoded_.empty()) {
    if (format_ != FLOAT32) {
      residual_.assign(map_.size(), 0.0f);
      scratch_.resize(map_.stripe_floats());
    }
    size_t largest = 0;
    for (const std::vector<Slice>& shards : shard_place_) {
      largest = std::max(largest, shards.back().end);
    }
    encoded_.resize(largest);
  }
  sequence_ = sequence;
  fragment_ = fragments_.OfPush(sequence);
  SetAside(absent);
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    for (const StripeRun& run : fragments_.Runs(fragment_, shard)) {
      for (uint32_t stripe = run.first; stripe < run.end; ++stripe) {
        EncodeStripe(gradient, shard, stripe);
      }
    }
  }
  PutBack(absent);
  ForgetValues();
}

void PushEncoder::SetAside(std::span<const TensorSlice> absent) {
  aside_.clear();
  for (const TensorSlice& tensor : absent) {
    if (!residual_.empty()) {
      const std::span<float> left =
          std::span(residual_).subspan(tensor.floats.begin, tensor.floats.size());
      aside_.insert(aside_.end(), left.begin(), left.end());
      std::ranges::fill(left, 0.0f);
    }
  }
}

void PushEncoder::PutBack(std::span<const TensorSlice> absent) {
  std::span<const float> left = aside_;
  for (const TensorSlice& tensor : absent) {
    if (!residual_.empty()) {
      std::ranges::copy(left.first(tensor.floats.size()),
                        residual_.begin() + static_cast<ptrdiff_t>(tensor.floats.begin));
      left = left.subspan(tensor.floats.size());
    }
  }
}

void PushEncoder::ForgetValues() {
  for (const Slice& part : values_) {
    if (!residual_.empty()) {
      std::ranges::fill(std::span(residual_).subspan(part.begin, part.size()), 0.0f);
    }
  }
}

void PushEncoder::UseEncoded(std::span<const std::byte> bytes,
                             std::span<const TensorSlice> absent) {
  CHECK(IsHalf(format_));
  CHECK(fragments_.whole());
  CHECK_EQ(bytes.size(), shard_place_[0].back().end);
  given_ = bytes;
  SetAbsent(absent);
}

std::span<const std::byte> PushEncoder::all() const {
  return !given_.empty()      ? given_
         : !gradient_.empty() ? std::as_bytes(gradient_)
                              : std::span<const std::byte>(encoded_);
}

std::span<const std::byte> PushEncoder::Bytes(uint32_t shard, uint32_t first, uint32_t end) const {
  const size_t begin = place_[shard][first].begin;
  return all().subspan(begin, place_[shard][end - 1].end - begin);
}

std::span<const std::byte> PushEncoder::ShardBytes(uint32_t shard) const {
  const Slice place = shard_place_[fragment_][shard];
  return all().subspan(place.begin, place.size());
}

void PushEncoder::Refused(uint32_t shard, uint32_t stripe) {
  if (residual_.empty()) {
    return;  // FLOAT32 keeps nothing
  }
  // What the stripe was refused for is in its residual, too: one value that is too large makes
  // every other one coarse.
  const Slice slice = map_.stripe(shard, stripe);
  std::ranges::fill(std::span(residual_).subspan(slice.begin, slice.size()), 0.0f);
}

}  // namespace monsoon
