#include "coordinator/state/coordinator_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/security/member_book.h"
#include "common/security/token_book.h"
#include "coordinator/state/apply.h"
#include "coordinator/state/sorted_list.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace monsoon {
namespace {

// Builds the job that `update` submits.
DurableJob NewJob(const std::string& id, const JobSubmitted& submitted) {
  DurableJob job;
  job.set_id(id);
  job.set_client_id(submitted.client_id());
  job.set_by(submitted.by());
  *job.mutable_plan() = submitted.plan();
  job.set_created_ms(submitted.created_ms());
  job.set_init(submitted.init());
  job.set_term(submitted.term());
  if (submitted.has_source()) {
    *job.mutable_source() = submitted.source();
  }
  if (submitted.has_resume()) {
    *job.mutable_resume() = submitted.resume();
  }
  for (int shard = 0; shard < submitted.plan().shard_bytes_size(); ++shard) {
    job.add_shard_epoch(0);
  }
  return job;
}

// Tokens and members. A refused update must not leave an empty list where there was none: that
// would be other bytes.
absl::Status ApplyToMembers(const StateUpdate& update, CoordinatorSnapshot* snapshot) {
  const bool had_tokens = snapshot->has_tokens();
  const bool had_members = snapshot->has_members();
  const absl::Status status =
      update.has_token_changed()
          ? TokenBook::Apply(update.token_changed(), snapshot->mutable_tokens())
          : MemberBook::Apply(update.member_changed(), snapshot->mutable_members());
  if (!status.ok() && !had_tokens) {
    snapshot->clear_tokens();
  }
  if (!status.ok() && !had_members) {
    snapshot->clear_members();
  }
  return status;
}

absl::Status BeginLife(const JournalLife& life,
                       google::protobuf::RepeatedPtrField<JournalLife>* lives) {
  if (!lives->empty() && life.term() <= lives->rbegin()->term()) {
    return absl::FailedPreconditionError(absl::StrCat("the life of term ", lives->rbegin()->term(),
                                                      " does not come before that of term ",
                                                      life.term()));
  }
  *lives->Add() = life;
  lives->DeleteSubrange(0, std::max(0, lives->size() - kMaxLives));
  return absl::OkStatus();
}

}  // namespace

absl::Status CoordinatorState::ApplyToCluster(const StateUpdate& update) {
  if (update.has_worker_joined()) {
    const WorkerIncarnation& joined = update.worker_joined();
    if (joined.incarnation() <= incarnation(joined.worker())) {
      return absl::FailedPreconditionError(
          absl::StrCat("worker/", joined.worker(), " has incarnation ",
                       incarnation(joined.worker()), ", not below ", joined.incarnation()));
    }
    *TakeWorker(snapshot_.mutable_worker(), joined.worker()) = joined;
    return absl::OkStatus();
  }
  if (update.has_worker_drained()) {
    const uint32_t worker = update.worker_drained().worker();
    if (incarnation(worker) == 0) {
      return absl::FailedPreconditionError(absl::StrCat("worker/", worker, " was never there"));
    }
    TakeWorker(snapshot_.mutable_worker(), worker)->set_draining(true);
    return absl::OkStatus();
  }
  if (update.has_term_taken()) {
    if (update.term_taken().term() <= snapshot_.term()) {
      return absl::FailedPreconditionError(
          absl::StrCat("term ", snapshot_.term(), " is not below ", update.term_taken().term()));
    }
    snapshot_.set_term(update.term_taken().term());
    return absl::OkStatus();
  }
  if (update.has_journal_named()) {
    const JournalNamed& named = update.journal_named();
    const JournalNamed& known = snapshot_.journal();
    if (named.id() == 0 || (named.id() == known.id() && named.replaces() == known.replaces())) {
      return absl::FailedPreconditionError("it has that name, or none");
    }
    *snapshot_.mutable_journal() = named;
    return absl::OkStatus();
  }
  if (update.has_life_begun()) {
    return BeginLife(update.life_begun(), snapshot_.mutable_life());
  }
  if (update.has_shard_seen()) {
    const ShardSeen& seen = update.shard_seen();
    auto* const list = snapshot_.mutable_shard();
    const auto place = std::ranges::lower_bound(*list, seen.shard(), {}, &ShardSeen::shard);
    const bool known = place != list->end() && place->shard() == seen.shard();
    const auto index = static_cast<int>(place - list->begin());
    *(known ? list->Mutable(index) : InsertAt(list, index)) = seen;
    return absl::OkStatus();
  }
  if (update.has_token_changed() || update.has_member_changed()) {
    return ApplyToMembers(update, &snapshot_);
  }
  return absl::InternalError("an update of no cluster");
}

absl::Status CoordinatorState::Apply(const StateUpdate& update) {
  switch (update.change_case()) {
    case StateUpdate::kWorkerJoined:
    case StateUpdate::kWorkerDrained:
    case StateUpdate::kTermTaken:
    case StateUpdate::kJournalNamed:
    case StateUpdate::kLifeBegun:
    case StateUpdate::kShardSeen:
    case StateUpdate::kTokenChanged:
    case StateUpdate::kMemberChanged:
      return ApplyToCluster(update);
    default:
      break;
  }
  auto* const jobs = snapshot_.mutable_job();
  const auto found = std::ranges::find(*jobs, update.job(), &DurableJob::id);
  DurableJob* const job = found == jobs->end() ? nullptr : &*found;
  if (update.has_job_submitted()) {
    if (job != nullptr || update.job_submitted().number() <= snapshot_.jobs_counted()) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", update.job(), " is there already, or its number was given before"));
    }
    snapshot_.set_jobs_counted(update.job_submitted().number());
    *snapshot_.add_job() = NewJob(update.job(), update.job_submitted());
    return absl::OkStatus();
  }
  if (job == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("no job \"", update.job(), "\""));
  }
  if (update.has_job_removed()) {
    if (job->stage() != JOB_DELETING) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", job->id(), " is ", JobStage_Name(job->stage()), ", not deleting"));
    }
    jobs->erase(found);
    return absl::OkStatus();
  }
  const absl::Status status = ApplyToJob(update, job);
  return status.ok()
             ? status
             : absl::Status(status.code(), absl::StrCat("job ", job->id(), ": ", status.message(),
                                                        ": ", update.ShortDebugString()));
}

