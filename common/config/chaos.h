// Loading a plan of `coordinator chaos`: syntax, meaning and defaults in one step.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/diagnostics.h"
#include "proto/chaos.pb.h"

namespace monsoon {

// Reads and judges the file (or `contents`, unless null, in its place). On an error the
// status holds a line for each mistake and `diagnostics`, if given, receives them.
// Whether a cluster has the tasks is not judged here.
absl::StatusOr<ChaosPlan> LoadChaosPlan(const std::string& path,
                                        std::vector<Diagnostic>* diagnostics = nullptr,
                                        const std::string* contents = nullptr);

// The same judgement of a message without a file; defaults may be unset.
absl::Status ValidateChaosPlan(const ChaosPlan& plan);

// Fills in what chaos.proto says about unset fields; afterwards every span has both ends,
// and `times` is 0 only where until_the_end is set.
void FillChaosDefaults(ChaosPlan* plan);

}  // namespace monsoon
