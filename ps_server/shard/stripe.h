// Stripe: the unit of lock, version and dedup. Holds its optimizer state and,
// per session, the window of sequences seen; its parameters lie in a SharedSlice,
// where clients on this host may read them without the lock.
//
// Invariants: the version is the number of pushes applied (with rounds, of rounds) and never
// goes back; a copy is taken under the lock, so it is never torn; a sequence is applied at
// most once.
//
// With a RoundRule pushes are added to a Round, and applied when it is over. Nothing ticks: a
// grace that has run out is noticed by the next call that pushes, or asks whether a round is
// over.
//
// Thread safe. Each call takes the stripe's lock for one pass over the stripe
// at most, and no other lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "common/model/tensor_slices.h"
#include "common/optimizer/optimizer.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/parameter_server.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "proto/tensor.pb.h"
#include "proto/wire_format.pb.h"
#include "ps_server/shard/absent_tensors.h"
#include "ps_server/shard/public_copy.h"
#include "ps_server/shard/round.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/session_window.h"
#include "ps_server/shard/stripe_rules.h"
#include "ps_server/vector/memory_budget.h"

namespace monsoon {

// What a stripe has in its state behind that of its optimizer, in this order.
struct StateBehind {
  bool round = false;
  bool public_copy = false;

  static StateBehind Of(const CreateShardJobRequest& request) {
    return {request.has_rounds(), request.fetch_changes() != FLOAT32};
  }
  size_t slots() const {
    return (round ? Round::kSlots : 0) + (public_copy ? PublicCopy::kSlots : 0);
  }
};

class Stripe {
 public:
  static constexpr uint32_t kAnyStaleness = StripeRules::kAnyStaleness;
  struct Options {
    double damping = 0.0;             // the optimizer's
    std::optional<RoundRule> rounds;  // pushes are averaged
    WireFormat changes = FLOAT32;     // else it has a public copy
    // A push whose base is more versions old is dropped.
    uint32_t most_stale = kAnyStaleness;
  };
  // Stripe `index` of `slice`, all zero at version 0. `state` is memory for
  // StateFloats(), slot after slot. `slice` and `kernel` outlive the stripe. `tensors` are those
  // that pushes may leave out (TensorSlices).
  Stripe(SharedSlice* slice, uint32_t index, const OptimizerKernel* kernel, uint64_t shard_epoch,
         AlignedFloats state, const Options& options, std::vector<TensorSlice> tensors = {});
  // The same with memory of its own, and without options.
  Stripe(SharedSlice* slice, uint32_t index, const OptimizerKernel* kernel, uint64_t shard_epoch);

  // Of state for a stripe of `size` floats.
  static size_t StateFloats(const OptimizerKernel& kernel, size_t size, StateBehind behind = {}) {
    return size * (static_cast<size_t>(kernel.state_slots()) + behind.slots());
  }

  size_t size() const { return size_; }

  // One record that passed every check but the session's and the sequence's.
  struct Push {
    SessionId session;
    uint64_t sequence = 0;
    uint64_t base_shard_epoch = 0;
    uint64_t base_version = 0;
    // size() floats, all finite; unused when `invalid` is set.
    std::span<const float> gradient;
    // As PushRequest.weight, finite and above 0.
    float weight = 1;
    // As PushRequest.part, in (0, 1].
    float part = 1;
    // As PushRequest.patience_ms.
    absl::Duration patience;
    // What the gradient has of statistics: values, or what is to be subtracted from them.
    bool statistic_values = true;
    // As PushRequest.absent, of other stripes' tensors too; not with rounds.
    std::span<const uint32_t> absent;
    // Set: validation refused the content, and why. Consumes the sequence, and
    // is remembered in memory of `refusal_memory`.
    std::optional<std::string> invalid;
    MemoryBudget::Reservation refusal_memory;
    bool dropped = false;  // by an earlier life of the shard
  };
  // Applies, acknowledges, refuses or drops it. The verdict lacks stripe and sequence.
  PushVerdict Apply(Push push);

  // Who keeps the session's pushes waiting in a round that is open: sessions that are not in
  // it, or nobody but its grace (an empty list). Nothing: none of its pushes waits.
  std::optional<std::vector<SessionId>> AwaitedBy(SessionId session);
  // The session has nothing to push, or all have not: until it does no round waits for it.
  void Pass(std::optional<SessionId> session);

  // Copies the parameters, or a slot of the optimizer's state (from 1), to `out` (size() floats)
  // and tells version, length and, for a session, its last sequence. Nothing if the session is not
  // open.
  std::optional<FetchRecord> Copy(std::optional<SessionId> session, std::span<float> out,
                                  uint32_t slot = 0) const;
  // From version `from` on, or the next one, it goes by `change` (StripeRules::Take): which it is.
  // Null, of a stripe with rounds: none is over any more before the next call. The version, at
  // which it stays so long.
  uint64_t ChangeRules(std::optional<StripeRules::Change> change, uint64_t from = 0);

  // The same of the public copy, which stands for the parameters after it. `out` gets the steps
  // from the version `known`, where they have fewer bytes, else the copy; size() floats are
  // room for either.
  std::optional<FetchRecord> CopyChanges(SessionId session, std::optional<uint64_t> known,
                                         std::span<std::byte> out);

