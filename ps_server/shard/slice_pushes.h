// SlicePushes: takes the records of pushes and contributions, and gives each a verdict.
//
// A record is validated whole before any state changes, on bytes that its sender can no longer
// change. Thread safe: a push takes the locks of the stripes that it touches, one after another,
// and no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "common/memory/aligned_floats.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/slice_figures.h"
#include "ps_server/shard/slice_stripes.h"
#include "ps_server/shard/validation.h"
#include "ps_server/vector/memory_budget.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {

class SlicePushes {
 public:
  // All outlive this.
  SlicePushes(const JobFacts* facts, SliceStripes* stripes, VectorStore* vectors,
              SliceFigures* figures, MemoryBudget* budget)
      : facts_(*facts), stripes_(stripes), vectors_(vectors), figures_(figures), budget_(budget) {}

  // Applies the records of a frame that passed ValidatePushFrame. `scratch`
  // holds one stripe at least, and grows when a record must be decoded.
  // `draining` refuses them all.
  PushReply Push(const PushRequest& request, ChunkCursor* payload, AlignedFloats* scratch,
                 bool draining);

  // Adds the records of a frame that passed ValidateContributeFrame to the sums
  // of an evaluation. A session that is closed meanwhile may still add: a
  // contribution does not depend on who computed it.
  PushReply Contribute(const ContributeRequest& request, ChunkCursor* payload,
                       AlignedFloats* scratch, bool draining);

 private:
  // A record's content, decoded.
  struct Content {
    // Where they came if they are FLOAT32 and lie in one piece, else in the scratch;
    // empty if the record has not the stripe's length.
    std::span<const float> values;
    bool finite = false;     // known to be
    absl::Status malformed;  // why it could not be decoded
  };

  PushVerdict PushRecordOf(const PushRequest& request, const PushRecord& record,
                           ChunkCursor* payload, AlignedFloats* scratch);
  PushVerdict ContributeRecordOf(const ContributeRequest& request, const ContributeRecord& record,
                                 ChunkCursor* payload, AlignedFloats* scratch);
  Content TakeContent(uint32_t stripe, WireFormat format, uint32_t length, ChunkCursor* payload,
                      AlignedFloats* scratch) const;
  void Finish(uint32_t stripe, uint64_t sequence, PushVerdict verdict, PushReply* reply);

  const JobFacts& facts_;
  SliceStripes* const stripes_;
  VectorStore* const vectors_;
  SliceFigures* const figures_;
  MemoryBudget* const budget_;
};

}  // namespace monsoon
