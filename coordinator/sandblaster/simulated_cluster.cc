#include "coordinator/sandblaster/simulated_cluster.h"

#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

constexpr uint32_t kShards = 2;
constexpr absl::Duration kLatency = absl::Microseconds(200);
constexpr absl::Duration kContribute = absl::Milliseconds(1);
constexpr absl::Duration kRetry = absl::Milliseconds(50);
constexpr absl::Duration kTestSet = absl::Milliseconds(200);

std::string VectorName(uint64_t evaluation) { return absl::StrCat("w", evaluation); }

// splitmix64.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t Key(const std::string& vector, uint32_t contribution) {
  uint64_t key = contribution;
  for (const char c : vector) {
    key = Mix(key ^ static_cast<unsigned char>(c));
  }
  return Mix(key);
}

// Of very different sizes, so that another order of the sum has other bits.
double LossOf(const std::string& vector, uint32_t contribution) {
  const uint64_t key = Key(vector, contribution);
  return std::ldexp(1 + static_cast<double>(key >> 12) * 0x1p-52, static_cast<int>(key % 40));
}

uint64_t GradientOf(const std::string& vector, uint32_t contribution, uint32_t shard) {
  return Mix(Key(vector, contribution) + shard);
}

}  // namespace

bool SimulatedCluster::Outcome::operator==(const Outcome& other) const {
  return std::bit_cast<uint64_t>(result.loss_sum) ==
             std::bit_cast<uint64_t>(other.result.loss_sum) &&
         result.evaluation == other.result.evaluation && result.finite == other.result.finite &&
         result.examples == other.result.examples && result.correct == other.result.correct &&
         gradient == other.gradient;
}

SimulatedCluster::SimulatedCluster(const SandblasterOptions& options,
                                   std::vector<absl::Duration> each, const SimulatedFaults& faults,
                                   uint64_t seed)
    : options_(options),
      faults_(faults),
      random_(seed),
      job_(options, state_.Begun(SANDBLASTER).job_writer()),
      shards_(kShards) {
  for (const absl::Duration duration : each) {
    replicas_.emplace_back().each = duration;
  }
  for (uint32_t worker = 0; worker < replicas_.size(); ++worker) {
    Join(worker);
  }
}

std::optional<SimulatedCluster::Outcome> SimulatedCluster::Evaluate(absl::Duration limit) {
  ++evaluation_;
  for (Shard& shard : shards_) {
    shard = {evaluation_, {}, 0};
  }
  job_.StartEvaluation(evaluation_, VectorName(evaluation_), false, now_);
  const absl::Duration until = now_ + limit;
  std::optional<SandblasterJob::EvaluationResult> result;
  while (!(result = job_.FinishedEvaluation()) && Step(until)) {
  }
  Outcome outcome;
  bool all = true;
  for (Shard& shard : shards_) {
    all &= shard.seen.size() == job_.contributions(false);
    outcome.gradient += shard.sum;
    shard.evaluation = 0;
  }
  spoiled_.reset();
  if (!result || (result->finite && !all)) {
    return std::nullopt;
  }
  outcome.result = *result;
  RunFor(absl::Milliseconds(3));  // The driver's own commands.
  return outcome;
}

SimulatedCluster::Outcome SimulatedCluster::Expected(uint64_t evaluation) const {
  Outcome expected;
  expected.result.evaluation = evaluation;
  for (uint32_t i = 0; i < options_.plan.contributions(); ++i) {
    expected.result.loss_sum += LossOf(VectorName(evaluation), i);
    expected.result.examples += options_.plan.piece(i).examples;
    expected.result.correct += 1;
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      expected.gradient += GradientOf(VectorName(evaluation), i, shard);
    }
  }
  return expected;
}

absl::Duration SimulatedCluster::Random(absl::Duration low, absl::Duration high) {
  return low + (high - low) * std::uniform_real_distribution<>(0, 1)(random_);
}

