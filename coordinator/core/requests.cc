#include "coordinator/core/requests.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/downpour/resume.h"
#include "coordinator/downpour/settable.h"
#include "coordinator/job/shard_reason.h"
#include "coordinator/replicas/entering.h"
#include "coordinator/replicas/recruitment.h"
#include "coordinator/status/describe.h"

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

Requests::Requests(Parts parts)
    : registry_(parts.registry),
      cluster_(registry_->cluster),
      membership_(registry_->membership),
      shards_(registry_->shards),
      jobs_(registry_->jobs),
      slices_(*parts.slices),
      terms_(*parts.terms),
      checkpoints_(*parts.checkpoints),
      reasons_(*parts.reasons),
      guard_(*parts.guard),
      advance_(std::move(parts.advance)) {}

std::optional<SubmitReply> Requests::FindSubmission(const std::string& client_id) const {
  const JobRecord* const job = jobs_.FindClient(client_id);
  if (job == nullptr) {
    return std::nullopt;
  }
  SubmitReply reply;
  reply.set_job(job->id());
  reply.set_state(job->job_state());
  return reply;
}

absl::StatusOr<SubmitReply> Requests::Submit(const JobPlan& plan, JobTable::Submission submission,
                                             Moment moment) {
  if (const std::optional<SubmitReply> known = FindSubmission(submission.client_id)) {
    return *known;
  }
  if (!terms_.superseded().empty()) {
    return absl::FailedPreconditionError(terms_.superseded());
  }
  if (IsJoined(plan.job) && !submission.resume) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job \"", plan.job.name(),
        "\" is of a model that lists its tensors: such jobs are made by the programs that join "
        "them, or go on from a checkpoint (submit --resume)"));
  }
  if (submission.resume_held) {
    ASSIGN_OR_RETURN(submission.resume, FindHeld(plan, submission.resume.value_or(ResumePoint())));
  }
  RETURN_IF_ERROR(CheckResume(plan, submission));
  RETURN_IF_ERROR(jobs_.Admit(plan, cluster_, submission.by, shards_.MemoryLimits()));
  submission.unix_ms = moment.unix_ms;
  JobRecord* const job = jobs_.Add(plan, submission, shards_.TakenIds());
  job->AddEvent(moment.now, "submitted", "", "");
  if (!submission.data_seen.empty()) {
    job->AddEvent(moment.now, "data_seen", "", submission.data_seen);
  }
  Log(absl::StrCat("job ", job->id(), " submitted"));
  SubmitReply reply;
  reply.set_job(job->id());
  reply.set_state(job->job_state());
  advance_(moment.now);
  return reply;
}

absl::StatusOr<ResumePoint> Requests::HeldOf(const JobRecord& job) const {
  const CheckpointState& checkpoint = job.checkpoints.state();
  if (job.stage() == JOB_DELETING) {
    return absl::FailedPreconditionError(absl::StrCat(job.id(), " is being deleted"));
  }
  if (job.stage() != JOB_ENDED) {
    return absl::FailedPreconditionError(absl::StrCat(
        job.id(), " (", JobState_Name(job.job_state()), ") still changes on the shards"));
  }
  if (checkpoint.last() == 0 || !job.checkpoints.last_is_held() ||
      checkpoint.fallen_back_to() > 0 || !job.state().memory_only().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("what the shards hold of ", job.id(), " is no generation of it"));
  }
  if (job.plan.job.model().table_size() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the shards hold only those rows of ", job.id(), " that were touched"));
  }
  ResumePoint point;
  *point.mutable_context() = checkpoint.context();
  *point.mutable_context()->mutable_job() = JobOfGeneration(job);
  point.set_source_job(job.id());
  point.set_generation(checkpoint.held());
  return point;
}

absl::StatusOr<ResumePoint> Requests::FindHeld(const JobPlan& plan,
                                               const ResumePoint& asked) const {
  const JobRecord* const source = jobs_.Lookup(asked.source_job());
  if (source == nullptr || !source->state().slices_ready() || source->state().slices_lost() ||
      View(*source).AwaitsShard()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the shards do not hold all slices of ", asked.source_job(), " now"));
  }
  ASSIGN_OR_RETURN(ResumePoint held, HeldOf(*source));
  if (held.generation() != asked.generation()) {
    return absl::FailedPreconditionError(absl::StrCat("the shards hold generation ",
                                                      held.generation(), " of ", source->id(),
                                                      ", not ", asked.generation()));
  }
  if (plan.max_stripe_bytes != source->plan.max_stripe_bytes ||
      plan.shard_bytes.size() != source->plan.shard_bytes.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the shards hold ", source->id(), " in stripes of another size"));
  }
  return held;
}

