#include "worker/replica/session_wires.h"

#include <algorithm>
#include <utility>

#include "common/codec/push_bytes.h"
#include "common/memory/available_memory.h"
#include "worker/replica/replay_window_bytes.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

constexpr absl::Duration kRetryPause = absl::Milliseconds(20);

// Of a push, or of a fragment's where each push is of one.
uint64_t LargestPush(const ParameterClientOptions& options) {
  const uint64_t values = options.map.size() / std::max(1u, options.fragments.count());
  return PushBytes(values, options.push_format, options.top_k_share);
}

}  // namespace

SessionWires::SessionWires(const JoinedJob& joined, ParameterClient* client, StatsCollector* stats,
                           SessionControl* control, std::function<void()> on_stop)
    : stats_(stats), control_(control) {
  control->OnStop([client, on_stop = std::move(on_stop)] {
    client->Cancel();
    if (on_stop) {
      on_stop();
    }
  });
  control->OnShards([client, keeps = joined.keep_pushes,
                     shards = joined.client_options.map.shards()](const auto& told) {
    for (uint32_t shard = 0; shard < std::min<size_t>(shards, told.epochs.size()); ++shard) {
      client->NameEpoch(shard, told.epochs[shard]);
    }
    if (keeps && !told.keep_pushes) {
      client->Forgo();
    }
  });
  stats->SetKeptSource([client] { return client->kept(); });
}

SessionWires::~SessionWires() {
  control_->OnStop(nullptr);
  control_->OnShards(nullptr);
  stats_->SetKeptSource(nullptr);
}

ParameterClientOptions SessionClientOptions(const JoinedJob& joined, absl::Duration deadline,
                                            uint64_t replay_window_bytes, StatsCollector* stats) {
  ParameterClientOptions options = joined.client_options;
  options.on_waiting = [stats](const std::string& why) { stats->SetWaitsFor(why); };
  options.deadline = deadline;
  if (joined.keep_pushes && joined.job.has_downpour()) {
    options.keep_bytes = replay_window_bytes > 0
                             ? replay_window_bytes
                             : DefaultReplayWindow(LargestPush(options), AvailableMemory());
  }
  return options;
}

absl::Status FetchForEvaluation(ParameterClient* client, SessionControl* control,
                                const std::string& vector, std::span<float> parameters,
                                StatsCollector* stats) {
  while (true) {
    FetchStats fetch;
    const absl::Status status = vector.empty() ? client->FetchExact(parameters, nullptr, &fetch)
                                               : client->FetchVector(vector, parameters, &fetch);
    if (status.ok()) {
      stats->AddEvaluationFetch(fetch);
      return status;
    }
    if (!IsTransient(status) || absl::IsCancelled(status) ||
        control->state() == SessionControl::State::kStop) {
      return status;
    }
    if (client->away().has_value()) {
      stats->SetWaitsFor(status.message());  // not a call that failed
    } else {
      stats->AddRetry(status.message());
    }
    control->Sleep(kRetryPause);
  }
}

}  // namespace monsoon
