#include "coordinator/slices/terms.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"

namespace monsoon {
namespace {

// Microseconds: a clock that is behind by less soon takes over again.
constexpr uint64_t kMostDrawn = 1000000;

}  // namespace

// ---- the term ----------------------------------------------------------------

void Terms::BeginLife(int64_t unix_ms) {
  const uint64_t drawn =
      Philox4x32(term(), registry_->pid, static_cast<uint64_t>(unix_ms))[0] % kMostDrawn;
  TakeTerm(term() == 0 ? 0 : term() + drawn, unix_ms);
}

void Terms::TakeTerm(uint64_t above, int64_t unix_ms) {
  StateUpdate update;
  const uint64_t by_clock = static_cast<uint64_t>(std::max<int64_t>(unix_ms, 0)) * 1000;
  update.mutable_term_taken()->set_term(std::max(by_clock, std::max(above, term()) + 1));
  registry_->writer.Apply(update);
}

void Terms::CheckTerm(uint32_t shard, uint64_t seen, Moment moment) {
  in_force_ |= seen == term();
  if (seen <= term()) {
    return;
  }
  if (!in_force_) {  // Left by an earlier life, whose clock was ahead.
    TakeTerm(seen, moment.unix_ms);
    return;
  }
  if (!superseded_.empty()) {
    return;
  }
  superseded_ = absl::StrCat("another coordinator has taken over: ps/", shard, " at ",
                             cluster_.ps(static_cast<int>(shard)).address(), " obeys term ", seen,
                             ", this one (pid ", registry_->pid, ") has term ", term(),
                             "; stop one of the two");
  Log(superseded_);
  for (const auto& job : jobs_.jobs()) {
    if (!job->ended_or_deleting()) {
      registry_->End(job.get(), FAILED, superseded_, moment.now);
    }
  }
}

// ---- orphans -----------------------------------------------------------------

std::vector<OrphanJob> Terms::Orphans() const {
  std::map<std::pair<std::string, uint64_t>, OrphanJob> orphans;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const ShardView& view = shards_.shard(shard);
    for (const ShardJobStatus& slice : view.status.job()) {
      const JobRecord* const job = jobs_.Lookup(slice.job());
      const auto deletion = deletions_.find({slice.job(), slice.job_term()});
      const bool known = job != nullptr && job->state().term() == slice.job_term();
      // A poll that began before the end of a deletion may still show the slice.
      const bool deleted = deletion != deletions_.end() && view.round <= deletion->second.round;
      if (known || deleted) {
        continue;
      }
      OrphanJob& orphan = orphans[{slice.job(), slice.job_term()}];
      orphan.set_job(slice.job());
      orphan.set_job_term(slice.job_term());
      orphan.add_shard(shard);
      orphan.set_memory_bytes(orphan.memory_bytes() + slice.memory_bytes());
    }
  }
  std::vector<OrphanJob> list;
  for (auto& [key, orphan] : orphans) {
    list.push_back(std::move(orphan));
  }
  return list;
}

absl::StatusOr<JobSummary> Terms::DeleteOrphans(const std::string& name) {
  JobSummary summary;
  summary.set_job(name);
  uint64_t bytes = 0;
  for (const OrphanJob& orphan : Orphans()) {
    if (orphan.job() != name) {
      continue;
    }
    bytes += orphan.memory_bytes();
    Deletion& deletion = deletions_[{orphan.job(), orphan.job_term()}];
    deletion = {ShardFanout(shards_.size()), 0};
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      if (std::ranges::find(orphan.shard(), shard) == orphan.shard().end()) {
        deletion.fanout.Skip(shard);
      }
    }
  }
  if (bytes == 0) {
    return absl::NotFoundError(absl::StrCat("no slices of \"", name, "\""));
  }
  summary.set_reason(absl::StrCat("slices that an earlier coordinator left, ", bytes, " bytes"));
  Log(absl::StrCat("job ", name, ": deletes ", summary.reason()));
  return summary;
}

bool Terms::RemoveDeleted() {
  for (const auto& job : jobs_.jobs()) {
    if (job->stage() == JOB_DELETING && job->fanout.done()) {
      Log(absl::StrCat("job ", job->id(), " deleted"));
      // A poll that began before may still show them.
      deletions_[{job->id(), job->state().term()}].round = registry_->poll_round;
      jobs_.Remove(job->id());
      return true;
    }
  }
  return false;
}

void Terms::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (auto& [key, deletion] : deletions_) {
    for (const uint32_t shard : deletion.fanout.Due(now)) {
      ShardCommand command;
      command.kind = ShardCommand::Kind::kDeleteJob;
      command.shard = shard;
      command.job = key.first;
      command.job_term = key.second;
      commands->push_back(std::move(command));
    }
  }
}

void Terms::ForgetDeletions() {
  const uint64_t seen = shards_.common_round().value_or(0);
  std::erase_if(deletions_, [seen](const auto& entry) {
    const uint64_t round = entry.second.round;
    return round > 0 && round < seen;
  });
}

void Terms::OnOrphanDeleted(const ShardCommand& command, const ShardAnswer& answer,
                            absl::Duration now) {
  const auto deletion = deletions_.find({command.job, command.job_term});
  if (deletion == deletions_.end() || command.kind != ShardCommand::Kind::kDeleteJob) {
    return;
  }
  deletion->second.fanout.OnResult(command.shard, answer.status, now);
  if (deletion->second.fanout.done()) {
    deletion->second.round = registry_->poll_round;
  }
}

}  // namespace monsoon
