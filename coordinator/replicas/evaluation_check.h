// What is to be said of a replica's result on the test set.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/job/job_record.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// What to say of `accuracy` on `examples` samples if guessing one of `classes`
// does as well; else "".
std::string AtChance(double accuracy, uint64_t examples, uint64_t classes);
// The same of the job's newest result, if that is of its final parameters.
std::string FinalAtChance(const JobRecord& job, uint64_t examples);
// What the program's evaluation does not give though the job needs it; "": nothing.
std::string MissingMetric(const JobRecord& job, const ReportEvaluationRequest& request);
// Some loss in it is not finite.
bool HasDiverged(const ReportEvaluationRequest& request);

}  // namespace monsoon
