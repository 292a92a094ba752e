// bfloat16 and IEEE binary16 (float16), two bytes a value, rounded to nearest
// and even. NaN stays NaN, infinity stays infinity. A finite value beyond the
// largest one becomes the largest one, with its sign: a push must not turn
// infinite on the way.
#pragma once

#include "common/codec/tensor_codec.h"

namespace monsoon {

class Bfloat16Codec : public TensorCodec {
 public:
  size_t EncodedBytes(size_t floats) const override { return 2 * floats; }
  void Encode(std::span<const float> in, std::span<std::byte> out) const override;
  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override;
  std::optional<uint64_t> FirstNonFinite(std::span<const std::byte> in) const override;
};

class Float16Codec : public TensorCodec {
 public:
  size_t EncodedBytes(size_t floats) const override { return 2 * floats; }
  void Encode(std::span<const float> in, std::span<std::byte> out) const override;
  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override;
  std::optional<uint64_t> FirstNonFinite(std::span<const std::byte> in) const override;
};

}  // namespace monsoon
