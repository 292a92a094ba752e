// SidecarLink: a replica's way to its sidecar: one request at a time, each with one answer. A
// sidecar that dies gets a successor, which enters the job again with the same memory and gets
// kBegin in the place of the request that the dead one had: what it answers is of a new session.
//
// After a fork the link is the parent's: the child's calls are refused, and its copy leaves the
// process alone.
//
// Thread safety: none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "worker/client/exchange.h"
#include "worker/client/result.h"
#include "worker/client/sidecar_process.h"

namespace monsoon {

class SidecarLink {
 public:
  // How a sidecar is started, and what it is told first: kJoin, but for its last fields.
  struct Start {
    std::string executable;
    std::string log_file;
    std::string join;
  };

  explicit SidecarLink(Start start);
  ~SidecarLink();
  SidecarLink(const SidecarLink&) = delete;
  SidecarLink& operator=(const SidecarLink&) = delete;

  // Starts the first sidecar, and gives its answer to kJoin. `timeout_ms`: what the request tells
  // the coordinator to bear.
  Result Join(uint32_t timeout_ms, Message* answer);
  // The job was entered: successors enter `job` again. `between_looks` is called now and then
  // while an answer is awaited.
  void Joined(const std::string& job, std::function<void()> between_looks);
  // Of the vectors, as it came with the answer; -1: none did. The link's, for a next sidecar.
  int memory() const { return memory_; }

  // Why it cannot be used now: a fork has it, or the job was left.
  Result CheckUsable() const;
  // From now on nothing can be asked any more, and why: that is every call's answer.
  Result Break(monsoon_code code, std::string message);
  const Result& broken() const { return broken_; }

  // Sends the request; Await takes its answer. Nothing is asked while an answer is missing.
  Result Ask(MessageKind kind, const FieldWriter& fields);
  // Waits for the answer that is missing. INTERRUPTED: a signal came, and it still is; any other
  // error has broken the link.
  Result Await(Message* answer);
  bool asked() const { return asked_; }
  MessageKind asked_for() const { return asked_for_; }
  // Whether the last answer is the first one of a successor. True once.
  bool TakeRestarted();
  // A step was counted: deaths count anew.
  void NoteStep() { restarts_ = 0; }

  Result Leave();
  pid_t sidecar_pid() const { return sidecar_->pid(); }

 private:
  // What all sidecars are told as kJoin; `died`: how the one before did, of a job that is
  // entered again.
  std::string JoinFields(const std::string& died) const;
  // "the sidecar (pid 12) was killed by signal 9 (Killed)"; it has ended then.
  std::string HowSidecarEnded();
  Result SidecarIsGone();
  // Starts another one in its place, which answers kJoin, then kBegin in the place of the
  // call that was made. An error: too many have died in a row.
  Result Restart();
  // The new one has entered the job: begins.
  Result BeginAgain(const Message& joined);

  const pid_t owner_;
  const Start start_;
  std::string job_;
  std::function<void()> between_looks_;
  std::unique_ptr<SidecarProcess> sidecar_;
  int memory_ = -1;

  bool asked_ = false;  // an answer is missing
  MessageKind asked_for_ = MessageKind::kBegin;
  bool joins_again_ = false;  // the answer is a new sidecar's to kJoin
  bool restarted_ = false;    // the answer will be of a new session
  uint32_t restarts_ = 0;     // since a step was counted
  bool left_ = false;
  Result broken_;
};

}  // namespace monsoon
