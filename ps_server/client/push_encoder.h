// PushEncoder: the bytes of one push at a time, each stripe by itself, in the
// push format of the job (TensorCodec).
//
// What a lossy format leaves out is kept as a residual and added to the next
// gradient. A push that is tried again leaves with the same bytes, whatever was
// lost on the way: it is encoded once a sequence. The residual ends with its
// session.
//
// Memory: none for FLOAT32; else two vectors of floats and the encoded bytes.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/model/shard_map.h"
#include "proto/wire_format.pb.h"

namespace monsoon {

class PushEncoder {
 public:
  // `codec` is that of `format`.
  PushEncoder(const ShardMap& map, WireFormat format, std::unique_ptr<TensorCodec> codec);

  WireFormat format() const { return format_; }

  // Encodes `gradient` (map.size() finite floats), unless `sequence`, which
  // grows, is what was encoded last. For FLOAT32 the bytes are those of
  // `gradient` itself, which must outlive their use.
  void Encode(uint64_t sequence, std::span<const float> gradient);
  // The same of what the pusher has encoded: the bytes of the whole vector, which must
  // outlive their use.
  void UseEncoded(std::span<const std::byte> bytes);
  // How much what was encoded last counts.
  void set_weight(float weight) { weight_ = weight; }
  float weight() const { return weight_; }

  // What Bytes() gives is the pusher's own memory.
  bool as_it_is() const { return format_ == FLOAT32 || !given_.empty(); }

  // Bytes of stripes [first, end) of `shard`, of what was encoded last.
  std::span<const std::byte> Bytes(uint32_t shard, uint32_t first, uint32_t end) const;
  size_t StripeBytes(uint32_t shard, uint32_t stripe) const;

  // The shard refused that stripe of the last push: its content leaves with the
  // next one. One that is not finite is given up, and the stripe's residual
  // with it.
  void Refused(uint32_t shard, uint32_t stripe);

 private:
  // Where stripe begins in encoded_.
  size_t Offset(uint32_t shard, uint32_t stripe) const { return offset_[shard][stripe]; }

  const ShardMap map_;
  const WireFormat format_;
  const std::unique_ptr<TensorCodec> codec_;
  std::vector<std::vector<size_t>> offset_;  // [shard][stripe], and the end of the shard
  uint64_t sequence_ = 0;
  float weight_ = 1;
  std::span<const float> gradient_;   // FLOAT32
  std::span<const std::byte> given_;  // encoded by the pusher
  std::vector<float> residual_;
  std::vector<float> scratch_;  // one stripe
  std::vector<std::byte> encoded_;
};

}  // namespace monsoon