absl::StatusOr<JobSummary> Requests::Start(const std::string& name, Moment moment) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.Find(name));
  if (!job->state().init() || job->state().has_source() || job->written_by_program()) {
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
    advance_(moment.now);
  }
  return Summarize(*job, moment);
}

ListReply Requests::List(Moment moment) const {
  ListReply reply;
  for (const auto& job : jobs_.jobs()) {
    *reply.add_job() = Summarize(*job, moment);
  }
  for (OrphanJob& orphan : terms_.Orphans()) {
    *reply.add_orphan() = std::move(orphan);
  }
  reply.set_waits_for(guard_.waits_for());
  return reply;
}

absl::StatusOr<JobDescription> Requests::Describe(const std::string& name, Moment moment) const {
  ASSIGN_OR_RETURN(const JobRecord* const job, jobs_.Find(name));
  JobDescription description = DescribeJob(*job, Summarize(*job, moment), *registry_, moment.now);
  checkpoints_.DescribeDurability(*job, moment, description.mutable_durability());
  return description;
}

absl::StatusOr<JobSummary> Requests::Cancel(const std::string& name, Moment moment) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.Find(name));
  const bool cancelled = job->end_state() == CANCELLED;
  const bool ends_well = job->stage() == JOB_ENDING && job->end_state() == SUCCEEDED;
  const bool waits =
      View(*job).WaitsForLeaving() ||
      (ends_well && (View(*job).WaitsForLastCheckpoint() || View(*job).AwaitsShard()));
  if (job->stage() >= JOB_ENDING && !cancelled && !waits) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id(), " has ended already: ", JobState_Name(job->end_state())));
  }
  if (!cancelled) {
    registry_->End(job, CANCELLED,
                   waits ? "cancelled by a user while it waited for its last checkpoint"
                         : "cancelled by a user",
                   moment.now);
    advance_(moment.now);
  }
  return Summarize(*job, moment);
}

absl::StatusOr<SetReply> Requests::Set(const SetRequest& request, const Judge& judge,
                                       Moment moment) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.Find(request.job()));
  if (job->plan.job.has_synchronous() || !job->plan.job.has_downpour()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id(), " does not train asynchronously: nothing of it can be set"));
  }
  // Its slices are made for what it is when it begins, and nobody trains once it is draining.
  const bool trains = job->stage() == JOB_ACTIVE && job->procedure()->pushes() &&
                      job->procedure()->phase() < JobProcedure::Phase::kDraining;
  if (!trains) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id(), " (", JobState_Name(job->job_state()), ") does not train ",
        job->stage() < JOB_ACTIVE ? "yet" : "any more", ": settings can be set while it does"));
  }
  const std::vector<std::string> settings(request.setting().begin(), request.setting().end());
  ASSIGN_OR_RETURN(const ChangedSettings changed, ChangeSettings(job->plan.job, settings));
  SetReply reply;
  reply.set_job(job->id());
  if (!changed.changes.empty()) {
    RETURN_IF_ERROR(judge(changed.job, cluster_));
    JobPlan plan = job->plan;
    plan.ChangeSettings(changed.job, cluster_);
    if (plan.replicas < job->plan.replicas) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job ", job->id(), " is trained by up to ", job->plan.replicas,
          " workers, and not by fewer as long as it trains: `coordinator drain worker/",
          job->plan.replicas - 1, "` lets one leave"));
    }
    job->TakeSettings(std::move(plan), moment.now);
    std::vector<std::string> lines;
    for (const SettingChange& change : changed.changes) {
      lines.push_back(absl::StrCat(change.path(), ": ", change.from(), " -> ", change.to()));
      *reply.add_change() = change;
    }
    job->AddEvent(moment.now, "set", "", absl::StrJoin(lines, "; "));
    Log(absl::StrCat("job ", job->id(), ": settings ", job->plan.settings_revision, ": ",
                     absl::StrJoin(lines, "; ")));
    advance_(moment.now);
  }
  reply.set_revision(job->plan.settings_revision);
  return reply;
}

