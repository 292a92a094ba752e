// DescribeJob: what `describe --json` shows of a job.
#pragma once

#include "absl/time/time.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/registry.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// Figures that were not measured stay unset. The rates of a job that has ended
// are means over its training, those of a running one over the last seconds.
JobDescription DescribeJob(const JobRecord& job, const JobSummary& summary,
                           const Registry& registry, absl::Duration now);

}  // namespace monsoon
