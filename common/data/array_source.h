// The arrays of an npy or npz source, whose rules about types and shapes are the same.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "common/data/joined_array.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// Integers in samples are exact in float32 up to here, in amount.
inline constexpr double kMaxInteger = 1 << 24;

struct SampleArrays {
  JoinedArray images;                  // uint8, float32 or an integer type, [n, ...]
  std::optional<JoinedArray> labels;   // an integer type, [n] or [n, steps]
  std::optional<JoinedArray> targets;  // or in their place: float32 or float64, [n] or [n, targets]
  std::optional<JoinedArray> weights;  // float32 or float64, [n]

  // Of a sample, as DatasetInfo has them.
  uint64_t labels_per_sample() const { return labels ? labels->row_elements() : targets ? 0 : 1; }
  uint64_t targets_per_sample() const { return targets ? targets->row_elements() : 0; }
};

// Of a data set of either source. Labels are there unless `context.unlabelled`. InvalidArgument
// names the file, the array, what was expected and what was found.
absl::StatusOr<SampleArrays> OpenSampleArrays(const Dataset& dataset, const DataContext& context);

// InvalidArgument, naming the array and the sample, for a label that is not a class number, a
// target that is not finite (CheckShare: not in [0, 1]), a weight that is not finite or is below 0,
// an integer beyond kMaxInteger. `sample` is its row.
absl::Status CheckLabel(const JoinedArray& array, double value, uint64_t sample, Quoting quoting);
absl::Status CheckTarget(const JoinedArray& array, double value, uint64_t sample, Quoting quoting);
absl::Status CheckShare(const JoinedArray& array, double value, uint64_t sample, Quoting quoting);
absl::Status CheckWeight(const JoinedArray& array, double value, uint64_t sample, Quoting quoting);
absl::Status CheckInteger(const JoinedArray& array, double value, uint64_t sample, Quoting quoting);

}  // namespace monsoon
