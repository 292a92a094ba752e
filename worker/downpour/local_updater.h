// LocalUpdater: moves the replica's own copy of the parameters between fetches
// (local_update of the job), and after a fetch puts its own newer gradients
// back on top, exactly once.
//
// Each step's displacement d is -rate(k) * g (SGD) or -rate(k) * g / (sqrt(h) +
// eps) with the replica's own h (Adagrad). rate(k) follows the schedule of the
// job's optimizer, with k the newest version that a fetch brought and the own
// pushes since: a warm-up that only the shards kept would have each replica
// compute its first gradients far from where the shards are, and Adagrad would
// remember them for good. Displacements are summed per push. A
// fetched stripe tells the last sequence of this session that it has applied;
// the displacements of later pushes, and of the steps not pushed yet, are added
// to it. So no own gradient is missed or counted twice, and h sees each once.
//
// All vectors lie at one place, the host's memory or the device that computes: spans of
// parameters and gradients are of that place.
//
// Memory: the vector's size for h, for the open push, and for each push that was not acknowledged
// when the fetch in flight began.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/nn/vector_place.h"

namespace monsoon {

class LocalUpdater {
 public:
  // Null without `local_update`. InvalidArgument for a rate that is not
  // positive and finite. Of `statistics` (StatisticRanges) a step subtracts the gradient as
  // it is, as the shards do; with some the place must be the host's.
  static absl::StatusOr<std::unique_ptr<LocalUpdater>> Create(
      const Downpour& downpour, const ShardMap& map, const std::vector<Slice>& statistics = {});

  // Where the vectors are to lie, at first and with null in the host's memory; before the first
  // Step. `place` outlives this. All as before after ResourceExhausted, where there is no room,
  // and Unimplemented, where the optimizer has no step for a device (StepAt).
  absl::Status MoveTo(VectorPlace* place);

  // One step's gradient: moves `w` and remembers the displacement.
  void Step(std::span<const float> gradient, std::span<float> w);

  // The steps since the last Seal leave as the push with this sequence. ResourceExhausted
  // where the place has no room to remember another one: the session cannot go on.
  absl::Status Seal(uint64_t sequence);

  // That push was refused and moves nothing on the shards.
  void Drop(uint64_t sequence);

  // All shards have that push: a fetch that starts later contains it.
  void Acknowledge(uint64_t sequence);
  // No fetch is in flight that started before now: acknowledged pushes are
  // forgotten.
  void ForgetAcknowledged();

  // `w` was fetched with `marks`: adds what it does not contain yet, and
  // forgets what all stripes have. Marks of a stripe never go back.
  void Rebase(const FetchMarks& marks, std::span<float> w);

  // Sealed pushes kept.
  size_t pending() const { return pending_.size(); }

 private:
  using Floats = std::unique_ptr<PlacedFloats>;
  struct Pending {
    uint64_t sequence = 0;
    bool acknowledged = false;
    Floats displacement;
  };

  LocalUpdater(std::unique_ptr<OptimizerKernel> kernel, const ShardMap& map);
  absl::StatusOr<Floats> TakeBuffer();
  // Adds what the stripes of `marks` do not contain of it.
  void AddPending(const Pending& push, const FetchMarks& marks, std::span<float> w);

  const std::unique_ptr<OptimizerKernel> kernel_;
  const ShardMap map_;
  HostPlace host_;
  VectorPlace* place_ = &host_;
  Floats state_;
  Floats open_;  // displacement of the steps not sealed yet
  bool open_empty_ = true;
  std::deque<Pending> pending_;  // sequences ascend
  uint64_t version_ = 0;         // newest fetched, and own pushes since
  std::vector<Floats> free_;
};

}  // namespace monsoon
