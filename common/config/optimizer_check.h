// The meaning of Downpour and Optimizer settings. Internal to config.
#pragma once

#include <string>

#include "common/config/reporter.h"
#include "proto/job.pb.h"

namespace monsoon {

// Tells `reporter` everything wrong with the settings under `path`.
void CheckDownpour(const Downpour& downpour, const std::string& path, Reporter* reporter);
void CheckOptimizer(const Optimizer& optimizer, const std::string& path, Reporter* reporter);

}  // namespace monsoon
