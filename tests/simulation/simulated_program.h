// SimulatedProgram: a program that enters a joined job, and its sidecar: the real Sidecar on
// virtual threads, at whose sockets a program speaks as libmonsoon does. Its gradients are
// anything, and what it writes as initial parameters is known.
//
// Both die together, and are started again as another program.
//
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/simulation/simulated_replica.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedProgram final : public SimulatedReplica {
 public:
  SimulatedProgram(World* world, uint32_t number) : world_(world), number_(number) {}

  void Start() override;
  void Kill() override;
  std::string Describe() const override;

 private:
  class Life;

  World* const world_;
  const uint32_t number_;
  std::shared_ptr<Life> life_;  // the newest
};

}  // namespace monsoon::simulation
