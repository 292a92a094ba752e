// What `watch` shows of a job: lines for logs and scripts, a screen for people.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace monsoon {

// A line of progress and one a worker, without a last newline; "-" stands for
// what is not measured. Latencies are those of the last seconds.
//
//   t=12.0 job=lenet-1 state=RUNNING epoch=3.20/10 percent=32.0 step=1499 ...
//     worker=0 state=RUNNING step=500 ex_s=1770 stale_p50=1 age_s=0.2
//
// Once a job's batch part has begun, its line is
//
//   t=12.0 job=lenet-1 state=RUNNING iteration=3 percent=3.0 f=0.4312 grad=1.2e-02 ...
//
// While the job has a reason to wait, the line ends with it: reason="waits for ps/1 ...".
std::string WatchLines(const JobDescription& job);

// "done job=lenet-1 state=SUCCEEDED test_acc=0.8854 elapsed_s=131", and the reason
// of the end as in WatchLines, if it has one. Of a batch job also how it ended:
// end="stalled: F 1.0871, ...".
std::string DoneLine(const JobDescription& job);

struct ScreenOptions {
  int columns = 80;
  int rows = 24;
  bool color = false;
};

// The screen's lines: at most `rows` less the one that the cursor stands on, each
// at most `columns` wide (escapes not counted). Workers that find no room are
// counted by state in the last line.
std::vector<std::string> WatchScreen(const JobDescription& job, const ScreenOptions& options);

// "1:02:03", "2:03".
std::string FormatTimeLeft(double seconds);

}  // namespace monsoon
