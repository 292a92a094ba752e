// Shards that crash, lose their power and rot, and senders that keep what is not
// durable, in virtual time: the real cores of both (Shard, the writer and reader of
// parts, ReplayWindow) over a simulated disk and network, driven by a seed. At the end
// every acknowledged push must have counted exactly once.
//
//   recovery_simulation_test --seeds=1000..1999     (default: the first 300)
//
// The network: a connection carries frames in order, breaks at any time, and what was
// in it may still arrive at the shard later. Gradients are integers, each sender has
// coordinates of its own, and the rate is 1, so any order of application gives the same
// bits and a parameter counts the pushes that it has got. Not here yet: senders that
// die, messages of other kinds. The coordinator has a simulation of its own.

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/testing/seeds.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/client/replay_window.h"
#include "ps_server/testing/simulated_server.h"

namespace monsoon {
namespace {

constexpr int kEvents = 500;
constexpr int kCalmEvents = 20000;
constexpr uint64_t kWindowPushes = 12;

testing::Seeds seeds{.first = 0, .end = 300};

// -1 at the worker's own coordinates.
std::shared_ptr<const std::string> GradientOf(uint32_t worker) {
  std::vector<float> gradient(kSimulatedSlice, 0.0f);
  for (size_t i = worker; i < kSimulatedSlice; i += kSimulatedWorkers) {
    gradient[i] = -1.0f;
  }
  return std::make_shared<const std::string>(reinterpret_cast<const char*>(gradient.data()),
                                             gradient.size() * sizeof(float));
}

struct Connection {
  std::deque<SimulatedFrame> out;
  std::deque<SimulatedAnswer> in;
  bool asked = false;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : dice_(seed) {
    for (uint32_t shard = 0; shard < kSimulatedShards; ++shard) {
      servers_.push_back(std::make_unique<SimulatedServer>(shard));
    }
    for (uint32_t worker = 0; worker < kSimulatedWorkers; ++worker) {
      gradients_.push_back(GradientOf(worker));
      for (uint32_t shard = 0; shard < kSimulatedShards; ++shard) {
        links_.push_back(std::make_unique<Link>(worker, shard));
        links_.back()->window.NameEpoch(servers_[shard]->epoch());
      }
    }
  }

  void Run() {
    for (int i = 0; i < kEvents && !::testing::Test::HasFatalFailure(); ++i) {
      Event();
    }
    faults_ = false;
    for (int i = 0; i < kCalmEvents && !Settled() && !::testing::Test::HasFatalFailure(); ++i) {
      Event();
    }
    Judge();
  }

  uint64_t pushes() const { return pushed_[0] + pushed_[1]; }
  uint64_t crashes() const { return crashes_; }
  uint64_t replayed() const { return replayed_; }

 private:
  struct Link {
    Link(uint32_t of_worker, uint32_t to_shard) : worker(of_worker), shard(to_shard) {}
    const uint32_t worker;
    const uint32_t shard;
    ReplayWindow window{kWindowPushes * kSimulatedSlice * sizeof(float)};
    Connection connection;
    std::deque<SimulatedFrame> late;  // of earlier connections
  };

  void Event() {
    Link& link = *links_[dice_.Below(static_cast<uint32_t>(links_.size()))];
    SimulatedServer& server = *servers_[link.shard];
    const uint32_t what = dice_.Below(faults_ ? 100 : 70);
    if (what < 15) {
      Train(link.worker);
    } else if (what < 35) {
      Send(&link);
    } else if (what < 50) {
      Deliver(&link);
    } else if (what < 65) {
      Answered(&link);
    } else if (what < 67) {
      Name(&link);
    } else if (what < 69) {
      if (server.up()) {
        server.Checkpoint(std::nullopt);
      } else {
        server.Start();
      }
    } else if (what < 70) {
      DeliverLate(&link);
    } else if (what < 80) {
      DeliverLate(&link);
    } else if (what < 84) {
      Break(&link);
    } else if (what < 87 && server.up()) {
      ++crashes_;
      if (dice_.Once(3)) {
        server.Checkpoint(dice_.Below(16));
      }
      server.Crash(dice_.Once(2), dice_.Once(3), &dice_);
      BreakAll(link.shard);
    } else if (what < 92 && !server.up()) {
      server.Start();
    }
  }

  // The worker's next gradient goes to all shards, if all have room for it.
  void Train(uint32_t worker) {
    if (!faults_) {
      return;
    }
    for (uint32_t shard = 0; shard < kSimulatedShards; ++shard) {
      if (LinkOf(worker, shard).window.full(gradients_[worker]->size())) {
        return;
      }
    }
    ++pushed_[worker];
    for (uint32_t shard = 0; shard < kSimulatedShards; ++shard) {
      ASSERT_EQ(LinkOf(worker, shard).window.Add(gradients_[worker]), pushed_[worker]);
    }
  }

