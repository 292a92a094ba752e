// What a job's settings ask of its test set's figures, and what its loss can tell.
#pragma once

#include <optional>

#include "common/config/reporter.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"

namespace monsoon {

// Accuracies of a loss that tells none; PlateauSchedule, Stop.early and Dataset.class_name. Without
// a layout only what needs none.
void CheckTestFigures(const Job& job, const std::optional<ParameterLayout>& layout,
                      Reporter* reporter);

}  // namespace monsoon
