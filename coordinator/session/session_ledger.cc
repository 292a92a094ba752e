#include "coordinator/session/session_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "coordinator/state/sorted_list.h"

namespace monsoon {

SessionLedger::SessionLedger(JobWriter writer, uint32_t shards)
    : writer_(std::move(writer)), shards_(shards) {
  for (const DurableSession& session : writer_.job().session()) {
    if (session.state() != DurableSession::OPEN) {
      fanout_[session.worker()] = ShardFanout(shards_);
    }
  }
}

ShardFanout SessionLedger::FanoutToAll() const {
  ShardFanout fanout(shards_);
  for (uint32_t shard = 0; shard < shards_; ++shard) {
    if (skipped_[shard]) {
      fanout.Skip(shard);
    }
  }
  return fanout;
}

void SessionLedger::Change(const DurableSession& session, DurableSession::State state) {
  DurableSession changed = session;
  changed.set_state(state);
  writer_.Make([&](StateUpdate* update) { *update->mutable_session_changed() = changed; });
}

void SessionLedger::Open(uint32_t worker, uint64_t incarnation, const MemberIdentity& member) {
  DurableSession session;
  session.set_worker(worker);
  session.set_incarnation(incarnation);
  if (!member.identity().empty()) {
    *session.mutable_member() = member;
  }
  Change(session, DurableSession::OPENING);
  fanout_[worker] = ShardFanout(shards_);
}

void SessionLedger::Close(uint32_t worker) {
  const DurableSession* const session = Find(worker);
  if (session == nullptr || session->state() == DurableSession::CLOSING) {
    return;
  }
  Change(*session, DurableSession::CLOSING);
  fanout_[worker] = FanoutToAll();
}

bool SessionLedger::closing() const {
  return std::ranges::any_of(writer_.job().session(), [](const DurableSession& session) {
    return session.state() == DurableSession::CLOSING;
  });
}

std::vector<ShardCommand> SessionLedger::Due(absl::Duration now) {
  std::vector<ShardCommand> commands;
  for (auto& [worker, fanout] : fanout_) {
    const DurableSession& session = *Find(worker);
    for (const uint32_t shard : fanout.Due(now, held_back_)) {
      ShardCommand command;
      command.kind = session.state() == DurableSession::OPENING ? ShardCommand::Kind::kOpenSession
                                                                : ShardCommand::Kind::kCloseSession;
      command.shard = shard;
      command.job = writer_.id();
      command.job_term = writer_.job().term();
      command.session = Key(session);
      command.member = session.member();
      commands.push_back(std::move(command));
    }
  }
  return commands;
}

void SessionLedger::OnResult(const ShardCommand& command, const ShardAnswer& answer,
                             absl::Duration now) {
  const DurableSession* const session = Find(command.session.worker());
  const auto fanout = fanout_.find(command.session.worker());
  if (session == nullptr || fanout == fanout_.end() ||
      session->incarnation() != command.session.incarnation()) {
    return;
  }
  const bool closes = command.kind == ShardCommand::Kind::kCloseSession;
  if (closes != (session->state() == DurableSession::CLOSING)) {
    return;  // An answer to the opening of a session that is being closed.
  }
  absl::Status status = answer.status;
  if (closes && absl::IsNotFound(status)) {
    status = absl::OkStatus();  // Nothing is left to close.
  }
  if (!closes && status.ok() && answer.session_applied > 0) {
    // No worker may push before its session is open everywhere.
    status = absl::FailedPreconditionError(
        absl::StrCat("ps/", command.shard, " has ", answer.session_applied,
                     " records of this session, which is only being opened"));
  }
  fanout->second.OnResult(command.shard, status, now);
}

void SessionLedger::SkipShard(uint32_t shard) {
  skipped_[shard] = true;
  for (auto& [worker, fanout] : fanout_) {
    if (Find(worker)->state() == DurableSession::CLOSING) {
      fanout.Skip(shard);
    }
  }
}

SessionLedger::Changes SessionLedger::TakeChanges() {
  Changes changes;
  for (auto it = fanout_.begin(); it != fanout_.end();) {
    const auto& [worker, fanout] = *it;
    if (!fanout.done()) {
      ++it;
      continue;
    }
    const DurableSession& session = *Find(worker);
    if (session.state() == DurableSession::CLOSING) {
      changes.closed.push_back(session);
      writer_.Make([worker = worker](StateUpdate* update) {
        update->mutable_session_removed()->set_worker(worker);
      });
    } else if (fanout.error().ok()) {
      changes.opened.push_back(worker);
      Change(session, DurableSession::OPEN);
    } else {
      changes.refused.emplace_back(worker, fanout.error());
    }
    it = fanout_.erase(it);
  }
  for (const auto& [worker, status] : changes.refused) {
    Close(worker);
  }
  return changes;
}

const DurableSession* SessionLedger::Find(uint32_t worker) const {
  return FindWorker(writer_.job().session(), worker);
}

SessionKey SessionLedger::Key(const DurableSession& session) const {
  SessionKey key;
  key.set_job(writer_.id());
  key.set_worker(session.worker());
  key.set_incarnation(session.incarnation());
  key.set_job_term(writer_.job().term());
  return key;
}

bool SessionLedger::IsOpen(const SessionKey& key) const {
  const DurableSession* const session = Find(key.worker());
  return key.job() == writer_.id() && key.job_term() == writer_.job().term() &&
         session != nullptr && session->state() == DurableSession::OPEN &&
         session->incarnation() == key.incarnation();
}

}  // namespace monsoon
