// What a job's settings ask of its test set's figures, and what its loss can tell.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "common/config/reporter.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"

namespace monsoon {

// Accuracies of a loss that tells none; PlateauSchedule, Stop.early and Dataset.class_name. Without
// a layout only what needs none.
void CheckTestFigures(const Job& job, const std::optional<ParameterLayout>& layout,
                      Reporter* reporter);

// An error for each setting that goes by the test set's accuracy, where there is none: `why`.
void RefuseAccuracies(const Job& job, absl::string_view why, Reporter* reporter);

}  // namespace monsoon
