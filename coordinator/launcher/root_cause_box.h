// The box that `up` shows when a task ends by itself.
#pragma once

#include <sys/types.h>

#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/process/subprocess.h"

namespace monsoon {

// Lines, each with its end:
//
//   +---- worker/1 died: killed by signal 9 (SIGKILL); pid 4711, after 12.3 s
//   | last lines of its log:
//   |   12:30:01.250 I worker/1] step 100
//   | it starts again in 2 s, restart 2 (--restart=all); death 2 of 5 in a row
//   +----
std::string RootCauseBox(const std::string& task, pid_t pid, const ProcessEnd& end,
                         absl::Duration lived, const std::deque<std::string>& last_lines,
                         absl::string_view consequence);

}  // namespace monsoon
