// What people are told of shards that a job waits for.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/registry.h"

namespace monsoon {

// The shards that do not answer, and since when; "": all do.
std::string MissingShards(const Registry& registry, absl::Duration now);
// The shards that the job waits for, and why; "": none.
std::string ShardReason(const JobRecord& job, const Registry& registry, absl::Duration now);
// The first of them, and how many more there are: a line must stay readable.
std::string JoinSome(const std::vector<std::string>& names);

}  // namespace monsoon