void SimulatedCluster::After(absl::Duration delay, std::function<void()> action) {
  events_.push({now_ + delay, next_event_++, std::move(action)});
}

bool SimulatedCluster::Step(absl::Duration until) {
  if (events_.empty() || events_.top().at > until) {
    now_ = until;
    return false;
  }
  const Event event = events_.top();
  events_.pop();
  now_ = event.at;
  event.action();
  return true;
}

void SimulatedCluster::RunFor(absl::Duration limit) {
  const absl::Duration until = now_ + limit;
  while (Step(until)) {
  }
}

void SimulatedCluster::Later(uint32_t worker, absl::Duration delay, std::function<void()> action) {
  const uint64_t incarnation = replicas_[worker].incarnation;
  After(delay, [this, worker, incarnation, action = std::move(action)] {
    Replica& replica = replicas_[worker];
    if (!replica.live || replica.incarnation != incarnation) {
      return;
    }
    if (replica.frozen) {
      replica.frozen_steps.push_back(action);
    } else {
      action();
    }
  });
}

void SimulatedCluster::Join(uint32_t worker) {
  Replica fresh;
  fresh.each = replicas_[worker].each;
  fresh.incarnation = replicas_[worker].incarnation + 1;
  fresh.live = true;
  replicas_[worker] = std::move(fresh);
  job_.AddReplica(worker, now_);
  Ask(worker);
}

void SimulatedCluster::Kill(uint32_t worker, absl::Duration unnoticed, absl::Duration absent) {
  replicas_[worker].live = false;
  ++counts_.kills;
  After(unnoticed, [this, worker, absent] {
    job_.RemoveReplica(worker, now_);
    After(absent, [this, worker] { Join(worker); });
  });
}

void SimulatedCluster::Freeze(uint32_t worker) { replicas_[worker].frozen = true; }

void SimulatedCluster::Thaw(uint32_t worker) {
  replicas_[worker].frozen = false;
  for (std::function<void()>& step : std::exchange(replicas_[worker].frozen_steps, {})) {
    Later(worker, absl::ZeroDuration(), std::move(step));
  }
}

void SimulatedCluster::Ask(uint32_t worker) {
  Replica& replica = replicas_[worker];
  if (replica.asking) {
    return;
  }
  replica.asking = true;
  NextWorkRequest request;
  request.set_request(++replica.request);
  for (ContributionResult& result : std::exchange(replica.results, {})) {
    *request.add_contribution() = std::move(result);
  }
  request.mutable_stats()->add_backend_fingerprint("simulated");
  Send(worker, request);
}

void SimulatedCluster::Send(uint32_t worker, const NextWorkRequest& request) {
  absl::Duration latency = kLatency;
  if (Chance(faults_.delayed_requests)) {
    latency = Random(latency, faults_.max_delay);
    ++counts_.delayed_requests;
  }
  // A message that has left arrives whether or not its sender is frozen; the
  // core refuses those of an old incarnation.
  const uint64_t incarnation = replicas_[worker].incarnation;
  const auto deliver = [this, worker, incarnation, request]() -> std::optional<NextWorkReply> {
    if (replicas_[worker].incarnation != incarnation || !job_.replicas().contains(worker)) {
      return std::nullopt;
    }
    const auto reply = job_.NextWork(worker, request, now_);
    if (!reply.ok()) {  // Only a repeated request that comes too late.
      CHECK(absl::IsFailedPrecondition(reply.status()));
      return std::nullopt;
    }
    return *reply;
  };
  if (Chance(faults_.repeated_requests)) {
    ++counts_.repeated_requests;
    After(latency + Random(kLatency, faults_.max_delay), deliver);
  }
  const bool lost = Chance(faults_.lost_replies);
  After(latency, [this, worker, incarnation, request, deliver, lost] {
    const std::optional<NextWorkReply> reply = deliver();
    if (replicas_[worker].incarnation != incarnation) {
      return;  // nobody waits for the answer any more
    }
    if (lost) {
      ++counts_.lost_replies;
      Later(worker, kRetry, [this, worker, request] { Send(worker, request); });
    } else if (reply) {
      Later(worker, kLatency, [this, worker, reply] { Receive(worker, *reply); });
    }
  });
}

