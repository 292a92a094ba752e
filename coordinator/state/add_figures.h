// Sums of what sessions report, as the fields of ReplicaStats say it (proto/figure.proto).
#pragma once

#include "proto/coordinator.pb.h"

namespace monsoon {

// Adds a session's report, the newer one, to `sum`.
void AddFigures(const ReplicaStats& stats, ReplicaStats* sum);

}  // namespace monsoon
