// The meaning of a job, apart from how it was read. Internal to config.
#pragma once

#include <cstdint>

#include "common/config/data_advice.h"
#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// How much of the data sets is looked at.
enum class DataCheck {
  kNothing,
  kHeaders,  // and labels: held against the model and the batch
  kValues,   // every sample too, for values that are not finite and damage
};

// Tells `reporter` everything wrong with `job`. The model is inlined and paths
// are absolute. Gives what it found in files, if it looked.
CheckedData CheckJob(const Job& job, DataCheck data_check, Reporter* reporter);

// Holds what a job takes from its training data of `examples` samples against
// it.
void CheckExamples(const Job& job, uint64_t examples, Reporter* reporter);

}  // namespace monsoon
