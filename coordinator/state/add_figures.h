// Sums of what sessions report, as the fields of ReplicaStats say it (proto/figure.proto).
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>

#include "proto/coordinator.pb.h"

namespace monsoon {

// Adds a session's report, the newer one, to `sum`.
void AddFigures(const ReplicaStats& stats, ReplicaStats* sum);

// All totals together, which grow with everything that a session does.
uint64_t AllTotals(const ReplicaStats& stats);

// Sets the fields of `shown` to the totals of the same names.
void ShowTotals(const ReplicaStats& stats, google::protobuf::Message* shown);

}  // namespace monsoon
