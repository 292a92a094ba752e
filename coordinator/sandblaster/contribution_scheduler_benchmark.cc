// Contributions per second that the scheduler hands out and takes back, with
// simulated replicas in virtual time: each holds one and prefetches one, every
// tenth is 4 times slower. Each evaluation is checked: every contribution
// counted once, by the ledger's sum.
#include <cstdint>
#include <deque>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "common/base/check.h"
#include "coordinator/sandblaster/contribution_scheduler.h"
#include "coordinator/sandblaster/loss_ledger.h"

namespace monsoon {
namespace {

constexpr int64_t kPollNs = 20'000'000;  // of a replica that got nothing

class Cluster {
 public:
  explicit Cluster(uint32_t replicas) : replicas_(replicas) {
    for (uint32_t worker = 0; worker < replicas; ++worker) {
      replicas_[worker].each_ns = worker % 10 == 9 ? 40'000'000 : 10'000'000;
      scheduler_.AddReplica(worker);
    }
  }

  void Evaluate(uint32_t contributions) {
    scheduler_.Begin(++evaluation_, contributions);
    ledger_.Begin(contributions);
    events_ = {};
    for (uint32_t worker = 0; worker < replicas_.size(); ++worker) {
      replicas_[worker].held.clear();
      events_.push({now_ns_, worker});
    }
    while (!scheduler_.complete()) {
      const auto [at, worker] = events_.top();
      events_.pop();
      now_ns_ = at;
      Step(worker);
    }
    scheduler_.End();
    CHECK(ledger_.complete());
    const uint64_t n = contributions;
    CHECK_EQ(ledger_.Total().loss_sum, static_cast<double>(n * (n - 1) / 2));
    CHECK_EQ(ledger_.Total().examples, n);
  }

  const ContributionScheduler::Statistics& statistics() const { return scheduler_.statistics(); }

 private:
  struct Replica {
    int64_t each_ns = 0;
    std::deque<uint32_t> held;
  };

  // The first of what the replica holds is done; it asks for more.
  void Step(uint32_t worker) {
    Replica& replica = replicas_[worker];
    const absl::Duration now = absl::Nanoseconds(now_ns_);
    if (!replica.held.empty()) {
      const uint32_t done = replica.held.front();
      replica.held.pop_front();
      if (scheduler_.Complete(worker, evaluation_, done, now) ==
          ContributionScheduler::Outcome::kFirst) {
        CHECK(ledger_.Add(done, {static_cast<double>(done), 1, 0}));
      }
    }
    while (replica.held.size() < ContributionScheduler::kMaxHeld) {
      const std::optional<uint32_t> next = scheduler_.Next(worker, now);
      if (!next) {
        break;
      }
      replica.held.push_back(*next);
    }
    const int64_t each =
        replica.each_ns * std::uniform_int_distribution<int64_t>(900, 1100)(random_) / 1000;
    events_.push({now_ns_ + (replica.held.empty() ? kPollNs : each), worker});
  }

  using Event = std::pair<int64_t, uint32_t>;
  std::mt19937_64 random_{1};
  std::vector<Replica> replicas_;
  ContributionScheduler scheduler_{true};
  LossLedger ledger_;
  uint64_t evaluation_ = 0;
  int64_t now_ns_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
};

// range(0) replicas, range(1) contributions an evaluation.
void BM_Contributions(benchmark::State& state) {
  Cluster cluster(static_cast<uint32_t>(state.range(0)));
  const auto contributions = static_cast<uint32_t>(state.range(1));
  uint64_t evaluations = 0;
  for (auto _ : state) {
    cluster.Evaluate(contributions);
    ++evaluations;
  }
  const ContributionScheduler::Statistics& statistics = cluster.statistics();
  const double counted = static_cast<double>(evaluations * contributions);
  state.SetItemsProcessed(static_cast<int64_t>(counted));
  state.counters["affinity"] =
      static_cast<double>(statistics.continuing_leases) / static_cast<double>(statistics.leases);
  state.counters["backup_share"] = static_cast<double>(statistics.backup_copies) / counted;
}

BENCHMARK(BM_Contributions)->Args({4, 200})->Args({100, 5000})->Args({1000, 16384});

}  // namespace
}  // namespace monsoon

BENCHMARK_MAIN();
