#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/state/apply.h"
#include "coordinator/state/coordinator_state.h"
#include "proto/job.pb.h"

namespace monsoon {

bool MayFollow(JobStage from, JobStage to) {
  switch (to) {
    case JOB_QUEUED:
      return from == JOB_CREATING || from == JOB_READY || from == JOB_ACTIVE;
    case JOB_CREATING:
      return from == JOB_QUEUED;
    case JOB_READY:
      return from == JOB_CREATING;
    case JOB_ACTIVE:
      return from == JOB_READY;
    case JOB_ENDING:
      return from == JOB_ACTIVE;
    case JOB_ENDED:  // One that has no sessions ends at once.
      return from != JOB_ACTIVE && from < JOB_ENDED;
    case JOB_DELETING:
      return from == JOB_ENDED;
    default:
      return false;
  }
}

namespace internal {
namespace {

void End(const StageChanged& change, DurableJob* job) {
  job->set_end_state(change.end_state());
  job->set_reason(change.reason());
  job->set_ended_ns(change.at_ns());
}

void Forfeit(const JobForfeited& forfeited, DurableJob* job) {
  if (job->stage() < JOB_ENDED) {
    job->set_stage(JOB_ENDED);
    job->set_end_state(FAILED);
    job->set_reason(forfeited.reason());
    job->set_ended_ns(forfeited.at_ns());
  }
  job->set_slices_lost(true);
  job->clear_session();
}

// The slices go, and their files with them; numbers are never given twice.
void ForgetGenerations(DurableJob* job) {
  if (job->has_checkpoint()) {
    CheckpointState kept;
    kept.set_last(job->checkpoint().last());
    kept.set_requested(job->checkpoint().requested());
    *job->mutable_checkpoint() = kept;
  }
}

absl::Status ChangeStage(const StageChanged& change, DurableJob* job) {
  if (!MayFollow(job->stage(), change.stage())) {
    return absl::FailedPreconditionError(absl::StrCat(
        JobStage_Name(change.stage()), " cannot follow ", JobStage_Name(job->stage())));
  }
  if (change.stage() == JOB_CREATING && job->plan().awaits_data()) {
    return absl::FailedPreconditionError("nobody has looked at its data yet");
  }
  const bool ends =
      change.stage() == JOB_ENDING || (change.stage() == JOB_ENDED && job->stage() != JOB_ENDING);
  if (ends && change.end_state() < SUCCEEDED) {
    return absl::FailedPreconditionError("a job ends as SUCCEEDED, FAILED or CANCELLED");
  }
  if (ends) {
    End(change, job);
  }
  switch (change.stage()) {
    case JOB_QUEUED:
      job->set_slices_ready(false);
      job->clear_session();
      job->clear_downpour();
      job->clear_sandblaster();
      job->clear_synchronous();
      job->clear_slice_attempt();
      if (job->has_writer()) {  // What it has written is gone, and somebody writes again.
        job->mutable_writer()->set_guest(0);
        job->set_client_started(false);
      }
      ForgetGenerations(job);
      break;
    case JOB_CREATING:
      job->set_slices_begun(true);
      break;
    case JOB_READY:
      job->set_slices_ready(true);
      job->set_ready_ns(change.at_ns());
      break;
    default:
      break;
  }
  job->set_stage(change.stage());
  return absl::OkStatus();
}

// One entry for each session and shard: a shard that dies twice tells the same again, or
// more, where it had to take an older part.
absl::Status LosePushes(const LostPushes& lost, DurableJob* job) {
  if (static_cast<int>(lost.shard()) >= job->shard_epoch_size()) {
    return absl::FailedPreconditionError("there is no such shard");
  }
  const auto known = std::ranges::find_if(*job->mutable_lost(), [&](const LostPushes& each) {
    return each.shard() == lost.shard() && each.worker() == lost.worker() &&
           each.incarnation() == lost.incarnation();
  });
  if (known == job->mutable_lost()->end()) {
    *job->add_lost() = lost;
    return absl::OkStatus();
  }
  known->set_from(std::min(known->from(), lost.from()));
  if (known->has_to() && lost.has_to()) {
    known->set_to(std::max(known->to(), lost.to()));
  } else {
    known->set_to_at_least(
        std::max({known->to(), lost.to(), known->to_at_least(), lost.to_at_least()}));
    known->clear_to();
  }
  known->set_records(std::max(known->records(), lost.records()));
  known->set_row_pushes(std::max(known->row_pushes(), lost.row_pushes()));
  return absl::OkStatus();
}

// Nothing is built on the plan before.
absl::Status TakeData(const StoredJobPlan& seen, DurableJob* job) {
  if (!job->plan().awaits_data() || job->stage() != JOB_QUEUED || seen.awaits_data() ||
      seen.shard_bytes_size() != job->plan().shard_bytes_size()) {
    return absl::FailedPreconditionError("the job does not wait for such a plan");
  }
  *job->mutable_plan() = seen;
  return absl::OkStatus();
}

absl::Status ChangeSettings(const SettingsChanged& change, DurableJob* job) {
  const StoredJobPlan& plan = change.plan();
  if (job->stage() != JOB_ACTIVE ||
      plan.settings_revision() != job->plan().settings_revision() + 1 ||
      plan.shard_bytes_size() != job->plan().shard_bytes_size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("settings ", plan.settings_revision(), " do not follow ",
                     job->plan().settings_revision(), " in ", JobStage_Name(job->stage())));
  }
  // A generation that is under way is the same on all shards, whenever each is told of it.
  if (job->checkpoint().ordered() > 0 && job->checkpoint().context().job().name().empty()) {
    Job as_ordered = job->plan().job();
    as_ordered.MergeFrom(job->checkpoint().context().job());
    *job->mutable_checkpoint()->mutable_context()->mutable_job() = std::move(as_ordered);
  }
  JobSettings& settings = *job->mutable_settings();
  if (!settings.has_submitted()) {
    *settings.mutable_submitted() = job->plan().job();
  }
  settings.set_at_ns(change.at_ns());
  settings.clear_from_round();
  *job->mutable_plan() = plan;
  return absl::OkStatus();
}

absl::Status DateSettings(const SettingsDated& dated, DurableJob* job) {
  if (!job->has_settings() || job->settings().has_from_round()) {
    return absl::FailedPreconditionError("no settings wait for a round");
  }
  job->mutable_settings()->set_from_round(dated.from_round());
  return absl::OkStatus();
}

absl::Status ChooseWriter(const InitialWriter& writer, DurableJob* job) {
  if (job->stage() != JOB_READY || job->client_started()) {
    return absl::FailedPreconditionError("nobody is to write its initial parameters");
  }
  if (writer.number() <= job->writer().number() || writer.guest() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("writer ", job->writer().number(), " is not below ", writer.number()));
  }
  *job->mutable_writer() = writer;
  return absl::OkStatus();
}

absl::Status CreateShard(const ShardCreated& created, DurableJob* job) {
  const auto shard = static_cast<int>(created.shard());
  if (shard >= job->shard_epoch_size()) {
    return absl::FailedPreconditionError("there is no such shard");
  }
  // A shard that lives takes part in a batch's return too: it was not away.
  const bool came_back = created.restored() && job->shard_epoch(shard) != created.epoch();
  job->set_restores(job->restores() + (came_back ? 1 : 0));
  job->set_shard_epoch(shard, created.epoch());
  if (created.attempt() > 0 || job->slice_attempt_size() > 0) {
    job->mutable_slice_attempt()->Resize(job->shard_epoch_size(), 0);
    job->set_slice_attempt(shard, created.attempt());
  }
  const CheckpointState& checkpoint = job->checkpoint();
  if (created.generation() > 0 && created.generation() < checkpoint.held()) {
    const uint64_t before = checkpoint.fallen_back_to();
    job->mutable_checkpoint()->set_fallen_back_to(
        before == 0 ? created.generation() : std::min(before, created.generation()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyToLife(const StateUpdate& update, DurableJob* job) {
  switch (update.change_case()) {
    case StateUpdate::kStageChanged:
      return ChangeStage(update.stage_changed(), job);
    case StateUpdate::kJobForfeited:
      Forfeit(update.job_forfeited(), job);
      return absl::OkStatus();
    case StateUpdate::kReasonChanged:
      if (job->stage() != JOB_ENDING) {
        return absl::FailedPreconditionError("only an ending job may end otherwise");
      }
      job->set_end_state(update.reason_changed().end_state());
      job->set_reason(update.reason_changed().reason());
      return absl::OkStatus();
    case StateUpdate::kDataSeen:
      return TakeData(update.data_seen().plan(), job);
    case StateUpdate::kSettingsChanged:
      return ChangeSettings(update.settings_changed(), job);
    case StateUpdate::kSettingsDated:
      return DateSettings(update.settings_dated(), job);
    case StateUpdate::kClientStarted:
      job->set_client_started(true);
      return absl::OkStatus();
    case StateUpdate::kWriterChosen:
      return ChooseWriter(update.writer_chosen(), job);
    case StateUpdate::kShardCreated:
      return CreateShard(update.shard_created(), job);
    case StateUpdate::kSlicesLost:
      job->set_slices_lost(true);
      return absl::OkStatus();
    case StateUpdate::kPushesLost:
      return LosePushes(update.pushes_lost(), job);
    case StateUpdate::kEventAdded:
      if (job->event_size() == kMaxEvents) {
        job->mutable_event()->DeleteSubrange(kMaxEvents / 2, 1);
      }
      *job->add_event() = update.event_added();
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("not of a job's life");
  }
}

}  // namespace internal
}  // namespace monsoon
