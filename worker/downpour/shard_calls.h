// ShardCalls: the calls of one session's parameter client that outlast a shard's silence. A
// shard that does not answer is asked again until the session is stopped: whether it is dead is
// for the coordinator to say. Each call is bounded by the client's deadline, and ended by its
// Cancel.
//
// Thread safety: Fetch and Push may each run in a thread of their own, beside calls of the
// owner's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/row_gradient.h"
#include "worker/group/parameter_store.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

// What came of a fetch.
struct Fetched {
  absl::Status status;
  SharedMarks marks;
  FetchStats stats;
  absl::Duration duration;
  std::optional<uint32_t> fragment;  // that alone
};

// What came of a push.
struct Pushed {
  absl::StatusOr<ParameterClient::PushResult> result;
  absl::Duration duration;
  std::optional<Fetched> fetched;  // with the acknowledgement
};

class ShardCalls {
 public:
  // How long one look at a call in flight waits.
  static constexpr absl::Duration kWaitSlice = absl::Seconds(1);

  // All must outlive this.
  ShardCalls(ParameterClient* client, StatsCollector* stats, SessionControl* control,
             const Clock* clock)
      : client_(client), stats_(stats), control_(control), clock_(clock) {}

  // All, or the fragment.
  Fetched Fetch(std::span<float> out, std::optional<uint32_t> fragment = {});
  // In this thread, if that costs no message; nothing where it does.
  std::optional<Fetched> FetchMapped(std::span<float> out);

  // `back`: where the acknowledgement is to bring the parameters; empty: nowhere. `begin`: when
  // the push began for whoever counts how long it takes.
  Pushed Push(const GradientView& gradient, const FetchMarks& base, std::span<float> back,
              absl::Duration begin);

  // Until all shards are there.
  absl::Status FetchRows(std::span<const RowRequest> wanted);

  // Says that there is nothing to push. Shards that do not answer are left out: the caller says
  // it again as long as that is so.
  absl::Status Pass();

  // Gives a shard that is back what it has not; waits for none.
  absl::Status LookForShards() { return client_->BringBack(absl::ZeroDuration()); }
  // Waits until no shard is away, of which `away` is the first.
  absl::Status AwaitShards(std::optional<std::string> away);
  // Waits until all shards have the pushes up to that one.
  absl::Status AwaitAcknowledged(uint64_t sequence);

 private:
  // Whether a call that failed so is to be made again: a cancelled one is over.
  static bool MayRetry(const absl::Status& status);
  // Says why it will be, and waits a moment. `waits`: for somebody, which is no call that failed.
  void PauseBeforeRetry(const char* call, const absl::Status& status, bool waits);
  absl::Status BringBack(const std::string& what);
  bool stopped() const { return control_->state() == SessionControl::State::kStop; }

  ParameterClient* const client_;
  StatsCollector* const stats_;
  SessionControl* const control_;
  const Clock* const clock_;
};

}  // namespace monsoon
