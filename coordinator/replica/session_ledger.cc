#include "coordinator/replica/session_ledger.h"

#include <utility>

#include "common/base/check.h"

namespace monsoon {

void SessionLedger::Open(uint32_t worker, uint64_t incarnation) {
  CHECK(!sessions_.contains(worker));
  Session& session = sessions_[worker];
  session.key.set_job(job_);
  session.key.set_worker(worker);
  session.key.set_incarnation(incarnation);
  session.fanout = ShardFanout(shards_);
}

void SessionLedger::Close(uint32_t worker) {
  const auto found = sessions_.find(worker);
  if (found == sessions_.end() || found->second.state == State::kClosing) {
    return;
  }
  found->second.state = State::kClosing;
  found->second.fanout = ShardFanout(shards_);
  for (uint32_t shard = 0; shard < shards_; ++shard) {
    if (skipped_[shard]) {
      found->second.fanout.Skip(shard);
    }
  }
}

void SessionLedger::CloseAll() {
  for (const auto& [worker, session] : sessions_) {
    Close(worker);
  }
}

std::vector<ShardCommand> SessionLedger::Due(absl::Duration now) {
  std::vector<ShardCommand> commands;
  for (auto& [worker, session] : sessions_) {
    if (session.state == State::kOpen) {
      continue;
    }
    for (const uint32_t shard : session.fanout.Due(now)) {
      ShardCommand command;
      command.kind = session.state == State::kOpening ? ShardCommand::Kind::kOpenSession
                                                      : ShardCommand::Kind::kCloseSession;
      command.shard = shard;
      command.job = job_;
      command.session = session.key;
      commands.push_back(std::move(command));
    }
  }
  return commands;
}

void SessionLedger::OnResult(const ShardCommand& command, const absl::Status& status,
                             absl::Duration now) {
  const auto found = sessions_.find(command.session.worker());
  if (found == sessions_.end() ||
      found->second.key.incarnation() != command.session.incarnation()) {
    return;
  }
  Session& session = found->second;
  const bool closes = command.kind == ShardCommand::Kind::kCloseSession;
  if (closes != (session.state == State::kClosing)) {
    return;  // An answer to the opening of a session that is being closed.
  }
  // A shard that knows no such session or job has nothing to close.
  session.fanout.OnResult(command.shard,
                          closes && absl::IsNotFound(status) ? absl::OkStatus() : status, now);
}

void SessionLedger::SkipShard(uint32_t shard) {
  skipped_[shard] = true;
  for (auto& [worker, session] : sessions_) {
    if (session.state == State::kClosing) {
      session.fanout.Skip(shard);
    }
  }
}

SessionLedger::Changes SessionLedger::TakeChanges() {
  Changes changes;
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Session& session = it->second;
    if (session.state == State::kOpening && session.fanout.done()) {
      if (session.fanout.error().ok()) {
        session.state = State::kOpen;
        changes.opened.push_back(it->first);
      } else {
        changes.refused.emplace_back(it->first, session.fanout.error());
      }
    }
    if (session.state == State::kClosing && session.fanout.done()) {
      changes.closed.push_back(it->first);
      it = sessions_.erase(it);
    } else {
      ++it;
    }
  }
  for (const auto& [worker, status] : changes.refused) {
    Close(worker);
  }
  return changes;
}

const SessionLedger::Session* SessionLedger::Find(uint32_t worker) const {
  const auto found = sessions_.find(worker);
  return found == sessions_.end() ? nullptr : &found->second;
}

bool SessionLedger::IsOpen(const SessionKey& key) const {
  const Session* session = Find(key.worker());
  return key.job() == job_ && session != nullptr && session->state == State::kOpen &&
         session->key.incarnation() == key.incarnation();
}

}  // namespace monsoon
