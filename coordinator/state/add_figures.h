// Sums of what sessions report.
#pragma once

#include "proto/coordinator.pb.h"

namespace monsoon {

// Adds a session's totals. What is no total becomes that of `stats`, the newer one: means of
// loss and accuracy, replicas, why it waits. Fingerprints and the time of a step stay out.
void AddFigures(const ReplicaStats& stats, ReplicaStats* sum);

}  // namespace monsoon
