// CoordinatorCore: what people ask for.

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/describe.h"

namespace monsoon {
namespace {

const char* ShardStateName(ShardView::State state) {
  switch (state) {
    case ShardView::State::kNeverSeen:
      return "NEVER SEEN";
    case ShardView::State::kUp:
      return "UP";
    case ShardView::State::kSuspect:
      return "SUSPECT";
    case ShardView::State::kLost:
      return "LOST";
  }
  return "";
}

}  // namespace

std::optional<SubmitReply> CoordinatorCore::FindSubmission(const std::string& client_id) const {
  const JobRecord* const job = jobs_.FindClient(client_id);
  if (job == nullptr) {
    return std::nullopt;
  }
  SubmitReply reply;
  reply.set_job(job->id());
  reply.set_state(job->job_state());
  return reply;
}

absl::StatusOr<SubmitReply> CoordinatorCore::Submit(const JobPlan& plan,
                                                    JobTable::Submission submission,
                                                    Moment moment) {
  if (const std::optional<SubmitReply> known = FindSubmission(submission.client_id)) {
    return *known;
  }
  if (!superseded_.empty()) {
    return absl::FailedPreconditionError(superseded_);
  }
  if (IsJoined(plan.job) && !submission.resume) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job \"", plan.job.name(),
        "\" is of a model that lists its tensors: such jobs are made by the programs that join "
        "them, or go on from a checkpoint (submit --resume)"));
  }
  RETURN_IF_ERROR(CheckResume(plan, submission));
  RETURN_IF_ERROR(jobs_.Admit(plan, cluster_));
  submission.unix_ms = moment.unix_ms;
  JobRecord* const job = jobs_.Add(plan, submission, TakenIds());
  job->AddEvent(moment.now, "submitted", "", "");
  Log(absl::StrCat("job ", job->id(), " submitted"));
  SubmitReply reply;
  reply.set_job(job->id());
  reply.set_state(job->job_state());
  Advance(moment.now);
  return reply;
}

std::set<std::string> CoordinatorCore::TakenIds() const {
  std::set<std::string> taken;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    for (const ShardJobStatus& status : shards_.shard(shard).status.job()) {
      taken.insert(status.job());
    }
  }
  return taken;
}

absl::StatusOr<JobSummary> CoordinatorCore::Start(const std::string& name, Moment moment) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.Find(name));
  if (!job->state().init() || job->written_by_program()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id(), " was not submitted with initial parameters"));
  }
  if (!job->state().client_started()) {
    if (job->stage() != JOB_READY) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", job->id(), " is ", JobState_Name(job->job_state()),
                       ", not INITIALIZING: its parameters cannot have been written"));
    }
    job->Make([](StateUpdate* update) { update->mutable_client_started(); });
    Advance(moment.now);
  }
  return Summarize(*job, moment);
}

ListReply CoordinatorCore::List(Moment moment) const {
  ListReply reply;
  for (const auto& job : jobs_.jobs()) {
    *reply.add_job() = Summarize(*job, moment);
  }
  for (OrphanJob& orphan : Orphans()) {
    *reply.add_orphan() = std::move(orphan);
  }
  return reply;
}

absl::StatusOr<JobDescription> CoordinatorCore::Describe(const std::string& name,
                                                         Moment moment) const {
  ASSIGN_OR_RETURN(const JobRecord* const job, jobs_.Find(name));
  JobDescription description = DescribeJob(*job, Summarize(*job, moment), membership_, moment.now);
  DescribeDurability(*job, moment, description.mutable_durability());
  return description;
}

absl::StatusOr<JobSummary> CoordinatorCore::Cancel(const std::string& name, Moment moment) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.Find(name));
  const bool cancelled = job->end_state() == CANCELLED;
  const bool ends_well = job->stage() == JOB_ENDING && job->end_state() == SUCCEEDED;
  const bool waits =
      WaitsForLeaving(*job) || (ends_well && (WaitsForLastCheckpoint(*job) || AwaitsShard(*job)));
  if (job->stage() >= JOB_ENDING && !cancelled && !waits) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id(), " has ended already: ", JobState_Name(job->end_state())));
  }
  if (!cancelled) {
    End(job, CANCELLED,
        waits ? "cancelled by a user while it waited for its last checkpoint"
              : "cancelled by a user",
        moment.now);
    Advance(moment.now);
  }
  return Summarize(*job, moment);
}

absl::StatusOr<JobSummary> CoordinatorCore::Delete(const std::string& name, Moment moment) {
  if (jobs_.Lookup(name) == nullptr) {
    absl::StatusOr<JobSummary> orphans = DeleteOrphans(name);
    if (orphans.ok()) {
      return orphans;
    }
  }
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.Find(name));
  if (!job->ended_or_deleting()) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job->id(), " is ",
                                                      JobState_Name(job->job_state()),
                                                      ": cancel it before you delete it"));
  }
  const JobSummary summary = Summarize(*job, moment);
  if (job->stage() == JOB_ENDED) {
    job->ChangeStage(JOB_DELETING, moment.now);
    job->fanout = ShardFanout(shards_.size());
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      if (!job->state().slices_begun() || shards_.shard(shard).state != ShardView::State::kUp) {
        job->fanout.Skip(shard);
      }
    }
    Log(absl::StrCat("job ", job->id(), " is being deleted"));
    Advance(moment.now);
  }
  return summary;
}

