// What the processes of a simulated cluster have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/model/fragment_map.h"
#include "common/transport/frame/frame_handler.h"
#include "coordinator/job/job_plan.h"
#include "proto/cluster.pb.h"
#include "ps_server/shard/session_table.h"
#include "tests/simulation/applied_log.h"
#include "tests/simulation/dice.h"
#include "tests/simulation/fiber.h"
#include "tests/simulation/fiber_threads.h"
#include "tests/simulation/virtual_network.h"
#include "tests/simulation/virtual_time.h"

namespace monsoon::simulation {

// What a program writes as float i of a joined job's initial parameters: of each stripe the same.
inline float InitialOfPrograms(size_t i) {
  return 0.25f * static_cast<float>(i % kStripeFloats % 5) - 0.5f;
}

class SimulatedCoordinator;
class SimulatedPs;
class SimulatedTransport;

// Epoch and block.
using BlockNumber = std::pair<uint32_t, uint32_t>;

// What became of one session's pushes, as the worker that made them saw it: in nobody's
// memory, so that the judge can ask when all who knew are dead.
struct SessionBook {
  uint64_t pushed = 0;  // that left it
  // By shard and stripe, in sequences of that: acknowledged, and in the shard's newest
  // generation, as it said last.
  std::vector<std::vector<uint64_t>> acknowledged;
  std::vector<std::vector<uint64_t>> written;
  std::vector<uint64_t> steps;  // that each push brings, where steps count
  // It ended as it should: all that it has pushed must count.
  bool whole = false;
  // Blocks that it was leased, in order, and its steps up to the end of each.
  std::vector<std::pair<BlockNumber, uint64_t>> leased;
  // With staleness_bound: what the coordinator has answered. Its clock is so far above its pushes
  // (numbers wrap around), the newest clock of it, and the highest of the slowest.
  uint64_t raised = 0;
  uint64_t told_clock = 0;
  std::optional<uint64_t> least;
  bool begun = false;  // it was told of the slowest, and not to wait since
  bool asks_for_work = false;
  bool ends_job = false;  // what it holds, nobody computes any more
  // Blocks that it has reported, and the last push of each, or one after that.
  std::map<BlockNumber, uint64_t> blocks;
};

struct World {
  World(uint64_t of_seed, FiberStacks* stacks)
      : seed(of_seed), dice(of_seed), network(&time, &dice), threads(&time, &dice, stacks) {}

  const uint64_t seed;
  Dice dice;
  VirtualTime time;
  VirtualNetwork network;
  FiberThreads threads;
  Cluster cluster;
  JobPlan plan;
  FragmentMap fragments;  // of the job
  // The joined job that programs have entered; "": none yet.
  std::string entered;
  // A program ends the job once it has made so many steps; 0: none does.
  uint64_t finish_step = 0;
  // Gradients are integers, at a worker's own places: with SGD any order has the same bits.
  bool counting = false;

  SimulatedCoordinator* coordinator = nullptr;
  std::vector<SimulatedPs*> ps;
  // Of sessions that there are, in the order of their making.
  std::map<uint64_t, SimulatedTransport*> transports;
  uint64_t transports_made = 0;
  std::map<SessionId, SessionBook> books;
  // By shard, the newest generation of the job of which it has told the coordinator, whose journal
  // has all that follows from that.
  std::map<uint32_t, uint64_t> told;
  // Blocks that were leased and not reported, and who holds them.
  std::map<BlockNumber, SessionId> leased;
  // The pushes of the session that are in all of these, which are sequences by shard and stripe.
  uint64_t PushesIn(const SessionBook& book,
                    const std::vector<std::vector<uint64_t>>& sequences) const {
    uint64_t pushes = book.pushed;
    for (uint32_t shard = 0; shard < sequences.size(); ++shard) {
      for (uint32_t stripe = 0; stripe < sequences[shard].size(); ++stripe) {
        pushes = std::min(
            pushes, fragments.PushesBefore(fragments.Of(shard, stripe), sequences[shard][stripe]));
      }
    }
    return pushes;
  }
  // How far the session has come by what the shards have acknowledged.
  uint64_t ClockOf(const SessionBook& book) const {
    return std::max(book.told_clock, book.raised + PushesIn(book, book.acknowledged));
  }
  // The last sequence that a stripe has of so many pushes.
  uint64_t LastSequence(uint32_t shard, uint32_t stripe, uint64_t pushes) const {
    return fragments.LastSequence(fragments.Of(shard, stripe), pushes);
  }

  // Somebody else's to hear of: ps/i has died.
  std::function<void(uint32_t)> ps_died = [](uint32_t) {};
  // A line of what happens: kept after KeepTrace, and printed with MONSOON_SIMULATION_TRACE=1
  // in the environment.
  void Trace(const std::string& what) {
    if (prints_ || keeps_) {
      const std::string line =
          absl::StrCat(absl::FormatDuration(time.now() - absl::Seconds(1000)), " ", what, "\n");
      std::fputs(prints_ ? line.c_str() : "", stdout);
      absl::StrAppend(&trace_, keeps_ ? line : "");
    }
  }
  void KeepTrace() { keeps_ = true; }
  const std::string& trace() const { return trace_; }

  // Of one frame, for whoever serves it.
  FrameScratch scratch;

 private:
  const bool prints_ = std::getenv("MONSOON_SIMULATION_TRACE") != nullptr;
  bool keeps_ = false;
  std::string trace_;
};

}  // namespace monsoon::simulation
