// ReplicaMembership: what a worker task knows of its place in the cluster: its
// incarnation, what it is to run, and how often to beat. Heartbeats ask for it
// and bring it up to date; who sends them, and when, is the caller's affair.
//
//   HeartbeatRequest request = membership.MakeRequest();
//   ... add the session's figures ...
//   membership.Apply(request, answer);
//
// Thread safety: none. Does no I/O; copyable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "proto/journal_mark.pb.h"

namespace monsoon {

bool SameSession(const SessionKey& a, const SessionKey& b);

class ReplicaMembership {
 public:
  struct Options {
    std::string cluster;   // the cluster file's name of it
    uint32_t task = 0;     // worker/`task` of the cluster file; a guest's comes with joining
    uint64_t guest = 0;    // not 0: not in the cluster file; random, of this process's life
    uint64_t process = 0;  // random, of this process's life; 0: not drawn
    std::string host;      // of its machine, shown to people
    // Why others may not reach it at its address, at the moment; null: nobody asks.
    std::function<std::string()> trouble;
    // The job that a guest is there for alone (ReplicaClient::Enter); "": any.
    std::string enters_job;
    uint64_t enters_job_term = 0;
    uint32_t pid = 0;
    std::string device = "CPU";                          // or "CUDA"; shown to people
    uint32_t threads = 1;                                // shown to people
    absl::Duration heartbeat = absl::Milliseconds(500);  // until the coordinator says
  };

  enum class Outcome {
    kMember,  // still the member that it was, or, where the job has ended, not made one
    kJoined,  // a member from now on, as a new incarnation
    kRejoin,  // the coordinator lost this worker: the next heartbeat joins again
    kStale,   // the answer is for an incarnation given up meanwhile; nothing changed
  };

  explicit ReplicaMembership(Options options);

  // The next heartbeat, without a session.
  HeartbeatRequest MakeRequest() const;
  // Takes the answer to `request`.
  Outcome Apply(const HeartbeatRequest& request, const HeartbeatReply& reply);

  // What to run; null: nothing, or only the session that was left last. Valid
  // until the next change.
  const Assignment* assignment() const;
  // The job that the guest entered has ended, or is gone; nothing: not so. Valid until the
  // next change.
  struct JobEnd {
    JobState state = JOB_STATE_UNSPECIFIED;
    std::string reason;
  };
  const std::optional<JobEnd>& job_end() const { return job_end_; }
  // Of the assigned job: replicas that have an open session, this one included.
  uint32_t replicas() const { return replicas_; }
  // Of the assigned job: local steps of the next difference; 0: as many as the job says.
  uint32_t local_steps() const { return local_steps_; }
  // Whether the coordinator assigns `session`, left or not.
  bool Assigned(const SessionKey& session) const;

  // `session` was left and is not run again. `rejoin`: the shards or the
  // coordinator lost it, so the next heartbeat joins as a new incarnation.
  void Leave(std::optional<SessionKey> session, bool rejoin);

  // 0: not a member.
  uint64_t incarnation() const { return incarnation_; }
  // How often to beat. A member that is silent for long loses its session.
  absl::Duration heartbeat() const { return heartbeat_; }
  const Options& options() const { return options_; }
  // "worker/3 of cluster NAME", or "a guest of ...", for messages.
  std::string Name() const;

 private:
  void Forget();

  Options options_;
  uint64_t incarnation_ = 0;
  uint64_t term_ = 0;  // of the coordinator that gave it
  absl::Duration heartbeat_;
  std::optional<Assignment> assignment_;
  std::optional<SessionKey> left_;
  std::optional<JobEnd> job_end_;
  uint32_t replicas_ = 0;
  uint32_t local_steps_ = 0;
  std::optional<JournalMark> journal_;  // the newest that a coordinator has told
};

}  // namespace monsoon
