// JSON of jobs, as `--json` prints it. Times are in the unit that the name
// ends in; null means not measured. MessageToJsonString of protobuf would print
// 64-bit integers as strings and leave unset fields out, so the fields are
// written here, by reflection.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "common/json/json_writer.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

// {"schema_version":1,"job":...}: the fields of JobDescription, in a fixed order.
// "sandblaster" is null until a job's batch part begins.
std::string DescribeJson(const JobDescription& description);

// Its member "durability" alone: an object, or null.
std::string DurabilityJson(const JobDescription& description);

// {"schema_version":1,"job":...}: one line of `jobs`, and the answer of cancel
// and delete.
std::string SummaryJson(const JobSummary& summary);

// {"schema_version":1,"jobs":[...]}.
std::string JobsJson(const ListReply& jobs);

}  // namespace monsoon
