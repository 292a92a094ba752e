// PushEncoder: the bytes of one push at a time, each stripe of its fragment by itself, in
// the push format of the job (TensorCodec).
//
// What a lossy format leaves out is kept as a residual and added to the next
// gradient. A push that is tried again leaves with the same bytes, whatever was
// lost on the way: it is encoded once a sequence. The residual ends with its
// session.
//
// Memory: none for FLOAT32 and whole models, and for what the pusher has encoded; else the encoded
// bytes, and but for FLOAT32 two vectors of floats.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "common/codec/tensor_codec.h"
#include "common/model/fragment_map.h"
#include "common/model/shard_map.h"
#include "common/model/tensor_slices.h"
#include "proto/wire_format.pb.h"

namespace monsoon {

class PushEncoder {
 public:
  // `codec` is that of `format`; `fragments` are of the map. Parts in `values` are no gradients but
  // what is to be reached: what a push leaves of them has no place in the next one. Of the rest
  // residual_decay times what is left joins the next push of its stripe (SparseLoCo, Sarfi et al.
  // 2025, arXiv 2508.15706, algorithm 1); 1: all of it.
  PushEncoder(const ShardMap& map, const FragmentMap& fragments, WireFormat format,
              std::unique_ptr<TensorCodec> codec, std::vector<Slice> values = {},
              double residual_decay = 1);

  WireFormat format() const { return format_; }

  // Encodes the push's fragment of `gradient` (map.size() finite floats), unless the push
  // `sequence`, which grows, is what was encoded last. For FLOAT32 and a whole model the bytes
  // are those of `gradient` itself, which must outlive their use. Of the tensors in `absent`, whose
  // floats count nothing, the residual waits for a push that has a gradient of them.
  void Encode(uint64_t sequence, std::span<const float> gradient,
              std::span<const TensorSlice> absent = {});
  // The same of what the pusher has encoded: the bytes of the whole vector, which must
  // outlive their use. Not of fragments.
  void UseEncoded(std::span<const std::byte> bytes, std::span<const TensorSlice> absent = {});
  // How much what was encoded last counts, and which part of a difference it is.
  void set_weight(float weight, float part = 1) {
    weight_ = weight;
    part_ = part;
  }
  void set_patience(absl::Duration patience) { patience_ = patience; }
  float weight() const { return weight_; }
  float part() const { return part_; }
  absl::Duration patience() const { return patience_; }
  // Numbers of the tensors that it says to be absent.
  const std::vector<uint32_t>& absent() const { return absent_; }

  // What Bytes() gives is the pusher's own memory.
  bool as_it_is() const { return (format_ == FLOAT32 && fragments_.whole()) || !given_.empty(); }

  // What was encoded last is of this fragment.
  uint32_t fragment() const { return fragment_; }
  // Bytes of stripes [first, end) of `shard`, neighbours in what was encoded last.
  std::span<const std::byte> Bytes(uint32_t shard, uint32_t first, uint32_t end) const;
  // Of all its stripes of `shard`, one after another.
  std::span<const std::byte> ShardBytes(uint32_t shard) const;
  size_t StripeBytes(uint32_t shard, uint32_t stripe) const { return place_[shard][stripe].size(); }

  // The shard refused that stripe of the last push: it is given up, and what it leaves out with
  // it, as a pusher's own floats are. A shard refuses what it could not take with the next push,
  // either; and whoever pushed differences begins anew with the shards' parameters.
  void Refused(uint32_t shard, uint32_t stripe);

 private:
  void SetAbsent(std::span<const TensorSlice> absent);
  // Of the fragment, encoded.
  std::span<const std::byte> all() const;
  void EncodeStripe(std::span<const float> gradient, uint32_t shard, uint32_t stripe);
  void ForgetValues();
  // Of the residual, what it has of the absent tensors: puts it aside and zeros in its place, or
  // back there.
  void SetAside(std::span<const TensorSlice> absent);
  void PutBack(std::span<const TensorSlice> absent);

  const ShardMap map_;
  const FragmentMap fragments_;
  const WireFormat format_;
  const std::unique_ptr<TensorCodec> codec_;
  const std::vector<Slice> values_;
  const float residual_decay_;
  std::vector<std::vector<Slice>> place_;        // [shard][stripe], in the bytes of its fragment
  std::vector<std::vector<Slice>> shard_place_;  // [fragment][shard]
  uint64_t sequence_ = 0;
  uint32_t fragment_ = 0;
  float weight_ = 1;
  float part_ = 1;
  absl::Duration patience_;
  std::vector<uint32_t> absent_;
  std::span<const float> gradient_;   // FLOAT32, whole
  std::span<const std::byte> given_;  // encoded by the pusher
  std::vector<float> residual_;
  std::vector<float> aside_;        // of absent tensors, one after another
  std::vector<float> scratch_;      // one stripe
  std::vector<std::byte> encoded_;  // of the largest fragment, once something is encoded here
};

}  // namespace monsoon
