// SessionTable: which sessions a job has had on this shard. A worker has at
// most one open session, and its incarnations only grow: a session that was
// closed or overtaken never opens again. Of each worker the highest incarnation that
// was closed is remembered, so memory grows with workers and not with their lives.
//
// A pure state machine. Thread safety: none; the job's lock guards it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace monsoon {

struct SessionId {
  uint32_t worker = 0;
  uint64_t incarnation = 0;
  auto operator<=>(const SessionId&) const = default;
};

// Of no session: incarnations begin with 1.
inline constexpr uint64_t kNoIncarnation = 0;

// What a call for a session that is not open is told.
std::string NotOpen(SessionId session);

class SessionTable {
 public:
  struct Opening {
    bool already_open = false;           // nothing to do
    std::optional<SessionId> overtaken;  // must be closed first
  };
  // Whether `session` may open. FailedPrecondition when it was closed or a
  // newer incarnation exists; InvalidArgument for kNoIncarnation.
  absl::StatusOr<Opening> PlanOpen(SessionId session) const;
  void RecordOpen(SessionId session);

  bool IsOpen(SessionId session) const;
  // Closes it, opened before or not; `applied` records is what it will be reported
  // with until a higher incarnation is closed.
  void RecordClose(SessionId session, uint64_t applied);
  // Set for a session that was closed; 0 for one below the highest.
  std::optional<uint64_t> ClosedApplied(SessionId session) const;

  // Something is remembered of the worker.
  bool Knows(uint32_t worker) const { return open_.contains(worker) || closed_.contains(worker); }
  // Whether any session was ever opened, in an earlier life too.
  bool had_session() const { return had_session_; }
  void NoteEarlierSessions() { had_session_ = true; }

  struct Closed {
    uint64_t incarnation = 0;
    uint64_t applied = 0;
  };
  // By worker.
  const std::map<uint32_t, Closed>& closed() const { return closed_; }

 private:
  std::map<uint32_t, uint64_t> open_;  // worker -> incarnation
  std::map<uint32_t, Closed> closed_;
  bool had_session_ = false;
};

}  // namespace monsoon
