// What a job's data sets are, held against its model and batch. Internal to config.
#pragma once

#include <cstdint>
#include <optional>

#include "common/config/data_advice.h"
#include "common/config/reporter.h"
#include "common/data/access/data_access.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"

namespace monsoon {

// How much of the data sets is looked at.
enum class DataCheck {
  kNothing,
  kWithoutFiles,  // only those that have no files, as kHeaders: the files are elsewhere
  kHeaders,       // and labels: held against the model and the batch
  kValues,        // every sample too, for values that are not finite and damage
};

// Tells `reporter` what is wrong. `layout` is the model's; none where that is wrong. Gives what it
// found in files, if it looked. Blocks on the disk.
CheckedData CheckSets(const Job& job, const std::optional<ParameterLayout>& layout,
                      DataCheck data_check, const DataAccess& access, Reporter* reporter);

// Holds what a job takes from its training data of `examples` samples against it.
void CheckExamples(const Job& job, uint64_t examples, Reporter* reporter);

}  // namespace monsoon
