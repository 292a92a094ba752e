// SessionTable: which sessions a job has had on this shard. A worker has at
// most one open session, and its incarnations only grow: a session that was
// closed or overtaken never opens again.
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

// What a call for a session that is not open is told.
std::string NotOpen(SessionId session);

class SessionTable {
 public:
  struct Opening {
    bool already_open = false;           // nothing to do
    std::optional<SessionId> overtaken;  // must be closed first
  };
  // Whether `session` may open. FailedPrecondition when it was closed or a
  // newer incarnation exists.
  absl::StatusOr<Opening> PlanOpen(SessionId session) const;
  void RecordOpen(SessionId session);

  bool IsOpen(SessionId session) const;
  // Closes it, opened before or not; `applied` records is what it will always
  // be reported with.
  void RecordClose(SessionId session, uint64_t applied);
  // Set for a session that was closed.
  std::optional<uint64_t> ClosedApplied(SessionId session) const;

  // Whether any session was ever opened.
  bool had_session() const { return had_session_; }

 private:
  std::map<uint32_t, uint64_t> open_;  // worker -> incarnation
  std::map<SessionId, uint64_t> closed_;
  bool had_session_ = false;
};

}  // namespace monsoon
