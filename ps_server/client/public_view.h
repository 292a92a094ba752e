// PublicView: what a client has of the shards' public copies (Downpour.fetch_changes), the same
// bits as they have.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/tensor_codec.h"
#include "common/model/shard_map.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class PublicView {
 public:
  // Changes travel in `format`. Takes a float for each of the map's.
  PublicView(const ShardMap& map, WireFormat format);

  // Makes `request`, for neighbouring stripes of the shard, one of changes from what is here.
  void AddKnown(uint32_t shard, FetchRequest* request) const;

  // An exchange begins. What its answers bring of a stripe is taken once: a request that is sent
  // again brings the same steps again.
  void BeginExchange() { ++exchange_; }
  // Takes the bytes that the shard's life `epoch` sends of a stripe, and copies what is here then
  // to `out`. False: this exchange has brought it before, and the record says nothing of what is
  // here. INTERNAL for what cannot be.
  absl::StatusOr<bool> Take(uint32_t shard, const FetchRecord& record, uint64_t epoch,
                            ChunkCursor* payload, std::span<float> out);

 private:
  struct Stripe {
    uint64_t epoch = 0;  // 0: nothing is here
    uint64_t version = 0;
    uint64_t taken = 0;  // in that exchange
  };

  const ShardMap map_;
  const TensorCodec* const codec_;
  std::vector<float> copy_;
  std::vector<std::vector<Stripe>> stripes_;  // [shard][stripe]
  uint64_t exchange_ = 0;
  std::vector<std::byte> bytes_;  // scratch
  std::vector<float> change_;     // scratch
};

}  // namespace monsoon
