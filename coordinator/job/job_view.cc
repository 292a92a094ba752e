#include "coordinator/job/job_view.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/state/coordinator_state.h"

namespace monsoon {
namespace {

using Phase = JobProcedure::Phase;

}  // namespace

std::string KeepNothing(const ShardMonitor& shards) {
  std::vector<std::string> without;
  for (uint32_t shard = 0; shard < shards.size(); ++shard) {
    if (shards.shard(shard).status.state_dir().empty()) {
      without.push_back(ShardName(shard));
    }
  }
  if (without.empty()) {
    return "";
  }
  return absl::StrCat(absl::StrJoin(without, ", "),
                      without.size() == 1 ? " has no state folder" : " have no state folder",
                      without.size() < shards.size() ? ", though others have one" : "");
}

// ---- what it is kept on ------------------------------------------------------

bool JobView::IsDurable() const {
  return !job_.plan.job.checkpoint().off() && job_.state().memory_only().empty() &&
         KeepNothing(shards_).empty();
}

bool JobView::HasParameters() const {
  return job_.stage() >= JOB_ACTIVE && job_.stage() != JOB_DELETING &&
         job_.state().slices_ready() && !job_.state().slices_lost() &&
         (job_.started().has_value() || job_.state().init() ||
          (job_.procedure() != nullptr && !job_.procedure()->pushes()));
}

bool JobView::IsPushedTo() const {
  return job_.stage() == JOB_ACTIVE && job_.procedure() != nullptr && job_.procedure()->pushes();
}

bool JobView::SessionsAreClosed() const {
  return job_.stage() == JOB_ENDED || (job_.stage() == JOB_ENDING && job_.ledger()->empty());
}

TestMetric JobView::BestMetric() const {
  return IsDurable() ? job_.plan.job.checkpoint().keep_best() : NO_TEST_METRIC;
}

// ---- what it waits for -------------------------------------------------------

bool JobView::IsRestorable() const {
  const bool here = job_.state().slices_ready() && !job_.state().slices_lost();
  if (!here || !IsDurable()) {
    return false;
  }
  switch (job_.stage()) {
    case JOB_ACTIVE:
      return true;
    case JOB_ENDING:
      return job_.end_state() == SUCCEEDED;
    case JOB_ENDED:
      // Nobody sends anything again: the parts must have all of it.
      return job_.checkpoints.last_is_held();
    default:
      return false;
  }
}

bool JobView::AwaitsRestore(uint32_t shard) const {
  const auto index = static_cast<int>(shard);
  const auto& attempts = job_.state().slice_attempt();
  const uint64_t attempt = attempts.empty() ? 0 : attempts[index];
  return IsRestorable() &&
         (shards_.shard(shard).status.shard_epoch() != job_.state().shard_epoch(index) ||
          attempt != job_.state().sandblaster().attempt());
}

bool JobView::AwaitsShard() const {
  bool awaits = !shards_.all_up();
  for (uint32_t shard = 0; shard < shards_.size() && !awaits; ++shard) {
    awaits = AwaitsRestore(shard);
  }
  return awaits;
}

bool JobView::AwaitsFirstGeneration() const {
  if (!job_.joined() || !job_.state().init() || !IsPushedTo() ||
      job_.checkpoints.state().held() > 0 || job_.plan.job.checkpoint().off() ||
      !job_.state().memory_only().empty()) {
    return false;
  }
  // A new life of the coordinator does not know at once what shards keep.
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (shards_.shard(shard).state == ShardView::State::kNeverSeen) {
      return true;
    }
  }
  return KeepNothing(shards_).empty();
}

bool JobView::WaitsForTestGeneration() const {
  return job_.stage() == JOB_ACTIVE && job_.procedure()->phase() == Phase::kFinalEvaluation &&
         BestMetric() != NO_TEST_METRIC && job_.checkpoints.under_way();
}

bool JobView::WaitsForLeaving() const {
  // In a chain it is ordered once shards have what they had acknowledged, the restored ones too.
  const bool unordered = job_.hands_over() && job_.leaving_generation == 0;
  return IsPushedTo() && job_.procedure()->phase() == Phase::kDone &&
         (job_.hands_over() || !job_.ledger()->empty()) &&
         (unordered || job_.leaving_generation > job_.checkpoints.state().held()) && IsDurable();
}

bool JobView::WaitsForLastCheckpoint() const {
  return job_.stage() == JOB_ENDING && SessionsAreClosed() && HasParameters() && job_.started() &&
         IsDurable() && !job_.checkpoints.last_is_held();
}

bool JobView::BatchWaitsForDisk() const {
  return job_.batch_under_way() && job_.checkpoints.under_way();
}

bool JobView::WaitsForGeneration() const {
  return WaitsForLastCheckpoint() || WaitsForLeaving() || BatchWaitsForDisk() ||
         WaitsForTestGeneration() || AwaitsFirstGeneration();
}

// ---- batches -----------------------------------------------------------------

bool JobView::CanReturn() const {
  const BatchSnapshot* const held = HeldSnapshot(job_.state());
  return job_.batch_under_way() && held != nullptr && !held->has_end() && IsDurable();
}

std::string JobView::ResumeHint() const {
  const std::string& source = job_.state().resume().source_job();
  if (job_.state().has_source() && job_.checkpoints.state().held() == 0) {
    return absl::StrCat("; no generation of it was written yet: `coordinator submit --resume=",
                        source, "` goes on from ", source, " again");
  }
  if (job_.procedure() == nullptr || job_.procedure()->pushes() || !IsDurable()) {
    return "";
  }
  const uint64_t held = job_.checkpoints.state().held();
  return held == 0 ? "; a batch does not go on without it, and no generation was written yet"
                   : absl::StrCat(
                         "; a batch does not go on without it: `coordinator submit "
                         "--resume=",
                         job_.id(), "` goes on from generation ", held);
}

ShardAnswer JobView::Excused(const ShardCommand& command, const ShardAnswer& answer) const {
  const bool closes = command.kind == ShardCommand::Kind::kCloseSession;
  if (closes || !absl::IsNotFound(answer.status) || !IsRestorable()) {
    return answer;
  }
  return {.status = absl::UnavailableError(answer.status.message())};
}

}  // namespace monsoon