void SimulatedCluster::Receive(uint32_t worker, const NextWorkReply& reply) {
  Replica& replica = replicas_[worker];
  CHECK_EQ(reply.request(), replica.request);
  replica.asking = false;
  if (reply.has_wait()) {
    Later(worker, absl::Milliseconds(reply.wait().retry_ms()), [this, worker] { Ask(worker); });
  } else if (reply.has_evaluate()) {
    Later(worker, kTestSet, [this, worker, evaluation = reply.evaluate().evaluation()] {
      ReportEvaluationRequest report;
      report.set_evaluation(evaluation);
      report.set_examples(100);
      report.set_correct(90);
      report.set_loss_sum(30);
      CHECK_OK(job_.ReportEvaluation(worker, report, now_));
      Ask(worker);
    });
  } else if (reply.has_contribute()) {
    const NextWorkReply::Contribute& work = reply.contribute();
    // What is queued for an older evaluation is of no use any more.
    while (replica.tasks.size() > (replica.computing ? 1u : 0u) &&
           replica.tasks.back().evaluation != work.evaluation()) {
      replica.tasks.pop_back();
    }
    for (const NextWorkReply::Contribution& piece : work.contribution()) {
      const ChunkPlan::Piece expected = options_.plan.piece(piece.contribution());
      CHECK(piece.first() == expected.first && piece.examples() == expected.examples);
      replica.tasks.push_back({work.evaluation(), piece.contribution(), work.vector()});
    }
    Compute(worker);
    if (replica.tasks.size() < 2) {
      Ask(worker);
    }
  } else {
    CHECK(reply.has_finish());
  }
}

void SimulatedCluster::Compute(uint32_t worker) {
  Replica& replica = replicas_[worker];
  if (replica.computing || replica.tasks.empty()) {
    return;
  }
  replica.computing = true;
  Later(worker, Random(0.9 * replica.each, 1.1 * replica.each) - kContribute * kShards,
        [this, worker] { Contribute(worker, 0); });
}

void SimulatedCluster::Contribute(uint32_t worker, uint32_t shard) {
  if (shard == shards_.size()) {
    Computed(worker, false);
    return;
  }
  const Task& task = replicas_[worker].tasks.front();
  Shard& to = shards_[shard];
  const bool spoiled = spoiled_ == task.contribution && task.evaluation == evaluation_;
  if (task.evaluation != to.evaluation) {
    ++counts_.shard_closed;
    Computed(worker, true);
    return;
  }
  if (!spoiled) {
    if (to.seen.insert(task.contribution).second) {
      to.sum += GradientOf(task.vector, task.contribution, shard);
    } else {
      ++counts_.shard_duplicates;
    }
  }
  Later(worker, kContribute, [this, worker, shard] { Contribute(worker, shard + 1); });
}

void SimulatedCluster::Computed(uint32_t worker, bool closed) {
  Replica& replica = replicas_[worker];
  const Task task = replica.tasks.front();
  replica.tasks.pop_front();
  replica.computing = false;
  ContributionResult& result = replica.results.emplace_back();
  result.set_evaluation(task.evaluation);
  result.set_contribution(task.contribution);
  result.set_examples(options_.plan.piece(task.contribution).examples);
  result.set_correct(1);
  const bool spoiled = spoiled_ == task.contribution && task.evaluation == evaluation_;
  result.set_loss_sum(spoiled ? std::numeric_limits<double>::quiet_NaN()
                              : LossOf(task.vector, task.contribution));
  result.set_finite(!spoiled);
  result.set_closed(closed);
  Compute(worker);
  Ask(worker);
}

}  // namespace monsoon
