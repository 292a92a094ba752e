// What the processes of a simulated cluster have in common.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/memory/aligned_floats.h"
#include "common/transport/frame/frame_codec.h"
#include "coordinator/job/job_plan.h"
#include "proto/cluster.pb.h"
#include "ps_server/shard/session_table.h"
#include "tests/simulation/applied_log.h"
#include "tests/simulation/dice.h"
#include "tests/simulation/virtual_network.h"
#include "tests/simulation/virtual_time.h"

namespace monsoon::simulation {

class SimulatedCoordinator;
class SimulatedPs;

// What became of one session's pushes, as the worker that made them saw it: in nobody's
// memory, so that the judge can ask when all who knew are dead.
struct SessionBook {
  uint64_t pushed = 0;
  std::vector<uint64_t> acknowledged;  // by shard
  // It ended as it should: all that it has pushed must count.
  bool whole = false;
  // Blocks that it has trained on, and the last push of each.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> blocks;
};

struct World {
  explicit World(uint64_t seed) : dice(seed), network(&time, &dice) {}

  Dice dice;
  VirtualTime time;
  VirtualNetwork network;
  Cluster cluster;
  JobPlan plan;
  WireFormat format = FLOAT32;
  // Gradients are integers, at a worker's own places: with SGD any order has the same bits.
  bool counting = false;

  SimulatedCoordinator* coordinator = nullptr;
  std::vector<SimulatedPs*> ps;
  std::map<SessionId, SessionBook> books;
  // Blocks that were leased and not reported, and who holds them.
  std::map<std::pair<uint32_t, uint32_t>, SessionId> leased;
  // A line of what happens, with MONSOON_SIMULATION_TRACE=1 in the environment.
  void Trace(const std::string& what) const {
    if (traces_) {
      std::printf("%s %s\n", absl::FormatDuration(time.now() - absl::Seconds(1000)).c_str(),
                  what.c_str());
    }
  }

  // Of one frame, for whoever serves it.
  AlignedFloats scratch{kMaxFramePayloadBytes / sizeof(float)};

 private:
  const bool traces_ = std::getenv("MONSOON_SIMULATION_TRACE") != nullptr;
};

}  // namespace monsoon::simulation
