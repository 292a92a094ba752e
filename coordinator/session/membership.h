// Membership: which workers are there, by heartbeat. A worker joins with
// incarnation 0 and gets one that grows with each join of its task; after
// `lost_after` of silence it is lost, and if it wakes up it must join again. So must
// one whose incarnation this coordinator's state does not know: an incarnation goes with
// the term in which it was given.
//
// In an open cluster workers that the cluster file does not list may join, too (guests).
// One is known by the number that its process drew, and becomes the worker with the lowest
// number above the listed ones' that nobody has; that number is free again once it left
// or was lost. In any cluster the programs of a joined job may
// (HeartbeatRequest.enters_job): such a guest is there for that job alone.
//
// An incarnation is that of the member that has joined with it, where that one proves who it is:
// another one, also a later one of the same name, must join again, and cannot while the first is
// there under another name.
//
// A pure state machine over the durable counters: `now` (since any origin) never
// goes back. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/state/state_writer.h"
#include "proto/coordinator.pb.h"
#include "proto/member_identity.pb.h"

namespace monsoon {

struct Member {
  enum class State { kNeverSeen, kUp, kLost, kLeft };
  State state = State::kNeverSeen;
  uint64_t incarnation = 0;
  uint32_t pid = 0;      // 0: it has a session, and this life has not heard from it yet
  uint64_t process = 0;  // that its process drew (HeartbeatRequest.process)
  std::string device;
  std::string host;  // its machine, as it names it
  std::string said;  // HeartbeatRequest.trouble
  uint32_t threads = 0;
  absl::Duration last_seen;
  int64_t last_seen_ms = 0;  // Unix time, for people

  // In this life of the coordinator.
  bool was_heard() const { return last_seen_ms != 0; }
  // Why others may not reach it at its address, as it says; of one that is not there nobody knows.
  std::string trouble() const { return state == State::kUp ? said : ""; }
};

class Membership {
 public:
  struct Options {
    std::string cluster;
    uint32_t workers = 0;  // of the cluster file
    absl::Duration lost_after;
    bool open = false;          // guests may join
    uint32_t most_workers = 0;  // listed ones and guests
    // Free numbers that a guest is not to get, which enters this job, or ""; null: none. For
    // workers that a running job has excluded: a new guest is not to suffer for an old one.
    std::function<bool(uint32_t worker, const std::string& job)> shunned;
  };

  enum class Outcome {
    kRefreshed,   // a known member
    kJoined,      // for the first time
    kRejoined,    // a new incarnation; sessions of older ones must be closed
    kMustRejoin,  // lost in between, or unknown: the caller joins again
    kLeft,        // says goodbye; its session must be closed
  };

  struct Heard {
    Outcome outcome = Outcome::kMustRejoin;
    uint32_t worker = 0;  // who it is; of a guest that must join again, no meaning
  };

  // Incarnation counters are durable: `writer` keeps them, and outlives this.
  Membership(const Options& options, StateWriter* writer)
      : options_(options), writer_(writer), members_(options.workers) {}

  // FAILED_PRECONDITION for another cluster or protocol version, and for a guest that
  // enters no job where the cluster is not open; NOT_FOUND for a task that the cluster file does
  // not have; ALREADY_EXISTS when another live process (both are named) is this task;
  // RESOURCE_EXHAUSTED when there are `most_workers`. `sender`: unset where it proves nothing.
  absl::StatusOr<Heard> Heartbeat(const HeartbeatRequest& request, absl::Duration now,
                                  int64_t unix_ms, const MemberIdentity& sender = {});
  // The workers that are lost as of now and were not before.
  std::vector<uint32_t> Tick(absl::Duration now);
  // Nobody could be heard until now: all have their whole deadline again.
  void ForgiveSilence(absl::Duration now);
  // Its process, as of its incarnation now, is to leave: heartbeats tell it. NOT_FOUND for
  // a task that the cluster file does not have, FAILED_PRECONDITION for one that is not
  // there.
  absl::Status Drain(uint32_t worker);
  // Makes the worker join again: its session cannot go on.
  void Expel(uint32_t worker);
  // It had a session when an earlier life of the coordinator ended: it counts as up from
  // now on. False: there is no such worker any more.
  bool Expect(uint32_t worker, absl::Duration now);

  // One that the cluster file does not have, of an older one: never seen.
  Member member(uint32_t worker) const;
  // Listed workers and guests, those that left included.
  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  bool listed(uint32_t worker) const { return worker < options_.workers; }
  bool up(uint32_t worker) const { return member(worker).state == Member::State::kUp; }
  // The job, by id and term, that the guest is there for, or was; null: for any.
  const WorkerIncarnation* Entered(uint32_t worker) const;
  bool HasEntered(uint32_t worker, const std::string& job, uint64_t job_term) const;
  // Which member's the worker's incarnation is; unset where nobody knows.
  MemberIdentity MemberOf(uint32_t worker) const;
  // Up, and was told to leave: it gets no new session.
  bool draining(uint32_t worker) const { return up(worker) && writer_->state().draining(worker); }

 private:
  absl::Status CheckSender(const HeartbeatRequest& request) const;
  // What the sender holds is not given to anybody else.
  void NoteHeld(const HeartbeatRequest& request);
  uint64_t NextIncarnation(uint32_t worker);
  absl::Status NotThere(uint32_t worker) const;
  // The number that this guest has or had, if it is no other's by now.
  std::optional<uint32_t> FindGuest(uint64_t guest) const;
  absl::StatusOr<uint32_t> NumberForGuest(const std::string& enters_job) const;
  absl::StatusOr<Outcome> Hear(uint32_t worker, const HeartbeatRequest& request, absl::Duration now,
                               int64_t unix_ms, const MemberIdentity& sender);
  // Made if there is none.
  Member& At(uint32_t worker);

  const Options options_;
  StateWriter* const writer_;
  std::vector<Member> members_;  // without their incarnations
  // By worker: the highest incarnation that somebody has said is its own, where no state here has
  // given it: a newer state has, which is lost.
  std::map<uint32_t, uint64_t> held_;
};

}  // namespace monsoon