absl::Status CoordinatorState::ApplyToJob(const StateUpdate& update, DurableJob* job) {
  switch (update.change_case()) {
    case StateUpdate::CHANGE_NOT_SET:
    case StateUpdate::kWorkerJoined:
    case StateUpdate::kWorkerDrained:
    case StateUpdate::kTermTaken:
    case StateUpdate::kJournalNamed:
    case StateUpdate::kLifeBegun:
    case StateUpdate::kShardSeen:
    case StateUpdate::kTokenChanged:
    case StateUpdate::kMemberChanged:
    case StateUpdate::kJobSubmitted:
    case StateUpdate::kJobRemoved:
      return absl::FailedPreconditionError("an update of nothing");
    case StateUpdate::kJobForfeited:
    case StateUpdate::kStageChanged:
    case StateUpdate::kReasonChanged:
    case StateUpdate::kClientStarted:
    case StateUpdate::kDataSeen:
    case StateUpdate::kSettingsChanged:
    case StateUpdate::kSettingsDated:
    case StateUpdate::kWriterChosen:
    case StateUpdate::kShardCreated:
    case StateUpdate::kSlicesLost:
    case StateUpdate::kPushesLost:
    case StateUpdate::kEventAdded:
      return internal::ApplyToLife(update, job);
    case StateUpdate::kSessionChanged:
    case StateUpdate::kSessionRemoved:
    case StateUpdate::kSessionCounted:
    case StateUpdate::kSessionReported:
    case StateUpdate::kReplicaFailed:
    case StateUpdate::kWorkerExcluded:
    case StateUpdate::kTrainFingerprint:
    case StateUpdate::kTestFingerprint:
      return internal::ApplyToSessions(update, job);
    case StateUpdate::kCheckpointOrdered:
    case StateUpdate::kCheckpointHeld:
    case StateUpdate::kCheckpointRequested:
    case StateUpdate::kCheckpointAbandoned:
    case StateUpdate::kSessionDurable:
    case StateUpdate::kStorageGivenUp:
    case StateUpdate::kBestGeneration:
      return internal::ApplyToCheckpoints(update, job);
    case StateUpdate::kBatchSnapshot:
    case StateUpdate::kBatchReturned:
      return internal::ApplyToBatch(update, job);
    default:
      return internal::ApplyToProcedures(update, job);
  }
}

const DurableJob* CoordinatorState::FindJob(const std::string& id) const {
  const auto found = std::ranges::find(snapshot_.job(), id, &DurableJob::id);
  return found == snapshot_.job().end() ? nullptr : &*found;
}

const DurableJob* CoordinatorState::FindClient(const std::string& client_id) const {
  const auto found = std::ranges::find(snapshot_.job(), client_id, &DurableJob::client_id);
  return client_id.empty() || found == snapshot_.job().end() ? nullptr : &*found;
}

uint64_t CoordinatorState::incarnation(uint32_t worker) const {
  const WorkerIncarnation* const found = FindWorker(snapshot_.worker(), worker);
  return found == nullptr ? 0 : found->incarnation();
}

uint64_t CoordinatorState::incarnation_term(uint32_t worker) const {
  const WorkerIncarnation* const found = FindWorker(snapshot_.worker(), worker);
  return found == nullptr ? 0 : found->term();
}

uint64_t CoordinatorState::guest(uint32_t worker) const {
  const WorkerIncarnation* const found = FindWorker(snapshot_.worker(), worker);
  return found == nullptr ? 0 : found->guest();
}

const WorkerIncarnation* CoordinatorState::FindIncarnation(uint32_t worker) const {
  return FindWorker(snapshot_.worker(), worker);
}

bool CoordinatorState::draining(uint32_t worker) const {
  const WorkerIncarnation* const found = FindWorker(snapshot_.worker(), worker);
  return found != nullptr && found->draining();
}

const ShardSeen* CoordinatorState::FindShard(uint32_t shard) const {
  const auto found = std::ranges::find(snapshot_.shard(), shard, &ShardSeen::shard);
  return found == snapshot_.shard().end() ? nullptr : &*found;
}

bool MayLag(const StateUpdate& update) {
  switch (update.change_case()) {
    case StateUpdate::kEventAdded:
    case StateUpdate::kStepsCounted:
    case StateUpdate::kBlocksReleased:
    case StateUpdate::kBackendSeen:
    case StateUpdate::kBatchFigures:
    case StateUpdate::kIteration:
      return true;
    case StateUpdate::kReplicaTold: {
      // Blocks are the replica's from now on, and one that finishes asks no more. What
      // an evaluation is given out to stands in the test schedule.
      const NextWorkReply& told = update.replica_told().last_reply();
      return !told.has_train() && !told.has_finish();
    }
    default:
      return false;
  }
}

std::string CoordinatorState::Serialize() const {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream output(&stream);
  output.SetSerializationDeterministic(true);
  snapshot_.SerializeToCodedStream(&output);
  output.Trim();
  return bytes;
}

}  // namespace monsoon
