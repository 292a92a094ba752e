// INT8: blocks of 256 floats, each with a scale = largest |x| / 127; a value is
// scale * q with q in [-127, 127], rounded to nearest and even. The scales of
// all blocks (float32) come first, then the values, a byte each. A block with a
// value that is not finite has a scale that is not finite.
#pragma once

#include "common/codec/tensor_codec.h"

namespace monsoon {

class Int8Codec : public TensorCodec {
 public:
  size_t EncodedBytes(size_t floats) const override;
  void Encode(std::span<const float> in, std::span<std::byte> out) const override;
  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override;
};

}  // namespace monsoon
