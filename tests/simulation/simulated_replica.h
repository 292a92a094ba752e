// SimulatedReplica: a process of a simulated cluster that trains: a worker, or a program with its
// sidecar.
//
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/simulated_process.h"

namespace monsoon::simulation {

class SimulatedReplica {
 public:
  virtual ~SimulatedReplica() = default;

  SimulatedProcess process;

  virtual void Start() = 0;
  // It is unheard at once; its threads then come to their end by themselves, as those of a host
  // that is taken down.
  virtual void Kill() = 0;
  // For the message of a test that fails.
  virtual std::string Describe() const = 0;
};

}  // namespace monsoon::simulation