absl::StatusOr<JobSummary> Requests::Delete(const std::string& name, Moment moment) {
  if (jobs_.Lookup(name) == nullptr) {
    absl::StatusOr<JobSummary> orphans = terms_.DeleteOrphans(name);
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
  if (const JobRecord* const next = slices_.MadeFrom(*job)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the slices of ", next->id(), " are being made from those of ", job->id(),
                     ": delete it when ", next->id(), " has them, or cancel that first"));
  }
  const JobSummary summary = Summarize(*job, moment);
  if (job->stage() == JOB_ENDED) {
    slices_.BeginDeletion(job, moment.now);
    advance_(moment.now);
  }
  return summary;
}

absl::StatusOr<JobLocation> Requests::Locate(const std::string& name, Moment moment) const {
  ASSIGN_OR_RETURN(const JobRecord* const job, jobs_.Find(name));
  if (!job->state().slices_ready() || job->state().slices_lost()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id(), " (", JobState_Name(job->job_state()), ") ",
        job->state().slices_lost() ? "has lost parameters: a parameter server restarted, or "
                                     "somebody deleted its slice"
                                   : "has no parameters yet"));
  }
  if (View(*job).AwaitsShard()) {
    const std::string shards = ShardReason(*job, *registry_, moment.now);
    return absl::UnavailableError(
        absl::StrCat("job ", job->id(),
                     shards_.all_up() ? ": it waits for " : ": its parameters are on ", shards));
  }
  if (job->written_by_program() && job->waits_for_client()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->id(), " (", JobState_Name(job->job_state()),
                     ") has no parameters yet: ", reasons_.Of(*job, moment)));
  }
  JobLocation location = LocationOf(*job, cluster_);
  absl::StatusOr<ResumePoint> held = HeldOf(*job);
  if (held.ok()) {
    *location.mutable_held() = *std::move(held);
  } else {
    location.set_not_held(std::string(held.status().message()));
  }
  return location;
}

TaskStatus Requests::WorkerStatus(uint32_t worker) const {
  const Member& member = membership_.member(worker);
  TaskStatus task;
  task.set_task(absl::StrCat("worker/", worker));
  task.set_address(AddressOf(*registry_, worker));
  task.set_state(membership_.draining(worker)                ? "DRAINING"
                 : member.state == Member::State::kUp        ? "UP"
                 : member.state == Member::State::kNeverSeen ? "NEVER SEEN"
                 : member.state == Member::State::kLeft      ? "LEFT"
                                                             : "LOST");
  task.set_pid(member.pid);
  task.set_host(member.host);
  task.set_last_seen_ms(member.last_seen_ms);
  task.set_trouble(member.trouble());
  return task;
}

absl::StatusOr<TaskStatus> Requests::Drain(uint32_t worker) {
  const bool told = membership_.draining(worker);
  RETURN_IF_ERROR(membership_.Drain(worker));
  if (!told) {
    Log(absl::StrCat("worker/", worker, " (pid ", membership_.member(worker).pid,
                     ") is told to leave"));
  }
  return WorkerStatus(worker);
}

InfoReply Requests::Info(Moment moment) const {
  InfoReply reply;
  reply.set_cluster(cluster_.name());
  reply.set_pid(registry_->pid);
  reply.set_protocol_version(kProtocolVersion);
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    const ShardView& shard = shards_.shard(i);
    TaskStatus* const task = reply.add_task();
    task->set_task(absl::StrCat("ps/", i));
    task->set_address(cluster_.ps(static_cast<int>(i)).address());
    task->set_state(ShardStateName(shard.state));
    task->set_pid(shard.status.pid());
    task->set_last_seen_ms(shard.last_seen_ms);
    task->set_trouble(shard.trouble());
    if (shard.was_heard()) {
      task->set_silent_s(absl::ToDoubleSeconds(moment.now - shard.last_seen));
    }
  }
  for (uint32_t i = 0; i < membership_.size(); ++i) {
    TaskStatus* const task = reply.add_task();
    *task = WorkerStatus(i);
    if (const Member& member = membership_.member(i); member.was_heard()) {
      task->set_silent_s(absl::ToDoubleSeconds(moment.now - member.last_seen));
    }
  }
  return reply;
}

JobSummary Requests::Summarize(const JobRecord& job, Moment moment) const {
  JobSummary summary;
  summary.set_job(job.id());
  summary.set_name(job.plan.job.name());
  summary.set_state(job.job_state());
  summary.set_reason(reasons_.Of(job, moment));
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

}  // namespace monsoon
