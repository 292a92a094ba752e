// The meaning of a job, apart from how it was read. Internal to config.
#pragma once

#include "common/config/data_advice.h"
#include "common/config/reporter.h"
#include "common/config/sets_check.h"
#include "common/data/access/data_access.h"
#include "proto/job.pb.h"

namespace monsoon {

// Tells `reporter` everything wrong with `job`. The model is inlined and paths
// are absolute. Gives what it found in files, if it looked.
CheckedData CheckJob(const Job& job, DataCheck data_check, const DataAccess& access,
                     Reporter* reporter);

}  // namespace monsoon
