// Where a job's parameters are, as the options of a client without a session: one that
// reads them, or writes them before the job's first session.
#pragma once

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

// INVALID_ARGUMENT where the shards do not fit the layout.
absl::StatusOr<ShardMap> ShardMapOf(const JobLocation& location, const ParameterLayout& layout);

// The same errors. The caller sets the deadline.
absl::StatusOr<ParameterClientOptions> ReadOnlyOptions(const JobLocation& location,
                                                       const ParameterLayout& layout);

}  // namespace monsoon
