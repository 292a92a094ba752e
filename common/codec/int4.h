// INT4: as INT8 (int8.h), with a scale = largest |x| of the block / 7 and q in
// [-7, 7]. The scales of all blocks (float32) come first, then the q, two a byte in
// two's complement: value 2 i in the low half of byte i, value 2 i + 1 in the high
// half, which is 0 where an odd number of values ends.
//
// The range is symmetric, so that x and -x lose the same: -8 does not occur, nor does a
// scale below 0. Decode refuses both, and a last half that should be 0 and is not.
#pragma once

#include "common/codec/tensor_codec.h"

namespace monsoon {

class Int4Codec : public TensorCodec {
 public:
  size_t EncodedBytes(size_t floats) const override;
  void Encode(std::span<const float> in, std::span<std::byte> out) const override;
  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override;
};

}  // namespace monsoon
