// What a worker is told of the session that it is to run.
#pragma once

#include "coordinator/job/job_record.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// `is_durable`: the job's shards keep generations (JobView).
Assignment AssignmentOf(const JobRecord& job, const SessionKey& session, const Cluster& cluster,
                        bool is_durable);

}  // namespace monsoon
