// PushKeeper: the pushes of one session to shards that keep generations. Each push is
// kept in a ReplayWindow a shard until it is durable there, and sent again to a shard
// that was started anew.
//
// A shard is *away* from when it does not answer, or refuses the epoch, until it has all
// that is kept for it, in the order in which it was pushed. Meanwhile pushes go to the
// others and are kept for it; parameters of it are not to be fetched.
//
// Thread safety: calls of the first part belong to one thread at a time, those of the
// second may come from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/frame_transport.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/answers.h"
#include "ps_server/client/buffer_ring.h"
#include "ps_server/client/kept_rows.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/push_encoder.h"
#include "ps_server/client/replay_window.h"
#include "ps_server/client/requests.h"

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
  uint64_t next_sequence() const { return last_ + 1; }
  // What the next one brings beside what the encoder has encoded: [shard], of a job with tables.
  void SetRows(std::vector<std::shared_ptr<const KeptRows>> rows) { rows_ = std::move(rows); }
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
  // DeadlineExceeded names a shard for which it is not.
  absl::Status AwaitDurable(absl::Duration patience);

  // ---- any thread ----

  // What the coordinator says; the first ones are those of the options.
  void NameEpoch(uint32_t shard, uint64_t epoch) { shards_[shard]->named = epoch; }
  // The job is in memory only by now: nothing need be kept for a later life of a shard.
  void Forgo() { forgoes_ = true; }
  // The epoch in which the shard has all that it ever acknowledged; 0: it is away.
  uint64_t ready_epoch(uint32_t shard) const;
  // The first shard that is away, by name, and why; nothing: none is.
  std::optional<std::string> away() const;
  // All shards have acknowledged the pushes up to this one, in some epoch.
  uint64_t acknowledged() const { return acknowledged_; }
  KeptPushes kept() const;

 private:
  struct ShardState {
    explicit ShardState(uint64_t limit_bytes) : window(limit_bytes) {}

    ReplayWindow window;
    // Of the pushes in the window, in their order.
    std::deque<std::vector<StripeMark>> base;
    // [fragment], and then that of rows of tables: all pushes up to this one are, as far as it
    // is known.
    std::vector<uint64_t> durable;
    uint64_t written = 0;  // what the newest generation holds
    bool present = true;
    absl::Duration next_try;  // of one that is away
    int silent_looks = 0;     // since it went away, that were not answered
    std::atomic<uint64_t> named{0};
    std::atomic<uint64_t> ready{0};
  };
  // What the answers of one exchange say, a shard each: pushes of the session up to which
  // nothing is missing.
  struct Heard {
    uint64_t applied = UINT64_MAX;  // of marks
    std::vector<uint64_t> durable;  // as in ShardState
    uint64_t written = UINT64_MAX;
    bool left_out = false;
    bool refused_for_good = false;  // no other try will do
  };

  uint32_t shards() const { return static_cast<uint32_t>(shards_.size()); }
  absl::Duration now() const { return context_.clock->Now(); }
  void ApplyNamed();
  // Makes room for the push; Fill copies it there.
  void Keep(const FetchMarks& base, const std::shared_ptr<const void>& owner);
  void Fill();
  absl::Status MakeRoom();
  // Says why a call waits, and waits a moment; DeadlineExceeded from `end` on.
  absl::Status Wait(const std::string& why, const char* prefix, absl::Duration end);
  bool full() const;
  // Fragments, and the tables as one more.
  uint32_t kinds() const { return options_.fragments.count() + (options_.tables.empty() ? 0 : 1); }
  // One exchange, from which shards that do not answer are left out.
  absl::Status Run(const RequestMaker::ShardRequests& requests, AnswerHandler handler);
  bool LeaveOut(uint32_t shard, const absl::Status& why);
  void GoAway(uint32_t shard, absl::Duration pause);
  absl::StatusOr<Answer> TakeVerdicts(uint32_t shard, const DataHeader& header,
                                      ParameterClient::PushResult* result);
  absl::StatusOr<Answer> TakeRows(uint32_t shard, const RowPushReply& reply);
  absl::StatusOr<Answer> TakeMarks(uint32_t shard, const DataHeader& header);
  // Asks the shards of `wanted`, which is indexed by shard, what they have.
  absl::Status AskMarks(const std::vector<bool>& wanted);
  // Takes over what was heard, and tells up to which push all is durable.
  uint64_t HeardDurable(uint32_t shard);
  // Looks what has become durable on the shards that are there.
  absl::Status Refresh();
  // Of one that is away.
  absl::Status Return(uint32_t shard);
  absl::Status Replay(uint32_t shard);
  absl::Status ReturnDue(bool at_once);
  // `bytes` are those of `push`, wherever they are.
  void AddToRequests(uint32_t index, const ReplayWindow::Push& push,
                     std::span<const std::byte> bytes, bool then_fetch,
                     std::shared_ptr<KeptBytes> keep = nullptr);
  // What belongs to pushes that the window has forgotten.
  void Forget(ShardState* shard);
  // Tells other threads how things stand.
  void Publish();

  const ParameterClientOptions& options_;
  ExchangeContext context_;
  PushEncoder* const encoder_;
  std::vector<std::shared_ptr<const KeptRows>> rows_;  // of the next push
  RequestMaker* const requests_;
  FrameTransport* const transport_;
  const std::function<bool(uint32_t, const absl::Status&)> give_up_;
  std::vector<std::unique_ptr<ShardState>> shards_;
  std::vector<Heard> heard_;
  absl::Duration exchange_began_;
  ExchangeCounts counts_;  // of one push
  uint64_t last_ = 0;
  BufferRing pool_;
  // [shard], of the newest push; null: its frames say where.
  std::vector<std::shared_ptr<KeptBytes>> to_fill_;

  mutable Mutex why_mutex_;
  std::vector<std::string> why_ ABSL_GUARDED_BY(why_mutex_);  // [shard], "": it is there
  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<uint64_t> kept_bytes_{0};
  std::atomic<uint64_t> copied_bytes_{0};
  std::atomic<uint64_t> replayed_{0};
  std::atomic<bool> awaits_{false};  // somebody waits for a generation
  std::atomic<bool> forgoes_{false};
};

}  // namespace monsoon
