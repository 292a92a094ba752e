// PushKeeper: the pushes of one session to shards that keep generations. Each push is
// kept in a ReplayWindow a shard until it is durable there (PushWindows), and sent again to a
// shard that was started anew; what answers say is in HeardAnswers, who is there in ShardPresence.
//
// A shard is *away* from when it does not answer, or refuses the epoch, until it has all
// that is kept for it, in the order in which it was pushed. Meanwhile pushes go to the
// others and are kept for it; parameters of it are not to be fetched.
//
// No wait for one shard may hold up another. In rounds a shard can be waiting for what other
// workers push, who wait for another shard's round, which lacks a push of ours. So a shard that
// takes no push before a round is over is away, too, and where that lasts no round of the other
// shards waits for this session (Pass): there is nothing that it could push meanwhile.
//
// Thread safety: calls of the first part belong to one thread at a time, those of the
// second may come from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/frame_transport.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/heard_answers.h"
#include "ps_server/client/kept_bytes.h"
#include "ps_server/client/kept_rows.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/push_windows.h"
#include "ps_server/client/replay_window.h"
#include "ps_server/client/requests.h"
#include "ps_server/client/shard_presence.h"

namespace monsoon {

class PushKeeper {
 public:
  // A shard that is silent for so long in the middle of a push is away, and one whose
  // connection is refused or cut for so long.
  static constexpr absl::Duration kSilence = absl::Seconds(1);
  static constexpr absl::Duration kCut = absl::Milliseconds(100);

  // Everything pointed to outlives this. `context` is that of a push; `encoder` has what
  // is to be pushed, `requests` and `transport` serve pushes alone.
  PushKeeper(const ParameterClientOptions* options, const ExchangeContext& context,
             PushEncoder* encoder, RequestMaker* requests, FrameTransport* transport);

  // ---- one thread at a time ----

  // The sequence of the next push.
  uint64_t next_sequence() const { return windows_.last() + 1; }
  // What the next one brings beside what the encoder has encoded: [shard], of a job with tables.
  void SetRows(std::vector<std::shared_ptr<const KeptRows>> rows) {
    windows_.SetRows(std::move(rows));
  }
  // Keeps what the encoder has encoded under next_sequence() and sends it to the shards
  // that are there; all others get it when they are back. `target`: as for
  // RequestMaker::Push; it is whole only where no shard was away. DeadlineExceeded where
  // there is no room: nothing was kept, and the same may be tried again.
  // With an `owner` of what the encoder gives as it is, that is kept and no copy.
  absl::StatusOr<ParameterClient::PushResult> Push(const FetchMarks& base,
                                                   const std::shared_ptr<const void>& owner,
                                                   FetchTarget* target);
  // Tries to bring back what is away, for about `patience`; 0: only what it is time to
  // try. OK also if some is not; DataLoss where a shard lost what it had called durable.
  absl::Status BringBack(absl::Duration patience);
  // The same, until every push is on the disk of every shard, in its newest generation.
  // DeadlineExceeded names a shard for which it is not. No round waits for this session meanwhile.
  absl::StatusOr<std::vector<uint64_t>> AwaitDurable(absl::Duration patience);
  // A fetch was not answered in time: finds out which of the shards are away.
  void LookAround();
  // Tells the shards that are there that no round is to wait for this session until its next push.
  absl::Status Pass();

  // ---- any thread ----

  // What the coordinator says; the first ones are those of the options.
  void NameEpoch(uint32_t shard, uint64_t epoch) { presence_.NameEpoch(shard, epoch); }
  // The job is in memory only by now: nothing need be kept for a later life of a shard.
  void Forgo() { forgoes_ = true; }
  // The epoch in which the shard has all that it ever acknowledged; 0: it is away.
  uint64_t ready_epoch(uint32_t shard) const { return presence_.ready_epoch(shard); }
  std::vector<uint64_t> ready_epochs() const;
  // The first shard that is away, by name, and why; nothing: none is.
  std::optional<std::string> away() const { return presence_.away(); }
  // All shards have acknowledged the pushes up to this one, in some epoch.
  uint64_t acknowledged() const { return windows_.acknowledged(); }
  KeptPushes kept() const;

 private:
  uint32_t shards() const { return options_.map.shards(); }
  absl::Duration now() const { return context_.clock->Now(); }

  // ---- shards that come and go ----
  // What other threads have said since: named epochs, and that nothing need be kept.
  void ApplyNamed();
  void GoAway(uint32_t shard, absl::Duration pause);
  bool LeaveOut(uint32_t shard, const absl::Status& why);
  // Tries those that are away, and whose time it is.
  absl::Status ReturnDue(bool at_once);
  absl::Status Return(uint32_t shard);
  // Sends one that answers again what it has not got.
  absl::Status Replay(uint32_t shard);

  // ---- exchanges ----
  // One exchange, from which shards that do not answer are left out. `any_order`: as of
  // ExchangeContext; rows come before their push's records, and pushes one after the other.
  absl::Status Run(const RequestMaker::ShardRequests& requests, AnswerHandler handler,
                   bool any_order = false);
  // Asks the shards of `wanted`, which is indexed by shard, what they have. `passes`: as of Pass.
  absl::Status AskMarks(const std::vector<bool>& wanted, bool passes = false);
  // Asks those that are there.
  absl::Status AskPresent(bool passes);
  // Passes, now and then, while some shard takes no push because of a round.
  absl::Status PassWhereRoundsLast();
  // `bytes` are those of `push`, wherever they are.
  void AddToRequests(uint32_t shard, const ReplayWindow::Push& push,
                     std::span<const std::byte> bytes, bool then_fetch,
                     std::shared_ptr<KeptBytes> keep = nullptr);

  // ---- waits ----
  absl::Status MakeRoom();
  // Says why a call waits, and waits a moment; DeadlineExceeded from `end` on.
  absl::Status Wait(const std::string& why, const char* prefix, absl::Duration end);
  // Tells other threads how things stand.
  void Publish();

  const ParameterClientOptions& options_;
  ExchangeContext context_;
  PushEncoder* const encoder_;
  RequestMaker* const requests_;
  FrameTransport* const transport_;
  const std::function<bool(uint32_t, const absl::Status&)> give_up_;

  PushWindows windows_;
  HeardAnswers heard_;
  ShardPresence presence_;
  absl::Duration exchange_began_;
  absl::Duration passed_at_ = -absl::InfiniteDuration();
  std::optional<absl::Duration> full_since_;  // a push waits for room
  ExchangeCounts counts_;                     // of one push

  std::atomic<uint64_t> replayed_{0};
  std::atomic<bool> awaits_{false};  // somebody waits for a generation
  std::atomic<bool> forgoes_{false};
};

}  // namespace monsoon
