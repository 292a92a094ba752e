// SimulatedProcess: whether a process of a simulated cluster is there, and stands still.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace monsoon::simulation {

struct SimulatedProcess {
  bool alive = false;
  uint64_t life = 0;        // grows with each start
  absl::Duration wakes_at;  // it stands still until then
};

// One life of a process, for what that life does.
struct ProcessLife {
  explicit ProcessLife(const SimulatedProcess* of)
      : process(of), life(of == nullptr ? 0 : of->life) {}

  bool over() const { return process != nullptr && (!process->alive || process->life != life); }
  // Until when it stands still; zero: it does not. What is over stands still for nobody.
  absl::Duration wakes_at() const {
    return process == nullptr || over() ? absl::ZeroDuration() : process->wakes_at;
  }

  const SimulatedProcess* process;  // null: of none, and for ever
  uint64_t life;
};

}  // namespace monsoon::simulation
