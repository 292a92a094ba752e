// Evaluates a network on a whole data set, in order.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "worker/backend/network.h"
#include "worker/data/data_source.h"

namespace monsoon {

// What jobs that do not say use: large enough for the kernels, small enough
// for the caches.
inline constexpr uint32_t kDefaultEvaluationBatch = 500;

// Sums over all samples with the parameters that `network` has. `stopped` is
// asked between batches: true ends it with CANCELLED; may be null.
absl::StatusOr<EvaluationResult> EvaluateAll(Network* network, const DataSource& source,
                                             uint32_t batch_size,
                                             const std::function<bool()>& stopped = nullptr);

}  // namespace monsoon
