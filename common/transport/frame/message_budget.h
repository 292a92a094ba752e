// MessageBudget: what the connections of a server may take of its message memory,
// so that all of them together stay within it, whatever the clients send. gRPC's
// own ResourceQuota does not cap memory.
//
// A connection that is only open costs little: what its transport holds before
// anybody reads it. To receive a message and serve it a connection needs a turn,
// which stands for the memory of that: the message and the next one, copies of
// what is applied, and answers being sent. So many connections share few turns. A
// connection keeps its turn until somebody waits for one; then idle ones give
// theirs back, those first that were idle longest, and busy ones at the end of
// a message once they had it for long.
//
// Members share both (common/security/member_shares.h): one may have so many connections open and
// so many turns that the next member finds some, and none gives a turn back for the sake of a
// member that has as many. So whoever opens streams without end keeps himself waiting, and nobody
// else. Connections of no member (Unix sockets, shared memory) count one by one.
//
// A quarter of the memory is kept for streams that have arrived but are not
// connected yet, and for the allocator.
//
// Time is an argument. Thread safe.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/security/member_shares.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {

// Memory that a turn stands for: the message being served, the next one that
// arrives meanwhile, an answer being sent or made, and decoded copies.
inline constexpr uint64_t kTurnBytes = 2 * kMaxFramePayloadBytes + 3 * kMaxFrameBytes;
// What an open stream costs: bytes that gRPC takes before anybody reads them
// (kServerLookaheadBytes, common/transport/grpc/channel.h).
inline constexpr uint64_t kOpenStreamBytes = 128 << 10;
// What an open connection in shared memory costs (frame_channel.h), and something
// for its thread.
inline constexpr uint64_t kOpenSharedBytes = (2 << 20) + (64 << 10);

// Data streams of a worker to one server for each of its connections (cluster.proto): one for
// fetches, one for pushes.
inline constexpr uint64_t kStreamsPerWorker = 2;
// Workers whose streams a server with so much message memory admits at once, be
// they on its host or not.
uint64_t WorkersAdmitted(uint64_t message_memory_bytes, uint32_t connections);

class MessageBudget {
  // A member's.
  struct Turns {
    uint64_t held = 0;
    uint64_t waited_for = 0;
  };

 public:
  enum class Kind { kStream, kShared };

  // A connection that takes turns. What it is told comes under the budget's lock,
  // from any thread: it notes it and returns.
  class Holder {
   public:
    // The turn that Ask did not give begins.
    virtual void Granted() = 0;
    // Somebody waits: Leave soon, if still idle. `stuck`: it is busy and has not
    // gone on for a long time: end the connection.
    virtual void GiveWay(bool stuck) = 0;

   protected:
    ~Holder() = default;

   private:
    friend class MessageBudget;
    enum class State { kNone, kWaiting, kBusy, kIdle, kAsked };
    State state_ = State::kNone;
    std::string member_;
    Turns own_;                           // of no member's
    Turns* turns_ = &own_;                // its member's
    bool served_ = false;                 // a message in this turn
    absl::Duration granted_at_;           // the turn
    absl::Duration changed_at_;           // the state, or it went on
    std::list<Holder*>::iterator place_;  // in the list of its state
  };

  // A turn that nobody used lasts kFirstMessage at least while others wait, and
  // kShortestTurn afterwards: its client's next message may be on its way. A busy
  // one ends with the first message after kLongestTurn, and is stuck after kStuck.
  static constexpr absl::Duration kFirstMessage = absl::Milliseconds(200);
  static constexpr absl::Duration kShortestTurn = absl::Milliseconds(10);
  static constexpr absl::Duration kLongestTurn = absl::Seconds(1);
  static constexpr absl::Duration kStuck = absl::Seconds(15);

  explicit MessageBudget(uint64_t message_memory_bytes);

  // A connection of `member` (QuotaName, common/security/caller.h) is open until Disconnect.
  // ResourceExhausted names the budget and the field that raises it, or the member and its share.
  // At least one is always admitted.
  absl::Status Connect(Kind kind, const std::string& member = "");
  void Disconnect(Kind kind, const std::string& member = "");

  // True: the turn begins. False: Granted comes later, to the members with the fewest turns first,
  // and then in the order of asking.
  bool Ask(Holder* holder, absl::Duration now, const std::string& member = "");
  // Ends the turn, or the wait for one. Nothing is told afterwards.
  void Leave(Holder* holder, absl::Duration now);

  // The holder of a turn begins to serve a message that it has received. False:
  // it had its turn for long, and others wait: it must leave without serving it.
  bool NoteBusy(Holder* holder, absl::Duration now);
  // It goes on: a client took one of many answers.
  void NoteProgress(Holder* holder, absl::Duration now);
  // It has served all it has received. False: Leave now.
  bool NoteIdle(Holder* holder, absl::Duration now);

  // The connection is ending; it holds its turn until Leave, and is told nothing
  // any more.
  void NoteEnding(Holder* holder);

  // Asks those to give way whose turn was long enough. To be called every few
  // milliseconds while somebody waits.
  void Tick(absl::Duration now);
  // Waits until somebody waits for a turn; false after `timeout` or Open.
  bool AwaitWaiting(absl::Duration timeout);

  // The server ends: who waits gets a turn, and so does whoever asks from now on.
  void Open();
  bool open() const;

  uint64_t turns() const;  // that can be held now at once

 private:
  uint64_t CostOf(Kind kind) const;
  uint64_t Most() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // of turns
  // Whether the holder may have one more.
  bool HasTurn(const Holder& holder) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Who waits, may have a turn, and comes first; null: nobody.
  Holder* NextWaiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether somebody waits for whose sake the holder is to give its turn back.
  bool IsInTheWay(const Holder& holder) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It comes to, or leaves, the list of `state`.
  void Count(Holder* holder, Holder::State state, uint64_t more)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(Holder* holder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(Holder* holder, absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GrantWaiting(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether more turns are waited for than were asked back.
  bool Wanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move(Holder* holder, Holder::State state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::list<Holder*>& ListOf(Holder::State state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t message_memory_bytes_;
  mutable Mutex mutex_;
  CondVar waits_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t connections_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t connection_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t shared_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of these
  MemberShares shares_ ABSL_GUARDED_BY(mutex_);        // of these
  // Of members with holders that wait or have turns.
  std::unordered_map<std::string, Turns> turns_ ABSL_GUARDED_BY(mutex_);
  // Each in the order of changed_at_.
  std::list<Holder*> waiting_ ABSL_GUARDED_BY(mutex_);
  std::list<Holder*> busy_ ABSL_GUARDED_BY(mutex_);
  std::list<Holder*> idle_ ABSL_GUARDED_BY(mutex_);
  std::list<Holder*> asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
