// SimulatedCluster: a SandblasterJob with replicas, shards and a driver in
// virtual time. Replicas compute, prefetch and contribute as workers do;
// messages take time, may be lost, repeated and delayed; replicas are killed,
// restarted, frozen. The same seed gives the same course.
//
// Losses and gradients are functions of (vector, contribution) alone, so the
// sums of an evaluation can be compared with a direct computation. Gradients
// are int64 sums with a set of contributions per shard, as on real shards.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/sandblaster/sandblaster_job.h"
#include "coordinator/state/replayed_state.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

struct SimulatedFaults {
  double lost_replies = 0;       // share of calls whose reply is lost; they are repeated
  double repeated_requests = 0;  // share of calls that arrive twice
  double delayed_requests = 0;   // share of calls that take up to max_delay
  absl::Duration max_delay = absl::Seconds(2);
};

class SimulatedCluster {
 public:
  struct Outcome {
    SandblasterJob::EvaluationResult result;
    uint64_t gradient = 0;  // sum over shards and contributions, modulo 2^64
    bool operator==(const Outcome& other) const;
  };
  struct Counts {
    uint64_t kills = 0;
    uint64_t lost_replies = 0;
    uint64_t repeated_requests = 0;
    uint64_t delayed_requests = 0;
    uint64_t shard_duplicates = 0;
    uint64_t shard_closed = 0;
  };

  // Replica i takes about each[i] for a contribution (10 % more or less).
  SimulatedCluster(const SandblasterOptions& options, std::vector<absl::Duration> each,
                   const SimulatedFaults& faults, uint64_t seed);

  // One evaluation, opened and closed on the shards. Nothing when it has not
  // ended after `limit`, or the shards miss a contribution of it.
  std::optional<Outcome> Evaluate(absl::Duration limit = absl::Minutes(10));
  // What Evaluate must answer for evaluation number `evaluation`.
  Outcome Expected(uint64_t evaluation) const;

  // Does `action` so long from now.
  void After(absl::Duration delay, std::function<void()> action);
  // The job learns of the loss `unnoticed` later; the replica joins again
  // `absent` after that.
  void Kill(uint32_t worker, absl::Duration unnoticed, absl::Duration absent);
  void Freeze(uint32_t worker);
  void Thaw(uint32_t worker);
  // The contribution's loss becomes NaN, in the next evaluation.
  void Spoil(uint32_t contribution) { spoiled_ = contribution; }
  // Lets everything go on until nothing happens or `limit` is over.
  void RunFor(absl::Duration limit);

  SandblasterJob& job() { return job_; }
  absl::Duration now() const { return now_; }
  bool live(uint32_t worker) const { return replicas_[worker].live; }
  const Counts& counts() const { return counts_; }

 private:
  struct Task {
    uint64_t evaluation = 0;
    uint32_t contribution = 0;
    std::string vector;
  };
  struct Replica {
    absl::Duration each;
    bool live = false;
    bool frozen = false;
    uint64_t incarnation = 0;
    uint64_t request = 0;
    bool asking = false;
    bool computing = false;
    std::deque<Task> tasks;  // the first is being computed
    std::vector<ContributionResult> results;
    std::vector<std::function<void()>> frozen_steps;
  };
  struct Shard {
    uint64_t evaluation = 0;  // 0: none is open
    std::set<uint32_t> seen;
    uint64_t sum = 0;
  };
  struct Event {
    absl::Duration at;
    uint64_t number = 0;
    std::function<void()> action;
    bool operator<(const Event& other) const {
      return std::tie(other.at, other.number) < std::tie(at, number);
    }
  };

  bool Chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }
  absl::Duration Random(absl::Duration low, absl::Duration high);
  bool Step(absl::Duration until);
  // As After, for what this incarnation of the replica does.
  void Later(uint32_t worker, absl::Duration delay, std::function<void()> action);
  void Join(uint32_t worker);
  void Ask(uint32_t worker);
  void Send(uint32_t worker, const NextWorkRequest& request);
  void Receive(uint32_t worker, const NextWorkReply& reply);
  void Compute(uint32_t worker);
  // To shard `shard` and those after it, one after another.
  void Contribute(uint32_t worker, uint32_t shard);
  void Computed(uint32_t worker, bool closed);

  const SandblasterOptions options_;
  const SimulatedFaults faults_;
  std::mt19937_64 random_;
  testing::ReplayedState state_;
  SandblasterJob job_;
  absl::Duration now_ = absl::Seconds(1000);
  std::priority_queue<Event> events_;
  uint64_t next_event_ = 0;
  std::vector<Replica> replicas_;
  std::vector<Shard> shards_;
  uint64_t evaluation_ = 0;
  std::optional<uint32_t> spoiled_;
  Counts counts_;
};

}  // namespace monsoon
