// SimulatedWorker: worker/i of a simulated cluster: the real SessionHost and ReplicaRunner,
// and all that they run, on virtual threads. In place of a device there is a CountingNetwork,
// in place of gRPC the virtual network.
//
// Who kills it makes it unheard at once; its threads then come to their end by themselves, as
// those of a host that is taken down.
//
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/simulation/simulated_process.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedWorker {
 public:
  SimulatedWorker(World* world, uint32_t task) : world_(world), task_(task) {}

  SimulatedProcess process;

  void Start();
  void Kill();
  // Its connections to the shard break, if there are any.
  void Break(uint32_t shard);
  // What its session waits for, as it said last.
  std::string WaitsFor() const;
  // For the message of a test that fails.
  std::string Describe() const;

 private:
  class Life;

  World* const world_;
  const uint32_t task_;
  std::shared_ptr<Life> life_;  // the newest
};

}  // namespace monsoon::simulation
