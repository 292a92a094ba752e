// What the classes of a test set's training set are called, where it is of another kind of source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/data_context.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// In the order of their numbers; of a training set whose labels are numbers without names none.
// Nothing where there is no training set, or one of the same kind as `dataset`, which has rules of
// its own. InvalidArgument where `dataset` has other names than these. May read the training set.
absl::StatusOr<std::optional<std::vector<std::string>>> TrainingClasses(const Dataset& dataset,
                                                                        const DataContext& context);

}  // namespace monsoon
