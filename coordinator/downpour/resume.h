// Jobs that go on from a checkpoint.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/downpour/downpour_options.h"
#include "coordinator/job/job_plan.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/job_table.h"
#include "proto/checkpoint.pb.h"

namespace monsoon {

// "JOB, generation N", for people.
std::string SourceOf(const ResumePoint& resume);
// INVALID_ARGUMENT for a resume point that does not fit the job.
absl::Status CheckResume(const JobPlan& plan, const JobTable::Submission& submission);
// With what the job resumes, if it does; `note`: what people should know of that.
DownpourOptions DownpourOptionsOf(const JobRecord& job, std::string* note);

}  // namespace monsoon