  // What it has of an open session's pushes; nothing if it is not open.
  std::optional<StripeMarks> Marks(SessionId session) const;
  // A newer generation that holds this cut of the stripe is on the disk, in place of
  // the older one of the two that were there.
  void NoteWritten(const StripeRecord& cut);

  // Replaces the parameters, or a slot of the optimizer's state (from 1), size() floats; the
  // version and all else stay.
  void Write(std::span<const float> content, uint32_t slot = 0);
  // Replaces the parameters and behind them each slot of the optimizer's state, size() floats each,
  // and raises the version, as one: whoever reads finds all of it or nothing.
  void Adopt(std::span<const std::span<const float>> slots, uint64_t version);
  // To `version`, unless it is higher already: of a checkpoint that is resumed.
  void RaiseVersion(uint64_t version);
  // Of each tensor as many pushes were without it as `cut`, of another job's stripe, says.
  void TakeAbsent(const StripeRecord& cut);

  // Where a cut's floats go, before anybody else has the stripe.
  struct Floats {
    std::span<float> parameters;
    std::span<float> state;
  };
  Floats MutableFloats();
  // Makes its floats those of a new stripe, before anybody else has it.
  void Clear();
  // Its floats are those of `cut` now: makes the version and the windows of those of its
  // sessions that are open here what the cut holds. `older` is what the generation
  // before holds of the stripe; null: there is none, and nothing is durable.
  void Restore(const StripeRecord& cut, const StripeRecord* older);

  // As of this moment: the parameters to `parameters` (size() floats), the state to
  // `state` (StateFloats()), version and windows of open sessions.
  StripeRecord Cut(std::span<float> parameters, std::span<float> state) const;

  // Readers of the slice find the session's last sequence under `slot`, and `mark` gets
  // it, unless that has more; null: nothing does.
  void OpenSession(SessionId session, SessionSlot slot = {}, std::atomic<uint64_t>* mark = nullptr);
  bool HasSession(SessionId session) const;
  // An earlier life had seen more of an open session than this one has by now.
  bool IsBehind(SessionId session) const;
  // Pushes of an open session that were applied; 0 for others.
  uint64_t AppliedBy(SessionId session) const;
  // Afterwards no push of the session is applied. `keep`: cuts hold what it has seen of
  // the session, until ForgetClosed.
  struct Closed {
    uint64_t applied = 0;  // pushes
    uint64_t last = 0;     // sequence that it has seen
  };
  Closed CloseSession(SessionId session, bool keep = false);
  // As if it had closed one of which it has seen `last`.
  void KeepClosed(SessionId session, uint64_t last);
  void ForgetClosed(SessionId session);

  uint64_t version() const;

  // Every byte of parameters and state, for tests.
  std::string Snapshot() const;

 private:
  struct Session {
    SessionWindow window;
    SessionSlot slot;
    MemoryBudget::Reservation refusal_memory;  // of what the window remembers
    uint64_t written = 0;                      // as in StripeMarks
    uint64_t durable = 0;
    std::atomic<uint64_t>* mark = nullptr;
    bool passes = false;
  };

  void InitializeState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t StalenessOf(const Push& push) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `before`: the last sequence of each session that the older generation holds.
  void RestoreSessions(const StripeRecord& cut, const std::map<SessionId, uint64_t>& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without rounds: the push moves the parameters now.
  void MoveBy(const Push& push, int64_t staleness, double damping, Session* session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The kernel was applied. Within a StripeWriteScope.
  void AdvanceVersion() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its verdict, where it was not refused, is filled in by the caller.
  absl::Status JoinRound(const Push& push, double damping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PushVerdict Refuse(Session* session, Push* push, std::string why, PushVerdict verdict)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What an earlier life of the shard had seen comes again without a pause between rounds: a
  // worker's differences of many of them would all fall into one, and their mean be that of a
  // single round.
  bool IsOfLaterRound(const Push& push) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool RoundIsOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseRoundIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The last sequence of the session that is applied or refused, and not in an open round.
  uint64_t LandedOf(SessionId id, const Session& session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The optimizer's.
  std::span<float> kernel_state() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_.span().first(StateFloats(rules_.kernel(), size_));
  }
  // Tells readers; within a StripeWriteScope.
  void ShareMarks(const Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t size_;
  const uint64_t shard_epoch_;

  mutable Mutex mutex_;
  StripeRules rules_ ABSL_GUARDED_BY(mutex_);
  // Written within a StripeWriteScope over header_.
  const std::span<float> parameters_ ABSL_GUARDED_BY(mutex_);
  StripeHeader* const header_ ABSL_PT_GUARDED_BY(mutex_);
  AlignedFloats state_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<AbsentTensors> absent_ ABSL_PT_GUARDED_BY(mutex_);
  std::optional<Round> round_ ABSL_GUARDED_BY(mutex_);        // its sum is in state_
  std::optional<PublicCopy> public_ ABSL_GUARDED_BY(mutex_);  // its floats are in state_
  std::map<SessionId, Session> windows_ ABSL_GUARDED_BY(mutex_);
  // Windows of closed sessions that cuts still hold.
  std::map<SessionId, SessionWindow> closed_ ABSL_GUARDED_BY(mutex_);
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What one refusal takes that is remembered, at most, for a message of so many
// bytes; and an open session of one stripe beside that.
constexpr uint64_t RefusalBytes(uint64_t message_bytes) { return 2 * 40 + message_bytes + 16; }
inline constexpr uint64_t kSessionStripeBytes = 320;

}  // namespace monsoon
