// TrainingRound: one batch for each replica of the group, all at the same parameters, and the one
// gradient that they come to: the sum over the batches, in their order, without those whose loss
// is no finite number.
//
//   while (round.room() > 0 && MoreBatches()) round.Add(batch, last_of);
//   RETURN_IF_ERROR(round.Compute(gradient));
//   RETURN_IF_ERROR(round.Judge(parameters));
//   ASSIGN_OR_RETURN(const bool some, round.Sum(gradient));
//   ... what the gradient is for ...
//   round.End(); round.Count(duration, stepping);
//
// An empty `gradient` stands for the one on the group's first device, where it then stays.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/model/parameter_layout.h"
#include "common/model/tensor_slices.h"
#include "proto/coordinator.pb.h"
#include "worker/downpour/difference_weight.h"
#include "worker/downpour/downpour_options.h"
#include "worker/downpour/round_judge.h"
#include "worker/downpour/statistics_keeper.h"
#include "worker/group/replica_group.h"
#include "worker/nn/batch.h"
#include "worker/nn/step_result.h"
#include "worker/session/done_part.h"
#include "worker/session/replica_stats.h"

namespace monsoon {

class TrainingRound {
 public:
  // All must outlive this; `group` may be lent out between rounds.
  TrainingRound(const DownpourRunnerOptions& options, const ParameterLayout* layout,
                ReplicaGroup* group, const StatisticsKeeper* statistics, StatsCollector* stats);

  // Batches that the round can still take, at least one when none is there.
  size_t room() const { return group_->room(); }
  // See ReplicaGroup::Add. `last_of`: it ends this block.
  void Add(Batch* batch, const std::optional<BlockId>& last_of);
  // The round ends this part, too.
  void FinishPart(DonePart part) { ending_.push_back(std::move(part)); }

  absl::Status Compute(std::span<float> gradient);
  // Drops batches that must not be used, or the errors of RoundJudge.
  absl::Status Judge(std::span<const float> parameters);
  // The gradient of those that were not dropped; false when none is left.
  absl::StatusOr<bool> Sum(std::span<float> gradient);

  // Tensors of which none of those has a gradient.
  std::vector<TensorSlice> absent() const;

  // What ends in the round.
  const std::vector<DonePart>& ending() const { return ending_; }
  // Counts the steps, and those that were not dropped for the weight of their push.
  void End(DifferenceWeigher* weigher);
  // Once the round is over, with the time that it took: counts its figures, and sums them up
  // over the batches that were not dropped. `stepping`: what the replica's own optimizer took.
  StepResult Count(absl::Duration duration, absl::Duration stepping) const;

  // A push was refused: see RoundJudge.
  absl::Status Refused(const std::string& refusal, std::span<const float> gradient) {
    return judge_.Refused(Where(), refusal, gradient);
  }
  void Accepted() { judge_.Accepted(); }
  bool wants_fetched() const { return judge_.wants_fetched(); }
  void NoteFetched(std::span<const float> parameters) { judge_.NoteFetched(parameters); }

  // Batches of the round.
  size_t size() const { return group_->size(); }
  bool dropped(size_t i) const { return group_->dropped(i); }
  // Steps before the round, or with the round once it is over.
  uint64_t steps() const { return steps_; }
  // Names worker and step, for messages.
  std::string Where(size_t i = 0) const;

 private:
  const uint32_t worker_;
  const uint64_t seed_;
  const double step_clip_norm_;
  ReplicaGroup* const group_;
  const StatisticsKeeper* const statistics_;
  StatsCollector* const stats_;
  RoundJudge judge_;
  std::vector<DonePart> ending_;
  uint64_t steps_ = 0;
};

}  // namespace monsoon
