// StatsCollector: the figures of one session, as ReplicaStats carries them in
// heartbeats and requests for work.
//
// Counts: a fetch or push is one logical operation over all shards, counted
// once it returned; evaluation fetches apart. A push refused before it left is
// in `refused` only; one refused by a shard in `pushes` and `refused`.
//
// Thread safety: all calls may run concurrently.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/metrics/latency_histogram.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/nn/step_result.h"

namespace monsoon {

class StatsCollector {
 public:
  // `duration` is the whole of what `result` tells of, with its waits for fetch and push.
  void AddStep(const StepResult& result, absl::Duration duration);
  void AddFetch(const FetchStats& fetch, absl::Duration duration);
  void AddEvaluationFetch(const FetchStats& fetch);
  // Of rows of tables: no fetch of the parameters, but bytes.
  void AddRows(const FetchStats& fetch);
  void AddPush(const ParameterClient::PushResult& push, absl::Duration duration);
  // One contribution to a batch gradient, acknowledged or found late: a push
  // without staleness.
  void AddContribution(const ParameterClient::ContributeResult& sent, absl::Duration duration);
  // Refused here, before it left.
  void AddRefused();
  // Calls that failed before they succeeded in the end, and why: what the replica
  // waits for until a fetch or push succeeds.
  void AddRetry(absl::string_view why);
  void SetWaitsFor(absl::string_view why);
  // The replica has waited so long for slower ones.
  void AddBoundWait(absl::Duration waited);
  // Steps computed while some shard was away.
  void AddAwaySteps(uint64_t steps);
  // Asked for what the session keeps of its pushes; null: nothing any more. Returns
  // after a call that is running.
  void SetKeptSource(std::function<KeptPushes()> kept);
  KeptPushes kept() const;
  // 0: not known; keeps what was told before.
  void SetFingerprints(uint64_t train, uint64_t test);

  // Network::Fingerprint() of the replica's backends, each once.
  void SetBackends(const std::vector<std::string>& fingerprints);

  // Replicas of this process that compute, and those lost in this session.
  void SetReplicas(uint32_t live, uint32_t lost);

  ReplicaStats Snapshot() const;
  // Of the newest push; -1: not known.
  int64_t last_staleness() const;
  // ReplicaStats.refused alone, which costs little.
  uint64_t refused() const;

 private:
  // Steps over which loss, accuracy and the time of computing are averaged.
  static constexpr double kMeanSteps = 50.0;

  mutable Mutex mutex_;
  // Everything but the three latencies.
  ReplicaStats stats_ ABSL_GUARDED_BY(mutex_);
  absl::Duration bound_wait_ ABSL_GUARDED_BY(mutex_);
  int64_t last_staleness_ ABSL_GUARDED_BY(mutex_) = -1;
  std::function<KeptPushes()> kept_ ABSL_GUARDED_BY(mutex_);
  LatencyHistogram fetch_latency_ ABSL_GUARDED_BY(mutex_);
  LatencyHistogram push_latency_ ABSL_GUARDED_BY(mutex_);
  LatencyHistogram step_latency_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
