// What `chaos` tells: each fault as it happens, and at the end what was done and what the
// job lost.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/chaos/chaos_runner.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

struct ChaosReport {
  JobDescription before;  // the job at the start
  JobDescription after;   // the newest that is known of it
  uint64_t seed = 0;
  absl::Duration elapsed;
  std::vector<FaultRecord> faults;
  std::optional<uint64_t> planned;  // of the faults; nothing: as many as come
  std::string error;                // why the run was given up; "": it was not
};

// {"schema_version":1,"job":...}; "durability" is that of `describe`.
std::string ChaosReportJson(const ChaosReport& report);
// A table of the faults, and lines on the job; ends with a newline.
std::string ChaosReportText(const ChaosReport& report);

// "t=3.2 KILL ps/0 (pid 4711)"
std::string FaultBegunLine(const FaultRecord& fault);
// "t=4.1 ps/0 is back after 0.9 s, pid 4732"; `now` counts from the start of the run.
std::string FaultOverLine(const FaultRecord& fault, absl::Duration now);

}  // namespace monsoon