absl::StatusOr<JobLocation> CoordinatorCore::Locate(const std::string& name, Moment moment) const {
  ASSIGN_OR_RETURN(const JobRecord* const job, jobs_.Find(name));
  if (!job->state().slices_ready() || job->state().slices_lost()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id(), " (", JobState_Name(job->job_state()), ") ",
        job->state().slices_lost() ? "has lost parameters: a parameter server restarted, or "
                                     "somebody deleted its slice"
                                   : "has no parameters yet"));
  }
  if (AwaitsShard(*job)) {
    const std::string shards = ShardReason(*job, moment.now);
    return absl::UnavailableError(
        absl::StrCat("job ", job->id(),
                     shards_.all_up() ? ": it waits for " : ": its parameters are on ", shards));
  }
  if (job->written_by_program() && job->waits_for_client()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id(), " (", JobState_Name(job->job_state()),
                     ") has no parameters yet: ", WaitReason(*job, moment)));
  }
  return LocationOf(*job);
}

JobLocation CoordinatorCore::LocationOf(const JobRecord& job) const {
  JobLocation location;
  location.set_job(job.id());
  *location.mutable_model() = job.plan.job.model();
  location.set_layout_hash(job.plan.layout_hash);
  location.set_job_term(job.state().term());
  location.set_max_stripe_bytes(job.plan.max_stripe_bytes);
  for (int shard = 0; shard < cluster_.ps_size(); ++shard) {
    location.add_address(cluster_.ps(shard).address());
    location.add_shard_epoch(job.state().shard_epoch(static_cast<int>(shard)));
  }
  return location;
}

TaskStatus CoordinatorCore::WorkerStatus(uint32_t worker) const {
  const Member& member = membership_.member(worker);
  TaskStatus task;
  task.set_task(absl::StrCat("worker/", worker));
  task.set_address(AddressOf(worker));
  task.set_state(membership_.draining(worker)                ? "DRAINING"
                 : member.state == Member::State::kUp        ? "UP"
                 : member.state == Member::State::kNeverSeen ? "NEVER SEEN"
                 : member.state == Member::State::kLeft      ? "LEFT"
                                                             : "LOST");
  task.set_pid(member.pid);
  task.set_last_seen_ms(member.last_seen_ms);
  return task;
}

std::string CoordinatorCore::AddressOf(uint32_t worker) const {
  if (membership_.listed(worker)) {
    return cluster_.worker(static_cast<int>(worker)).address();
  }
  const WorkerIncarnation* const entered = membership_.Entered(worker);
  const std::string host = membership_.member(worker).host;
  return absl::StrCat(entered == nullptr ? "a guest" : "a program", host.empty() ? "" : " on ",
                      host, entered == nullptr ? "" : ", in ",
                      entered == nullptr ? "" : entered->enters_job());
}

absl::StatusOr<TaskStatus> CoordinatorCore::Drain(uint32_t worker) {
  const bool told = membership_.draining(worker);
  RETURN_IF_ERROR(membership_.Drain(worker));
  if (!told) {
    Log(absl::StrCat("worker/", worker, " (pid ", membership_.member(worker).pid,
                     ") is told to leave"));
  }
  return WorkerStatus(worker);
}

InfoReply CoordinatorCore::Info() const {
  InfoReply reply;
  reply.set_cluster(cluster_.name());
  reply.set_pid(pid_);
  reply.set_protocol_version(kProtocolVersion);
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    const ShardView& shard = shards_.shard(i);
    TaskStatus* const task = reply.add_task();
    task->set_task(absl::StrCat("ps/", i));
    task->set_address(cluster_.ps(static_cast<int>(i)).address());
    task->set_state(ShardStateName(shard.state));
    task->set_pid(shard.status.pid());
    task->set_last_seen_ms(shard.last_seen_ms);
  }
  for (uint32_t i = 0; i < membership_.size(); ++i) {
    *reply.add_task() = WorkerStatus(i);
  }
  return reply;
}

JobSummary CoordinatorCore::Summarize(const JobRecord& job, Moment moment) const {
  JobSummary summary;
  summary.set_job(job.id());
  summary.set_name(job.plan.job.name());
  summary.set_state(job.job_state());
  summary.set_reason(WaitReason(job, moment));
  summary.set_created_ms(job.state().created_ms());
  summary.set_elapsed_s(absl::ToDoubleSeconds(job.elapsed(moment.now)));
  if (job.end_state() == SUCCEEDED) {
    summary.set_percent(100);
  } else {
    summary.set_percent(100 * job.fraction(moment.now));
  }
  for (const std::optional<ShardJobStatus>& status : job.figures.shard_status) {
    summary.set_disk_bytes(summary.disk_bytes() + (status ? status->disk_bytes() : 0));
  }
  return summary;
}

void CoordinatorCore::End(JobRecord* job, JobState state, const std::string& reason,
                          absl::Duration now) {
  const JobStage before = job->stage();
  job->End(state, reason, now);
  if (before == JOB_ACTIVE) {
    job->ledger()->CloseAll();
  } else if (before < JOB_ACTIVE) {
    FinishEnding(job, now);
  }
}

void CoordinatorCore::FinishEnding(JobRecord* job, absl::Duration now) {
  if (job->stage() == JOB_ENDING) {
    job->ChangeStage(JOB_ENDED, now);
  }
  NoLongerActive(job);
  const std::string text = absl::StrCat(JobState_Name(job->end_state()),
                                        job->reason().empty() ? "" : ": ", job->reason());
  job->AddEvent(now, "ended", "", text);
  Log(absl::StrCat("job ", job->id(), " ", text));
}

}  // namespace monsoon
