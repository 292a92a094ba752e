// The kernel of a job for one range of its parameter vector. As
// OptimizerKernel::Create, but with weight_decay_weights_only seen to, biases in the range
// are updated without weight decay; and with statistics: their g is subtracted as it is, without
// decay, clip_value, rate or optimizer (ApplyPush: is a value to go towards), and their state
// stays.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"

namespace monsoon {

// `biases` (BiasRanges) and `statistics` (StatisticRanges) are each ascending parts of
// `range`, in global indices, and do not overlap. The kernel is for spans of the whole
// range only. `reductions` as in RateSchedule.
absl::StatusOr<std::unique_ptr<OptimizerKernel>> CreateRangeKernel(
    const Optimizer& optimizer, const std::vector<Slice>& biases,
    const std::vector<Slice>& statistics, const Slice& range,
    const std::shared_ptr<const RateReductions>& reductions = nullptr);

}  // namespace monsoon
