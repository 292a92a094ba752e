// MemberCore: what one member of a group knows and decides in its generation: which frames it may
// send, what becomes of those that come, for whom it waits, and what ended it. A state machine
// without threads, clocks or transport: time is an argument, and floats are moved by its callers.
//
// Frames of floats from one member to another are numbered, so each counts once whatever is sent
// again, late or twice. A sender has at most `window` of them that the receiver has not done with;
// those that come before the receiver's call is there, or before what they must be added to, are
// kept until then. So a member that runs ahead takes window * 1 MiB at most of each other one, and
// waits then.
//
// The first error is the last: the generation has failed, and each later call gives the same.
// Members trust each other's numbers and values; what a frame could do beyond the caller's vector,
// or to another generation, is checked.
//
// Not thread safe. Between Arrive or NextKept, and EndTaking, the floats that they named are
// written without a lock; nobody else is given them meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/collective/collective.h"
#include "common/collective/peer_header.h"
#include "common/collective/plan.h"
#include "common/collective/plan_run.h"
#include "common/collective/wait_chain.h"
#include "common/memory/aligned_floats.h"

namespace monsoon {

// One member's view of a generation.
struct Group {
  uint64_t generation = 1;  // from 1
  uint32_t rank = 0;
  std::vector<std::string> names;  // one a member, for messages: "worker/2 at HOST:PORT"
  // Who a member's frames come from: MemberName of its certificate, "worker/2". Empty, all of it or
  // one: the frame says it.
  std::vector<std::string> callers;

  uint32_t members() const { return static_cast<uint32_t>(names.size()); }
};

class MemberCore {
 public:
  // Keeps a receiver busy while answers are on their way.
  static constexpr uint32_t kWindow = 4;

  explicit MemberCore(Group group, uint32_t window = kWindow);

  const Group& group() const { return group_; }
  const absl::Status& failed() const { return failed_; }
  void Fail(const absl::Status& status);

  // ---- this member's calls
  // The next collective begins. `plan` and `vector` live until Stop. `patience`: who is waited for
  // and silent for so long ends the generation.
  absl::Status Start(const Plan* plan, std::span<float> vector, absl::Duration patience,
                     absl::Duration now);
  bool finished() const { return run_.active() && run_.finished(); }
  // Nobody writes the vector: Stop may be called.
  bool idle() const { return taking_ == 0; }
  // Frames are on their way, and no stream has broken meanwhile.
  bool unanswered() const;
  // The call is over, finished or not; what is unanswered is forgotten.
  void Stop();

  // ---- what comes
  struct Taking {
    uint32_t peer = 0;
    StepId step = kNoStep;
    bool add = false;  // to what is there
    std::span<float> to;
  };
  struct Arrival {
    std::optional<Taking> taking;  // do it, then EndTaking
    bool keep = false;             // copy the floats, then Keep
    bool wakes = false;            // the member's thread has something to do
  };
  // A frame of `payload_bytes`. Unavailable: to be sent again later. Other errors are the frame's.
  absl::StatusOr<Arrival> Arrive(const PeerHeader& header, size_t payload_bytes,
                                 absl::Duration now);
  // True: the member's thread has something to do.
  bool Keep(const PeerHeader& header, AlignedFloats floats);
  bool EndTaking(const Taking& taking);
  // What to answer to it, once it was done with or kept.
  PeerAnswer AnswerTo(const PeerHeader& header);

  // ---- the member's own work
  // A kept frame that has its place now. Do it, then EndTaking.
  struct KeptTaking {
    Taking taking;
    AlignedFloats floats;
  };
  std::optional<KeptTaking> NextKept();
  // A sum; do it, then EndSum.
  struct Sum {
    StepId step = kNoStep;
    std::vector<std::span<const float>> operands;
    std::span<float> to;
  };
  std::optional<Sum> NextSum();
  void EndSum(StepId step) { run_.End(step); }

  // ---- what goes
  struct Outgoing {
    uint64_t request_id = 0;
    PeerHeader header;
    std::span<const float> floats;        // stay as they are until the frame is answered
    std::shared_ptr<const void> copy_of;  // owner of `floats` where they are a copy
  };
  // The next frame to `peer`, if one may go now.
  std::optional<Outgoing> NextFrame(uint32_t peer, absl::Duration now);
  // The answers to a peer's frames come in their order.
  void Answered(uint32_t peer, uint64_t request_id, const PeerAnswer& answer, absl::Duration now);
  // The first that is unanswered was refused. Unavailable: it goes again, after a pause, and so do
  // those behind it, which are refused too.
  void Refused(uint32_t peer, const absl::Status& status, absl::Duration now);
  // The stream broke; what was unanswered goes again.
  void Broken(uint32_t peer, const absl::Status& status, absl::Duration now);

  // Ends the generation if somebody was silent for too long. Gives how long nothing can happen
  // without a frame.
  absl::Duration Tick(absl::Duration now);

 private:
  struct Sent {
    uint64_t request_id = 0;
    PeerHeader::Type type = PeerHeader::Type::kFloats;
    uint64_t number = 0;
    StepId step = kNoStep;
  };
  struct Kept {
    PeerHeader header;
    AlignedFloats floats;
  };
  struct Peer {
    // Out.
    std::deque<Sent> unanswered;
    std::deque<Sent> again;   // floats sent in vain, in the order of their numbers
    bool collecting = false;  // of what is unanswered some was refused: the rest comes first
    uint64_t numbered = 0;
    uint64_t consumed_there = 0;
    absl::Duration retry_at;
    uint32_t breaks = 0;  // in a row
    absl::Duration broken_since;
    absl::Status last_break;
    bool ask = false;  // is to be asked for whom it waits
    bool told_failure = false;
    // In.
    uint64_t arrived = 0;
    uint64_t consumed = 0;
    uint64_t consumed_told = 0;
    uint32_t keeping = 0;  // between Arrive and Keep
    std::deque<Kept> kept;
    absl::Duration heard;  // floats, or an answer to some
  };

  void TakeGaveUp(const PeerHeader& header);
  // Where somebody has left who has not all of that call.
  void FailIfGone(uint64_t call);
  absl::StatusOr<Arrival> ArriveFloats(const PeerHeader& header, size_t payload_bytes);
  absl::Status CheckFits(const PeerHeader& header, size_t floats) const;
  PeerHeader HeaderTo(uint32_t peer, PeerHeader::Type type);
  std::optional<Outgoing> NextControl(uint32_t peer);
  std::optional<Outgoing> Again(uint32_t peer);
  Outgoing FloatsOf(uint32_t peer, const Sent& sent);
  void SendAgain(const Sent& sent, Peer* peer);
  std::optional<StepId> Missing() const;
  void NoteWait(uint32_t peer, const PeerAnswer& answer);
  absl::Status SilenceError(StepId missing, absl::Duration silence) const;

  const Group group_;
  const uint32_t window_;
  absl::Status failed_;
  bool by_peer_ = false;  // failed as another member has told all
  // Somebody has left after it had all of the call `gone_after_`: fails in a later one.
  absl::Status gone_;
  uint64_t gone_after_ = 0;
  PlanRun run_;
  uint64_t collective_ = 0;  // of run_, or the last one
  uint32_t taking_ = 0;
  uint64_t requests_ = 0;
  absl::Duration started_;
  absl::Duration patience_;
  absl::Duration look_at_;  // when somebody may have been silent for long
  std::vector<Peer> peers_;
  WaitChain chain_;
};

}  // namespace monsoon
