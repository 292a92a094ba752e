// SimulatedWorker: worker/i of a simulated cluster: the real SessionHost and ReplicaRunner,
// and all that they run, on virtual threads. In place of a device there is a CountingNetwork,
// in place of gRPC the virtual network.
//
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/simulation/simulated_replica.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedWorker final : public SimulatedReplica {
 public:
  SimulatedWorker(World* world, uint32_t task) : world_(world), task_(task) {}

  void Start() override;
  void Kill() override;
  std::string Describe() const override;

 private:
  class Life;

  World* const world_;
  const uint32_t task_;
  std::shared_ptr<Life> life_;  // the newest
};

}  // namespace monsoon::simulation
