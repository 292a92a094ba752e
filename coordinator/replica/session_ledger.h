// SessionLedger: the sessions of one job and where each stands on each shard.
// A session is open when every shard has opened it, and closed when every shard
// that is still there has closed it; only then may the worker's data be given
// away and a newer incarnation of it get a session.
//
// A pure state machine. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/shard_command.h"
#include "coordinator/core/shard_fanout.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class SessionLedger {
 public:
  enum class State { kOpening, kOpen, kClosing };

  struct Session {
    SessionKey key;
    State state = State::kOpening;
    ShardFanout fanout;
  };

  SessionLedger(std::string job, uint32_t shards) : job_(std::move(job)), shards_(shards) {}

  // Begins to open a session. The worker must have none.
  void Open(uint32_t worker, uint64_t incarnation);
  // Begins to close the worker's session; no effect without one.
  void Close(uint32_t worker);
  void CloseAll();

  // The commands to send now; each will be answered by OnResult.
  std::vector<ShardCommand> Due(absl::Duration now);
  void OnResult(const ShardCommand& command, const absl::Status& status, absl::Duration now);
  // The shard will never answer again.
  void SkipShard(uint32_t shard);

  // What has happened since the last call.
  struct Changes {
    std::vector<uint32_t> opened;
    std::vector<uint32_t> closed;
    // Sessions that a shard refused to open; they are being closed.
    std::vector<std::pair<uint32_t, absl::Status>> refused;
  };
  Changes TakeChanges();

  // Null without a session.
  const Session* Find(uint32_t worker) const;
  bool IsOpen(const SessionKey& key) const;
  const std::map<uint32_t, Session>& sessions() const { return sessions_; }

 private:
  const std::string job_;
  const uint32_t shards_;
  std::vector<bool> skipped_ = std::vector<bool>(shards_, false);
  std::map<uint32_t, Session> sessions_;  // by worker
};

}  // namespace monsoon
