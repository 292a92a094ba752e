// The kernel of a job for one range of its parameter vector. As OptimizerKernel::Create, but
// tensors of an Optimizer.group are updated as that says (OfGroup), or stay as they are where it
// is frozen; with weight_decay_weights_only biases are updated without decay, of whatever group;
// and statistics: their g is subtracted as it is, without decay, clip_value, rate or optimizer
// (ApplyPush: is a value to go towards), and their state stays. With Optimizer.muon that moves the
// matrices (MuonKernel), and the optimizer's kind what is left; such a kernel is for Apply and
// ApplyAndTell of whole vectors alone, its state is that of whichever needs more, and all its
// matrices work in one memory (MuonScratch), in turn.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/tensor_ranges.h"

namespace monsoon {

// `tensors` have parts of `range` alone. The kernel is for spans of the whole range only.
// `reductions` as in RateSchedule. Errors are those of OptimizerKernel::Create, for each group; and
// InvalidArgument for a muon without matrices.
absl::StatusOr<std::unique_ptr<OptimizerKernel>> CreateRangeKernel(
    const Optimizer& optimizer, const TensorRanges& tensors, const Slice& range,
    const std::shared_ptr<const RateReductions>& reductions = nullptr);

}  // namespace monsoon
