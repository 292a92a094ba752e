// Gaussian clusters, one per class, made on demand: sample i has the label
// i mod classes and the values centre(label) + noise * N(0, 1), all from
// Philox streams keyed by (center_seed, class, value) and (seed, i, value).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "worker/data/in_memory_dataset.h"

namespace monsoon {

// Kept in memory up to kSyntheticMemoryBytes, made at each Gather beyond.
inline constexpr uint64_t kSyntheticMemoryBytes = 256 << 20;

// `values` floats a sample; the first `limit` samples (0: all).
// InvalidArgument for no samples, no classes, or 2^32 samples and more.
absl::StatusOr<std::unique_ptr<DataSource>> MakeSynthetic(const SyntheticSource& source,
                                                          size_t values, uint64_t limit,
                                                          const Normalisation& normalisation);

}  // namespace monsoon
