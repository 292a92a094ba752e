// The meaning of a job, apart from how it was read. Internal to config.
#pragma once

#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// Tells `reporter` everything wrong with `job`. The model is inlined and paths
// are absolute. With `check_data_files` the data sets' headers and labels are
// read and held against the model and the batch.
void CheckJob(const Job& job, bool check_data_files, Reporter* reporter);

}  // namespace monsoon
