// What a worker answers where it is asked for the data files of a job (DataQuestion).
#pragma once

#include "common/data/access/data_access.h"
#include "proto/data_report.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

// Reads headers and labels, and the first and last bytes of each file; blocks on the disk. The
// report has no number and no term. What it says of a set is the same on all machines that have the
// same files, be they in other folders.
DataReport ReportData(const Job& job, const DataAccess& access);

}  // namespace monsoon
