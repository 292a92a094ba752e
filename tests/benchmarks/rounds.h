// Runs contenders in turn, round by round, and keeps what each took: a machine
// whose speed drifts gives fair ratios within a round.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace monsoon {

struct Contender {
  std::string name;
  pid_t server = 0;  // its CPU seconds are measured too; 0: there is none
  // Before, during and after the clock runs. `finish` is called once a round,
  // after the last operation. `prepare`, `check` and `finish` may be empty.
  std::function<absl::Status()> prepare;
  std::function<absl::Status()> operate;
  std::function<absl::Status()> check;
  std::function<absl::Status()> finish;
};

// How long a contender's turn is: both must hold.
struct Turn {
  uint32_t operations = 5;
  double seconds = 0.2;
  uint32_t operations_per_call = 1;  // what one call of `operate` does
};

// Of one round: medians over the turn's calls, per operation.
struct Measurement {
  double seconds = 0;
  double client_cpu = 0;  // means over the turn
  double server_cpu = 0;
};

struct Workload {
  std::string name;
  double bytes = 0;  // that one operation moves or changes
  std::map<std::string, std::vector<Measurement>> contenders;
  std::map<std::string, std::string> absent;  // contender: why
  std::map<std::string, double> facts;
};

// Adds `rounds` measurements of each contender to `workload`. The first one of
// each is run once before, so that nobody pays for first touches. An error
// names the contender.
absl::Status RunRounds(uint32_t rounds, const Turn& turn, const std::vector<Contender>& contenders,
                       Workload* workload);

// All workloads as one JSON value: {"workloads":[...]}.
std::string ToJson(const std::vector<Workload>& workloads);

}  // namespace monsoon
