#include "worker/session/replica_stats.h"

#include <algorithm>
#include <optional>

#include "common/base/shorten.h"

namespace monsoon {
namespace {

void CopyBuckets(const LatencyHistogram& from, google::protobuf::Map<uint32_t, uint64_t>* to) {
  for (const auto& [bucket, count] : from.buckets()) {
    (*to)[bucket] = count;
  }
}

}  // namespace

void StatsCollector::AddStep(const StepResult& result, absl::Duration duration) {
  MutexLock lock(&mutex_);
  const auto steps = static_cast<double>(result.steps);
  stats_.set_steps(stats_.steps() + result.steps);
  stats_.set_examples(stats_.examples() + result.examples);
  step_latency_.Add(absl::ToDoubleMilliseconds(duration) / std::max(1.0, steps));
  // The plain mean at first, so that the start is not biased towards zero.
  const double weight =
      std::min(1.0, steps / std::min<double>(static_cast<double>(stats_.steps()), kMeanSteps));
  const auto towards = [weight](bool known, double mean, double value) {
    return known ? mean + weight * (value - mean) : value;
  };
  if (result.has_loss) {
    stats_.set_loss(towards(stats_.has_loss(), stats_.loss(), result.loss_mean));
  }
  if (const std::optional<double> accuracy = result.accuracy()) {
    stats_.set_accuracy(towards(stats_.has_accuracy(), stats_.accuracy(), *accuracy));
  }
  if (result.steps > 0 && result.computing > absl::ZeroDuration()) {
    const double known = stats_.step_compute_ms();
    stats_.set_step_compute_ms(
        towards(known > 0, known, absl::ToDoubleMilliseconds(result.computing) / steps));
  }
}

void StatsCollector::AddFetch(const FetchStats& fetch, absl::Duration duration) {
  MutexLock lock(&mutex_);
  stats_.clear_waits_for();
  stats_.set_fetches(stats_.fetches() + 1);
  stats_.set_rpcs(stats_.rpcs() + fetch.rpcs);
  stats_.set_retries(stats_.retries() + fetch.retries);
  stats_.set_bytes_fetched(stats_.bytes_fetched() + fetch.bytes);
  ++(*stats_.mutable_fetch_width())[fetch.fetch_width];
  fetch_latency_.Add(absl::ToDoubleMilliseconds(duration));
}

void StatsCollector::AddEvaluationFetch(const FetchStats& fetch) {
  {
    MutexLock lock(&mutex_);
    stats_.set_evaluation_fetches(stats_.evaluation_fetches() + 1);
  }
  AddRows(fetch);
}

void StatsCollector::AddRows(const FetchStats& fetch) {
  MutexLock lock(&mutex_);
  stats_.clear_waits_for();
  stats_.set_rpcs(stats_.rpcs() + fetch.rpcs);
  stats_.set_retries(stats_.retries() + fetch.retries);
  stats_.set_bytes_fetched(stats_.bytes_fetched() + fetch.bytes);
}

void StatsCollector::AddPush(const ParameterClient::PushResult& push, absl::Duration duration) {
  MutexLock lock(&mutex_);
  stats_.clear_waits_for();
  stats_.set_pushes(stats_.pushes() + 1);
  stats_.set_rpcs(stats_.rpcs() + push.rpcs);
  stats_.set_retries(stats_.retries() + push.retries);
  stats_.set_duplicates(stats_.duplicates() + push.duplicates);
  stats_.set_bytes_pushed(stats_.bytes_pushed() + push.bytes);
  last_staleness_ = push.staleness;
  if (push.dropped > 0) {
    stats_.set_dropped(stats_.dropped() + 1);
  }
  if (push.refused_invalid > 0) {
    stats_.set_refused(stats_.refused() + 1);
  } else if (push.staleness < 0) {
    stats_.set_staleness_unknown(stats_.staleness_unknown() + 1);
  } else {
    ++(*stats_.mutable_staleness())[static_cast<uint64_t>(push.staleness)];
  }
  push_latency_.Add(absl::ToDoubleMilliseconds(duration));
}

void StatsCollector::AddContribution(const ParameterClient::ContributeResult& sent,
                                     absl::Duration duration) {
  MutexLock lock(&mutex_);
  stats_.clear_waits_for();
  stats_.set_pushes(stats_.pushes() + 1);
  stats_.set_rpcs(stats_.rpcs() + sent.rpcs);
  stats_.set_retries(stats_.retries() + sent.retries);
  stats_.set_duplicates(stats_.duplicates() + sent.duplicates);
  stats_.set_bytes_pushed(stats_.bytes_pushed() + sent.bytes);
  push_latency_.Add(absl::ToDoubleMilliseconds(duration));
}

void StatsCollector::AddRefused() {
  MutexLock lock(&mutex_);
  stats_.set_refused(stats_.refused() + 1);
}

void StatsCollector::AddRetry(absl::string_view why) {
  SetWaitsFor(why);
  MutexLock lock(&mutex_);
  stats_.set_retries(stats_.retries() + 1);
}

void StatsCollector::SetWaitsFor(absl::string_view why) {
  constexpr size_t kLongest = 300;
  MutexLock lock(&mutex_);
  stats_.set_waits_for(Shorten(why, kLongest));
}

void StatsCollector::AddBoundWait(absl::Duration waited) {
  MutexLock lock(&mutex_);
  stats_.clear_waits_for();
  bound_wait_ += waited;
  stats_.set_bound_wait_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(bound_wait_)));
}

void StatsCollector::AddAwaySteps(uint64_t steps) {
  MutexLock lock(&mutex_);
  stats_.set_away_steps(stats_.away_steps() + steps);
}

void StatsCollector::SetKeptSource(std::function<KeptPushes()> kept) {
  MutexLock lock(&mutex_);
  if (kept_) {
    stats_.set_replayed(kept_().replayed);
  }
  kept_ = std::move(kept);
}

KeptPushes StatsCollector::kept() const {
  MutexLock lock(&mutex_);
  return kept_ ? kept_() : KeptPushes();
}

void StatsCollector::SetFingerprints(uint64_t train, uint64_t test) {
  MutexLock lock(&mutex_);
  if (train != 0) {
    stats_.set_train_fingerprint(train);
  }
  if (test != 0) {
    stats_.set_test_fingerprint(test);
  }
}

void StatsCollector::SetBackends(const std::vector<std::string>& fingerprints) {
  MutexLock lock(&mutex_);
  stats_.mutable_backend_fingerprint()->Assign(fingerprints.begin(), fingerprints.end());
}

void StatsCollector::SetReplicas(uint32_t live, uint32_t lost) {
  MutexLock lock(&mutex_);
  stats_.set_replicas(live);
  stats_.set_replicas_lost(lost);
}

int64_t StatsCollector::last_staleness() const {
  MutexLock lock(&mutex_);
  return last_staleness_;
}

uint64_t StatsCollector::refused() const {
  MutexLock lock(&mutex_);
  return stats_.refused();
}

ReplicaStats StatsCollector::Snapshot() const {
  MutexLock lock(&mutex_);
  ReplicaStats snapshot = stats_;
  if (kept_) {
    const KeptPushes kept = kept_();
    snapshot.set_replayed(kept.replayed);
    snapshot.set_kept_bytes(kept.bytes);
    snapshot.set_kept_limit_bytes(kept.limit_bytes);
  }
  CopyBuckets(fetch_latency_, snapshot.mutable_fetch_latency());
  CopyBuckets(push_latency_, snapshot.mutable_push_latency());
  CopyBuckets(step_latency_, snapshot.mutable_step_latency());
  return snapshot;
}

}  // namespace monsoon
