// What a shard has lost of a worker's pushes, which is gone and cannot send them again.
#pragma once

#include "absl/time/time.h"
#include "coordinator/job/job_record.h"
#include "coordinator/job/registry.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// Becomes durable and is told, once: shards tell it again after each death.
void NoteLostPushes(JobRecord* job, const LostPushes& lost, absl::Duration now, Registry* registry);

}  // namespace monsoon
