// Waiting for what another thread or process does.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace monsoon::testing {

// Polls `done` until it holds; false after `timeout`.
bool PollUntil(absl::Duration timeout, const std::function<bool()>& done);

}  // namespace monsoon::testing