  void Send(Link* link) {
    if (!servers_[link->shard]->up()) {
      return;  // nothing to connect to
    }
    const ReplayWindow::Push* const push = link->window.Next();
    if (link->window.asks() || (push == nullptr && link->window.bytes() > 0)) {
      if (!link->connection.asked) {
        link->connection.asked = true;
        link->connection.out.push_back({});
      }
      return;
    }
    if (push != nullptr) {
      replayed_ += push->replayed ? 1 : 0;
      link->connection.out.push_back({link->window.epoch(), push->sequence, push->bytes});
      link->window.OnSent();
    }
  }

  void Deliver(Link* link) {
    Connection& connection = link->connection;
    if (!servers_[link->shard]->up() || connection.out.empty()) {
      return;
    }
    connection.in.push_back(servers_[link->shard]->Serve(link->worker, connection.out.front()));
    connection.out.pop_front();
  }

  // Frames of a connection that is gone: nobody hears the answer.
  void DeliverLate(Link* link) {
    if (servers_[link->shard]->up() && !link->late.empty()) {
      if (link->late.front().bytes != nullptr) {
        (void)servers_[link->shard]->Serve(link->worker, link->late.front());
      }
      link->late.pop_front();
    }
  }

  void Answered(Link* link) {
    if (link->connection.in.empty()) {
      return;
    }
    const SimulatedAnswer answer = link->connection.in.front();
    link->connection.in.pop_front();
    if (answer.marks) {
      link->connection.asked = false;
      ASSERT_OK(link->window.OnMarks(answer.epoch, answer.applied, answer.durable));
      return;
    }
    switch (answer.verdict) {
      case APPLIED:
        link->window.OnAcknowledged(answer.epoch, answer.sequence, answer.durable);
        break;
      case REFUSED_EPOCH:
        link->window.OnRefusedEpoch();
        break;
      default:
        FAIL() << Verdict_Name(answer.verdict) << " for push " << answer.sequence << " of worker "
               << link->worker << " to shard " << link->shard;
    }
  }

  // The coordinator has seen the shard.
  void Name(Link* link) {
    if (servers_[link->shard]->up()) {
      link->window.NameEpoch(servers_[link->shard]->epoch());
    }
  }

  void Break(Link* link) {
    for (SimulatedFrame& frame : link->connection.out) {
      link->late.push_back(std::move(frame));
    }
    link->connection = {};
    link->window.Reconnect();
  }

  void BreakAll(uint32_t shard) {
    for (uint32_t worker = 0; worker < kSimulatedWorkers; ++worker) {
      Break(&LinkOf(worker, shard));
      // The process's sockets died with it.
      LinkOf(worker, shard).late.clear();
    }
  }

  Link& LinkOf(uint32_t worker, uint32_t shard) {
    return *links_[worker * kSimulatedShards + shard];
  }

  bool Settled() {
    for (const auto& link : links_) {
      if (!servers_[link->shard]->up() || link->window.asks() ||
          link->window.acknowledged() < pushed_[link->worker] ||
          link->window.durable() < pushed_[link->worker] || !link->late.empty()) {
        return false;
      }
    }
    return true;
  }

  void Judge() {
    ASSERT_TRUE(Settled()) << "it does not end";
    for (uint32_t shard = 0; shard < kSimulatedShards; ++shard) {
      // Once more from the disk.
      for (int life = 0; life < 2; ++life) {
        const std::vector<float> parameters = servers_[shard]->Parameters();
        for (size_t i = 0; i < kSimulatedSlice; ++i) {
          ASSERT_EQ(parameters[i], static_cast<float>(pushed_[i % kSimulatedWorkers]))
              << "shard " << shard << ", coordinate " << i << ", life " << life;
        }
        servers_[shard]->Crash(/*power_cut=*/true, /*rot=*/false, &dice_);
        servers_[shard]->Start();
      }
    }
  }

  Dice dice_;
  bool faults_ = true;
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
  std::vector<std::unique_ptr<Link>> links_;  // [worker * kSimulatedShards + shard]
  std::vector<std::shared_ptr<const std::string>> gradients_;
  uint64_t pushed_[kSimulatedWorkers] = {};
  uint64_t crashes_ = 0;
  uint64_t replayed_ = 0;
};

TEST(RecoverySimulation, EveryAcknowledgedPushCountsOnce) {
  uint64_t pushes = 0, crashes = 0, replayed = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    SCOPED_TRACE(absl::StrCat("--seeds=", seed, "..", seed));
    Simulation simulation(seed);
    simulation.Run();
    pushes += simulation.pushes();
    crashes += simulation.crashes();
    replayed += simulation.replayed();
    if (HasFailure()) {
      return;
    }
  }
  std::printf("%llu seeds: %llu pushes, %llu crashes, %llu records sent again\n",
              static_cast<unsigned long long>(seeds.end - seeds.first),
              static_cast<unsigned long long>(pushes), static_cast<unsigned long long>(crashes),
              static_cast<unsigned long long>(replayed));
  EXPECT_GT(crashes, 0u);
  EXPECT_GT(replayed, 0u);
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  return monsoon::testing::RunWithSeeds(argc, argv, &monsoon::seeds);
}
