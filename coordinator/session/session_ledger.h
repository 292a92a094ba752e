// SessionLedger: the sessions of one job and where each stands on each shard.
// A session is open when every shard has opened it, and closed when every shard
// that is still there has closed it; only then may the worker's data be given
// away and a newer incarnation of it get a session.
//
// Which sessions there are is durable; how far opening or closing has come on each
// shard is not, since both are safe to repeat. A pure state machine. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/shards/shard_command.h"
#include "coordinator/shards/shard_fanout.h"
#include "coordinator/state/state_writer.h"
#include "proto/member_identity.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class SessionLedger {
 public:
  // For the sessions of `writer`'s job.
  SessionLedger(JobWriter writer, uint32_t shards);

  // Begins to open a session, which is the member's. The worker must have none.
  void Open(uint32_t worker, uint64_t incarnation, const MemberIdentity& member = {});
  // Begins to close the worker's session; no effect without one.
  void Close(uint32_t worker);

  // The commands to send now; each will be answered by OnResult.
  std::vector<ShardCommand> Due(absl::Duration now);
  void OnResult(const ShardCommand& command, const ShardAnswer& answer, absl::Duration now);
  // While `held`, the shard is told nothing: it was started anew and has no slice of the
  // job yet. What is not confirmed there by then is sent afterwards.
  void HoldBack(uint32_t shard, bool held) { held_back_[shard] = held; }
  // The shard will never answer again.
  void SkipShard(uint32_t shard);

  // What has happened since the last call.
  struct Changes {
    std::vector<uint32_t> opened;
    std::vector<DurableSession> closed;
    // Sessions that a shard refused to open; they are being closed.
    std::vector<std::pair<uint32_t, absl::Status>> refused;
  };
  Changes TakeChanges();

  // Null without a session.
  const DurableSession* Find(uint32_t worker) const;
  bool IsOpen(const SessionKey& key) const;
  bool empty() const { return writer_.job().session().empty(); }
  // A close is not confirmed by every shard yet.
  bool closing() const;
  SessionKey Key(const DurableSession& session) const;

 private:
  void Change(const DurableSession& session, DurableSession::State state);
  // Of the shards that are still there.
  ShardFanout FanoutToAll() const;

  const JobWriter writer_;
  const uint32_t shards_;
  std::vector<bool> skipped_ = std::vector<bool>(shards_, false);
  std::vector<bool> held_back_ = std::vector<bool>(shards_, false);
  // By worker, of the sessions that are not open: the command under way.
  std::map<uint32_t, ShardFanout> fanout_;
};

}  // namespace monsoon
