// SessionMarks: where one job's sessions leave the last sequence that each stripe has seen
// of them, so that it outlives the process: what a part does not hold of a session that
// nobody can replay is then known exactly. The shard stores, an adapter keeps
// (ps_server/checkpoint/marks_folder.h).
//
// A session's marks stay after its close, until the generations that are kept hold the
// close. Thread safety: calls by one at a time; each stripe stores under its own lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "proto/parameter_server.pb.h"
#include "ps_server/shard/session_table.h"

namespace monsoon {

class SessionMarks {
 public:
  virtual ~SessionMarks() = default;

  // Sessions that an earlier life has left marks of.
  virtual std::vector<SessionId> Earlier() const = 0;
  // One for each stripe, and one for the tables of a job that has any, with what an earlier
  // life has stored. Valid until Forget. Empty
  // where there is no room: then nothing will be known of the session.
  virtual std::span<std::atomic<uint64_t>> Open(SessionId session) = 0;
  // Whether the marks of an open one are all that was stored. False after the host has
  // died: then they are the least.
  virtual bool complete(SessionId session) const = 0;
  // They are gone, also after the host has died, when it returns; false: they are not.
  virtual bool Forget(SessionId session) = 0;
  // That an open one takes.
  virtual uint64_t session_bytes() const = 0;
};

// Makes those of a new slice, so many for each session. `fresh`: what an earlier life has left
// does not count. Null: there are none.
using MakeSessionMarks = std::unique_ptr<SessionMarks>(const CreateShardJobRequest& create,
                                                       uint32_t marks, bool fresh);

}  // namespace monsoon
