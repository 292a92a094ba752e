// TOP_K: the k = ceil(share * n) values with the largest |x|, the others as
// zero; of equals the first. First their indices in the stripe (uint32,
// ascending), then the values (float32) in the same order.
#pragma once

#include "common/codec/tensor_codec.h"

namespace monsoon {

class TopKCodec : public TensorCodec {
 public:
  // `share` in (0, 0.5].
  explicit TopKCodec(double share) : share_(share) {}

  size_t EncodedBytes(size_t floats) const override;
  void Encode(std::span<const float> in, std::span<std::byte> out) const override;
  absl::Status CheckLength(size_t bytes, size_t floats) const override;
  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override;

 private:
  size_t Count(size_t floats) const;

  const double share_;
};

}  // namespace monsoon
