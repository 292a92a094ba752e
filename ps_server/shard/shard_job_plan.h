// What a shard makes of a request to create a job, before it takes any memory for it.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {

// What a CreateJob request comes to, before any memory is taken.
struct ShardJobPlan {
  ParameterLayout layout;
  ShardMap map;
  SharedShape shape;                           // without the epoch
  std::shared_ptr<RateReductions> reductions;  // null: no PlateauSchedule
  std::unique_ptr<OptimizerKernel> kernel;
  uint64_t state_bytes = 0;  // of the arena for the optimizer state; 0: there is none
  // Parameters and optimizer state of the slice, once more where it only stores, and what the shard
  // keeps beside them, the request included.
  uint64_t memory_bytes = 0;
};

// Of a job's name, and of a request to create one.
inline constexpr size_t kMaxJobName = 128;
inline constexpr size_t kMaxCreateRequestBytes = 256 << 10;

// InvalidArgument says what is wrong with the request. Takes time and memory for
// the model's layers, whatever the sizes that the request names.
absl::StatusOr<ShardJobPlan> PlanJob(const CreateShardJobRequest& request);

// Whether the two make the same slice: what may change while a job trains (ChangeSettings) may be
// another one where their revisions are.
bool IsSameSlice(const CreateShardJobRequest& a, const CreateShardJobRequest& b);

// Floats in front of the states: a page, after which the first one does not begin
// where its parameters do within a page (FloatArena::kStagger). None for stripes
// that are smaller than a page.
size_t StateLead(const OptimizerKernel& kernel, const ShardMap& map, StateBehind behind);

}  // namespace monsoon
