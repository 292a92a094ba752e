// The meaning of a job, apart from how it was read. Internal to config.
#pragma once

#include <cstdint>

#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// Tells `reporter` everything wrong with `job`. The model is inlined and paths
// are absolute. With `check_data_files` the data sets' headers and labels are
// read and held against the model and the batch.
void CheckJob(const Job& job, bool check_data_files, Reporter* reporter);

// Holds what a job takes from its training data of `examples` samples against
// it.
void CheckExamples(const Job& job, uint64_t examples, Reporter* reporter);

}  // namespace monsoon
