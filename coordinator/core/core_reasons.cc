// CoordinatorCore: why a job waits, in words for people.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {
namespace {

// Tasks and jobs that a reason lists by name; a line must stay readable.
constexpr size_t kMostNamed = 4;

std::string JoinSome(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamed);
  std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (shown < names.size()) {
    absl::StrAppend(&text, " and ", names.size() - shown, " more");
  }
  return text;
}

}  // namespace

std::string CoordinatorCore::WaitReason(const JobRecord& job, Moment moment) const {
  if (!journal_trouble_.empty() && !job.ended_or_deleting()) {
    return absl::StrCat("waits for the coordinator to write its state: ", journal_trouble_);
  }
  if (WaitsForLeaving(job) || (WaitsForLastCheckpoint(job) && job.end_state() == SUCCEEDED)) {
    return CheckpointReason(job, job.hands_over() ? "a checkpoint" : "its last checkpoint",
                            moment.now);
  }
  if (job.ended_or_deleting() || !job.reason().empty()) {
    return job.reason();
  }
  if (job.stage() < JOB_ACTIVE && !job.joined() && !job.waits_for_client()) {
    if (const std::string queue = QueueReason(job, moment); !queue.empty()) {
      return queue;
    }
  }
  if (const std::string shards = ShardReason(job, moment.now); !shards.empty()) {
    return absl::StrCat("waits for ", shards);
  }
  if (BatchWaitsForDisk(job)) {
    return CheckpointReason(job, "a checkpoint", moment.now);
  }
  if (WaitsForTestGeneration(job)) {
    return CheckpointReason(job, "a checkpoint, over which the test set is run", moment.now);
  }
  if (AwaitsFirstGeneration(job)) {
    return CheckpointReason(
        job, "its first checkpoint, of the initial parameters that a program has written",
        moment.now);
  }
  if (job.stage() == JOB_ACTIVE) {
    return job.procedure()->replicas().empty() ? ReplicaReason(job, moment.now) : "";
  }
  if (job.stage() == JOB_ENDING) {
    return "";
  }
  if (job.stage() == JOB_READY && job.written_by_program()) {
    return job.writer_is_there ? WriterReason(job, moment.now) : ProgramReason(job);
  }
  return job.stage() == JOB_READY ? "waits for its client to write the initial parameters"
                                  : "its slices are being created";
}

std::string CoordinatorCore::QueueReason(const JobRecord& job, Moment moment) const {
  std::vector<const JobRecord*> ahead;
  const JobRecord* const active = ActiveOfQueue();
  if (active != nullptr) {
    ahead.push_back(active);
  }
  for (const auto& other : jobs_.jobs()) {
    if (other.get() == &job) {
      break;
    }
    if (other->stage() < JOB_ACTIVE && !other->joined() && !other->waits_for_client()) {
      ahead.push_back(other.get());
    }
  }
  if (ahead.empty()) {
    return "";
  }
  const JobRecord& first = *ahead.front();
  std::string text =
      absl::StrFormat("waits for job %s to end (%s, %.0f %%", first.id(),
                      JobState_Name(first.job_state()), 100 * first.fraction(moment.now));
  // What holds up the first one holds up all behind it.
  const std::string why = &first == active ? WaitReason(first, moment) : "";
  absl::StrAppend(&text, why.empty() ? "" : "; it ", why, ")");
  if (ahead.size() > 1) {
    std::vector<std::string> others;
    for (const JobRecord* other : ahead) {
      if (other != &first) {
        others.push_back(other->id());
      }
    }
    absl::StrAppend(&text, ", then for ", JoinSome(others));
  }
  return absl::StrCat(text, "; it is number ", ahead.size() + 1, " in the queue");
}

std::string CoordinatorCore::ReplicaReason(const JobRecord& job, absl::Duration now) const {
  for (const DurableSession& session : job.state().session()) {
    if (session.state() == DurableSession::OPENING) {
      return absl::StrCat("opens the session of worker/", session.worker());
    }
  }
  if (job.joined()) {
    return absl::StrCat(ProgramReason(job),
                        job.procedure()->phase() >= JobProcedure::Phase::kDraining
                            ? ", to finish the last pushes and to test the final parameters"
                            : "");
  }
  std::string text = absl::StrCat("waits for ", AbsentWorkers(job, now));
  if (job.job_state() == FINISHING) {
    absl::StrAppend(&text, ", to finish the last pushes and to test the final parameters");
  }
  if (job.no_replica_since) {
    const absl::Duration left = worker_wait() - (now - *job.no_replica_since);
    absl::StrAppendFormat(&text, "; fails in %.0f s", std::max(0.0, absl::ToDoubleSeconds(left)));
  }
  return text;
}

std::string CoordinatorCore::ProgramReason(const JobRecord& job) const {
  return absl::StrCat("waits for a program to join: `ms.join(..., job=\"", job.plan.job.name(),
                      "\")`");
}

std::string CoordinatorCore::WriterReason(const JobRecord& job, absl::Duration now) const {
  const InitialWriter& writer = job.state().writer();
  return absl::StrFormat(
      "waits for the initial parameters: pid %d%s has been writing them for "
      "%.1f s",
      writer.pid(), writer.host().empty() ? "" : " on " + writer.host(),
      absl::ToDoubleSeconds(now - FromNanos(writer.since_ns())));
}

std::string CoordinatorCore::NoWorkerFor(const JobRecord& job, absl::Duration now) const {
  return absl::StrFormat("no worker for %.0f s (worker_wait_ms: %d); waited for %s",
                         absl::ToDoubleSeconds(now - *job.no_replica_since),
                         cluster_.worker_wait_ms(), AbsentWorkers(job, now));
}

std::string CoordinatorCore::AbsentWorkers(const JobRecord& job, absl::Duration now) const {
  std::vector<std::string> absent;
  for (const uint32_t worker : WorkersOf(job)) {
    const Member member = membership_.member(worker);
    std::string state = "not seen";
    if (job.excluded(worker)) {
      state = "left out of this job";
    } else if (member.state == Member::State::kUp) {
      state = "joined, without a session";
    } else if (member.state != Member::State::kNeverSeen) {
      state =
          absl::StrFormat("%s for %.0f s", member.state == Member::State::kLeft ? "gone" : "lost",
                          absl::ToDoubleSeconds(now - member.last_seen));
    }
    const bool listed = membership_.listed(worker);
    absent.push_back(absl::StrCat("worker/", worker, listed ? " at " : ", ", AddressOf(worker),
                                  " (", state, ")"));
  }
  if (absent.empty()) {
    return "a worker: the cluster is open, and none has joined";
  }
  return absl::StrCat("a worker: ", JoinSome(absent));
}

std::string CoordinatorCore::MissingShards(absl::Duration now) const {
  std::vector<std::string> missing;
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    const ShardView& shard = shards_.shard(i);
    if (shard.state == ShardView::State::kUp) {
      continue;
    }
    const bool seen = shard.state != ShardView::State::kNeverSeen;
    std::string text =
        absl::StrFormat("ps/%d at %s (%s for %.0f s", i, cluster_.ps(static_cast<int>(i)).address(),
                        !seen                                       ? "not seen"
                        : shard.state == ShardView::State::kSuspect ? "silent"
                                                                    : "lost",
                        absl::ToDoubleSeconds(now - (seen ? shard.last_seen : started_)));
    if (!shard.last_error.ok()) {
      absl::StrAppend(&text, ": ", shard.last_error.message());
    }
    missing.push_back(absl::StrCat(text, ")"));
  }
  return JoinSome(missing);
}

}  // namespace monsoon
