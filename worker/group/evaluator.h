// Evaluates a model on a whole data set, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/data_source.h"
#include "worker/group/replica_group.h"
#include "worker/nn/loss_plan.h"
#include "worker/nn/network.h"
#include "worker/nn/predictions.h"
#include "worker/nn/test_figures.h"

namespace monsoon {

// What jobs that do not say use: large enough for the kernels, small enough
// for the caches.
inline constexpr uint32_t kDefaultEvaluationBatch = 500;

// Sums over all samples with the parameters that `group` has, the batches shared
// by its replicas and added in order; and metrics, where loss and accuracy are not all.
// `stopped` is asked between rounds: true ends it with CANCELLED; may be null. `figures`, if it
// is there, gets all that is known of single samples.
absl::StatusOr<EvaluationResult> EvaluateAll(ReplicaGroup* group, const DataSource& source,
                                             uint32_t batch_size,
                                             const std::function<bool()>& stopped = nullptr,
                                             TestFigures* figures = nullptr);

// The predictions of a network of `loss` for all samples, in order: `take` gets those of a batch,
// labels too; its error ends it. InvalidArgument names the first sample for which the network's
// outputs are not finite.
absl::Status PredictAll(Network* network, const LossPlan& loss, const DataSource& source,
                        uint32_t batch_size,
                        const std::function<absl::Status(const PredictionSpans&)>& take);

}  // namespace monsoon
