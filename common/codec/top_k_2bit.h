// TOP_K_2BIT: the largest values of a stripe in 14 bits each, 12 for the index and 2 for
// the value: what SparseLoCo sends of its pseudo-gradients (Sarfi, Therien, Lidin and
// Belilovsky 2025, arXiv 2508.15706).
//
// A stripe is cut into chunks of 4096 values, the last of which may be shorter. With
// K = ceil(4096 share) a chunk of r values sends the k = ceil(K r / 4096) with the largest
// |x|, of equals the first: chunk after chunk
//
//   low, high   float32, 0 <= low <= high: the chunk's two magnitudes
//   k entries   of 14 bits, one after the other from the lowest bit of the first byte on:
//               bits 0 to 11 the index in the chunk, ascending; bit 12 is 1 for high, 0
//               for low; bit 13 is 1 for a value below 0
//   padding     bits of 0 up to a whole byte
//
// So a whole chunk takes 8 + ceil(14 K / 8) bytes: 120 at a share of 1/64, which is 0.029
// bytes a value. The length of a record tells K: a shard need not know the share.
//
// The magnitudes minimise the squared error of what is sent: the k sorted |x| are split in
// two where the sum of squares around both means is least (all splits are tried, which in
// one dimension is 2-means exactly), low and high are the means. A chunk of one entry has
// low = 0 and that value's |x| as high. If some of the k are not finite, those are the
// upper part and high is not finite either.
//
// Decode refuses a length that no K gives, indices that do not ascend or lie beyond a
// short last chunk, a magnitude below 0, high below low, and padding that is not 0. A
// magnitude that is not finite is decoded: it tells of a gradient that is not.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "common/codec/tensor_codec.h"

namespace monsoon {

class TopK2BitCodec : public TensorCodec {
 public:
  // `share` in (0, 0.5].
  explicit TopK2BitCodec(double share);

  size_t EncodedBytes(size_t floats) const override;
  void Encode(std::span<const float> in, std::span<std::byte> out) const override;
  absl::Status CheckLength(size_t bytes, size_t floats) const override;
  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override;

 private:
  const size_t whole_;  // K: how many values a whole chunk sends
};

}  // namespace monsoon
