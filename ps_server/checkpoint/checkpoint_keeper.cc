#include "ps_server/checkpoint/checkpoint_keeper.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/process/background_thread.h"
#include "ps_server/checkpoint/write_part.h"

namespace monsoon {
namespace {

// Between looks at whether something was ordered, should a wake-up be lost.
constexpr absl::Duration kIdle = absl::Seconds(10);
// One stripe is written in far less.
constexpr absl::Duration kGiveUp = absl::Seconds(30);
// For answers under way that read a slice which was given up.
constexpr absl::Duration kLetGo = absl::Seconds(5);

}  // namespace

CheckpointKeeper::CheckpointKeeper(CheckpointKeeperOptions options, Storage* storage)
    : options_(std::move(options)), storage_(storage), thread_([this] { Run(); }) {}

CheckpointKeeper::~CheckpointKeeper() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

CheckpointKeeper::Job* CheckpointKeeper::Find(const JobKey& key) {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : &found->second;
}

void CheckpointKeeper::Enqueue(const JobKey& key, Job* job) {
  if (!job->waits) {
    job->waits = true;
    due_.push_back(key);
    changed_.NotifyAll();
  }
}

absl::Status CheckpointKeeper::Order(std::shared_ptr<ShardJob> slice,
                                     const CheckpointRequest& order) {
  const JobKey key{order.job(), order.job_term()};
  MutexLock lock(&mutex_);
  // Under the lock: what was ordered before that, LetGo finds.
  if (slice->given_up()) {
    return absl::UnavailableError(absl::StrCat("job ", key.first, ": its slice is made anew"));
  }
  Job* job = Find(key);
  if (job == nullptr) {
    const std::string folder = JobFolder(options_.state_dir, key.first, key.second);
    job = &jobs_.try_emplace(key, Job{.slice = std::move(slice), .parts = KeptParts(folder)})
               .first->second;
  }
  if (job->deleted) {
    return absl::NotFoundError(absl::StrCat("job ", key.first, " is deleted"));
  }
  if (job->parts.Has(order.generation())) {
    return absl::OkStatus();
  }
  if (order.generation() < std::max(job->order.generation(), job->parts.generation())) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", key.first, ": generation ", order.generation(), " was ordered after ",
                     std::max(job->order.generation(), job->parts.generation())));
  }
  if (order.generation() == job->order.generation() && (writing_ == key || job->waits)) {
    return absl::OkStatus();
  }
  job->order = order;
  Enqueue(key, job);
  return absl::OkStatus();
}

absl::Status CheckpointKeeper::CheckNotKnown(const JobKey& key) const {
  // The shard has no such job: its parts are being removed.
  return jobs_.contains(key) ? absl::UnavailableError("it is being deleted; ask again")
                             : absl::OkStatus();
}

absl::Status CheckpointKeeper::LetGo(const JobKey& key) {
  std::shared_ptr<ShardJob> slice;  // freed after the lock
  MutexLock lock(&mutex_);
  const auto is_given_up = [&] {
    mutex_.AssertHeld();
    const Job* const job = Find(key);
    return job != nullptr && !job->deleted && job->slice->given_up();
  };
  if (!is_given_up()) {
    return absl::OkStatus();
  }
  std::erase(due_, key);
  Find(key)->waits = false;
  changed_.NotifyAll();
  const bool idle = changed_.WaitFor(&mutex_, kGiveUp, [&] {
    mutex_.AssertHeld();
    return writing_ != key;
  });
  if (!idle) {
    return absl::DeadlineExceededError(absl::StrCat(
        "job ", key.first, ": a checkpoint of its slice of an earlier attempt is still being ",
        "written to ", options_.state_dir));
  }
  if (is_given_up()) {  // else another call was faster
    slice = std::move(Find(key)->slice);
    jobs_.erase(key);
  }
  return absl::OkStatus();
}

absl::Status CheckpointKeeper::Adopt(const JobKey& key, std::shared_ptr<ShardJob> slice,
                                     RestoredPart part) {
  Job job{.slice = std::move(slice), .parts = std::move(part.parts)};
  // What Flush writes next goes on from there.
  job.order.set_job(key.first);
  job.order.set_job_term(key.second);
  job.order.set_generation(part.generation);
  *job.order.mutable_context() = std::move(part.context);
  job.restored.set_generation(part.generation);
  job.restored.set_parent_epoch(part.shard_epoch);
  job.restored.mutable_lost()->Assign(part.lost.begin(), part.lost.end());
  for (std::string& line : part.skipped) {
    LOG(WARNING) << "job " << key.first << ": " << line;
    job.restored.add_skipped(std::move(line));
  }
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckNotKnown(key));
  jobs_.try_emplace(key, std::move(job));
  return absl::OkStatus();
}

absl::StatusOr<RestoreShardJobReply> CheckpointKeeper::Restore(
    Shard* shard, const RestoreShardJobRequest& request) {
  const JobKey key{request.create().job(), request.create().job_term()};
  const std::string folder = JobFolder(options_.state_dir, key.first, key.second);
  RETURN_IF_ERROR(shard->GiveUpEarlier(request));
  RETURN_IF_ERROR(LetGo(key));
  RETURN_IF_ERROR(shard->AwaitGivenUp(key.first, key.second, kLetGo));
  std::shared_ptr<ShardJob> adopted;
  // Before anybody else has the job: what is ordered after that must find the parts.
  const auto restore = [&](const std::shared_ptr<ShardJob>& made, std::span<const SessionId> open,
                           absl::FunctionRef<bool()> go_on) -> absl::Status {
    {
      MutexLock lock(&mutex_);
      RETURN_IF_ERROR(CheckNotKnown(key));
    }
    MONSOON_FAIL_POINT_STATUS("restore.before_read");
    ASSIGN_OR_RETURN(RestoredPart part,
                     RestoreNewestPart(storage_, folder, request, open, go_on, made.get()));
    MONSOON_FAIL_POINT_STATUS("restore.read");
    RETURN_IF_ERROR(Adopt(key, made, std::move(part)));
    adopted = made;
    return absl::OkStatus();
  };
  const absl::StatusOr<std::shared_ptr<ShardJob>> job = shard->RestoreJob(request, restore);
  MONSOON_FAIL_POINT_STATUS("restore.serves");
  MutexLock lock(&mutex_);
  Job* const found = Find(key);
  if (!job.ok()) {
    if (adopted != nullptr && found != nullptr && found->slice == adopted) {
      jobs_.erase(key);  // it was deleted before anybody had it
    }
    return job.status();
  }
  RestoreShardJobReply reply = found == nullptr ? RestoreShardJobReply() : found->restored;
  reply.set_shard_epoch(shard->shard_epoch());
  reply.set_attempt((*job)->attempt());
  return reply;
}

void CheckpointKeeper::FillStatus(ShardStatusReply* reply) const {
  reply->set_state_dir(options_.state_dir);
  MutexLock lock(&mutex_);
  for (ShardJobStatus& status : *reply->mutable_job()) {
    const auto found = jobs_.find({status.job(), status.job_term()});
    if (found != jobs_.end()) {
      status.set_generation(found->second.parts.generation());
      status.set_disk_bytes(found->second.parts.bytes());
      status.set_checkpoint_error(found->second.error);
    }
  }
}

absl::Status CheckpointKeeper::Delete(const std::string& name, uint64_t job_term) {
  const JobKey key{name, job_term};
  {
    MutexLock lock(&mutex_);
    if (Job* const job = Find(key)) {
      job->deleted = true;
      std::erase(due_, key);
      const bool idle = changed_.WaitFor(&mutex_, kGiveUp, [&] {
        mutex_.AssertHeld();
        return writing_ != key;
      });
      if (!idle) {
        return absl::DeadlineExceededError(absl::StrCat(
            "job ", name, ": its checkpoint is still being written to ", options_.state_dir));
      }
    }
  }
  const std::string folder = JobFolder(options_.state_dir, key.first, key.second);
  ASSIGN_OR_RETURN(const std::vector<OwnPart> parts,
                   ListOwnParts(*storage_, folder, options_.task));
  for (const OwnPart& part : parts) {
    RETURN_IF_ERROR(RemovePart(storage_, part.files));
  }
  if (!parts.empty()) {
    (void)storage_->RemoveFolder(folder);  // unless another shard has parts there
  }
  if (options_.marks != nullptr) {
    options_.marks->Remove(key.first, key.second);
  }
  MutexLock lock(&mutex_);
  jobs_.erase(key);
  return absl::OkStatus();
}

absl::Status CheckpointKeeper::Flush(absl::Duration grace) {
  MutexLock lock(&mutex_);
  for (auto& [key, job] : jobs_) {
    // Nothing is applied to a slice that only stores: what it adopts is no reason for a generation
    // which nobody has ordered, since the order's context says where its parameters stand.
    const bool newer = job.slice->figures()->applied() != job.parts.applied();
    if (job.order.generation() == 0 || job.deleted || job.slice->given_up() || !newer) {
      continue;
    }
    if (job.parts.Has(job.order.generation()) || writing_ == key) {
      if (job.order.context().vector_size() > 0) {
        continue;
      }
      job.order.set_generation(job.order.generation() + 1);
      job.order.mutable_context()->set_reason(kServerStops);
      job.order.mutable_context()->clear_to_be_tested();
    }
    job.error.clear();
    Enqueue(key, &job);
  }
  WaitForIdle(grace);
  std::vector<std::string> failed;
  for (const auto& [key, job] : jobs_) {
    if (job.waits || writing_ == key || !job.error.empty()) {
      failed.push_back(absl::StrCat(key.first, " (newest on the disk: ", job.parts.generation(),
                                    job.error.empty() ? "" : absl::StrCat("; ", job.error), ")"));
    }
  }
  return failed.empty() ? absl::OkStatus()
                        : absl::DeadlineExceededError(absl::StrCat(
                              "not all of it could be written: ", absl::StrJoin(failed, ", ")));
}

bool CheckpointKeeper::AwaitIdle(absl::Duration timeout) {
  MutexLock lock(&mutex_);
  return WaitForIdle(timeout);
}

bool CheckpointKeeper::WaitForIdle(absl::Duration timeout) {
  return changed_.WaitFor(&mutex_, timeout, [this] {
    mutex_.AssertHeld();
    return due_.empty() && writing_.first.empty();
  });
}

void CheckpointKeeper::Run() {
  DoNotPreempt();
  while (true) {
    JobKey key;
    {
      MutexLock lock(&mutex_);
      changed_.WaitFor(&mutex_, kIdle, [this] {
        mutex_.AssertHeld();
        return stopping_ || !due_.empty();
      });
      if (stopping_) {
        return;
      }
      if (due_.empty()) {
        continue;
      }
      key = due_.front();
      due_.pop_front();
      writing_ = key;
      jobs_.at(key).waits = false;
    }
    Write(key);
    {
      MutexLock lock(&mutex_);
      writing_ = {};
    }
    changed_.NotifyAll();
  }
}

void CheckpointKeeper::Write(const JobKey& key) {
  std::shared_ptr<ShardJob> slice;
  CheckpointRequest order;
  bool first = false;
  {
    MutexLock lock(&mutex_);
    const Job& job = jobs_.at(key);  // Delete waits for writing_
    slice = job.slice;
    order = job.order;
    first = job.parts.generation() == 0;
  }
  // Before the cut: what is applied meanwhile counts as newer.
  const uint64_t applied = slice->figures()->applied();
  const absl::StatusOr<WrittenPart> part = WritePart(
      storage_, options_.state_dir, *slice, order,
      [&]() -> absl::Status {
        RETURN_IF_ERROR(options_.check_owner());
        return SetPassedOverAside(key);
      },
      [&] {
        MutexLock lock(&mutex_);
        return !stopping_ && !jobs_.at(key).deleted && !slice->given_up();
      });
  if (part.ok()) {
    slice->checkpoint()->NoteWritten(part->manifest.generation(), part->stripes);
    if (slice->tables() != nullptr) {
      slice->tables()->NoteWritten(part->rows);
    }
    NoteWritten();
  }
  std::vector<PartFiles> garbage;
  {
    MutexLock lock(&mutex_);
    Job& job = jobs_.at(key);
    const std::string error(part.status().message());
    if (!part.ok() && error != job.error) {
      LOG(WARNING) << "job " << key.first << ": generation " << order.generation()
                   << " was not written: " << error;
    }
    job.error = error;
    if (part.ok()) {
      const bool ordered = order.context().reason() != kServerStops;
      garbage =
          job.parts.Add(part->manifest, applied, ordered, order.context().best().generation());
    }
  }
  RemoveGarbage(key, std::move(garbage));
  if (part.ok() && first && order.has_known_jobs()) {
    Prune(order.known_jobs());
  }
}

absl::Status CheckpointKeeper::SetPassedOverAside(const JobKey& key) {
  std::vector<PartFiles> passed_over;
  std::string folder;
  {
    MutexLock lock(&mutex_);
    KeptParts& parts = jobs_.at(key).parts;
    passed_over = parts.TakePassedOver();
    folder = parts.folder();
  }
  if (passed_over.empty()) {
    return absl::OkStatus();
  }
  absl::Status result;
  for (PartFiles& files : passed_over) {
    const absl::Status status = SetPartAside(storage_, &files);
    result.Update(status);
    MutexLock lock(&mutex_);
    KeptParts& parts = jobs_.at(key).parts;
    if (status.ok()) {
      parts.NotRemoved(std::move(files));
    } else {
      parts.PassOver(std::move(files));
    }
  }
  RETURN_IF_ERROR(result);
  return storage_->SyncFolder(folder);
}

void CheckpointKeeper::NoteWritten() {
  if (noted_written_ || options_.note_written == nullptr) {
    return;
  }
  if (const absl::Status status = options_.note_written(); !status.ok()) {
    LOG(WARNING) << "a part is written, and that could not be noted: " << status.message();
    return;  // the next part tries again
  }
  noted_written_ = true;
}

void CheckpointKeeper::RemoveGarbage(const JobKey& key, std::vector<PartFiles> garbage) {
  for (PartFiles& files : garbage) {
    if (const absl::Status status = RemovePart(storage_, files); !status.ok()) {
      LOG(WARNING) << "job " << key.first << ": " << status.message();
      MutexLock lock(&mutex_);
      jobs_.at(key).parts.NotRemoved(std::move(files));
    }
  }
}

void CheckpointKeeper::Prune(const KnownJobs& known) {
  std::vector<std::string> present;
  for (const KnownJobs::KnownJob& job : known.job()) {
    present.push_back(JobFolder(options_.state_dir, job.job(), job.job_term()));
  }
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, job] : jobs_) {
      present.push_back(JobFolder(options_.state_dir, key.first, key.second));
    }
  }
  std::vector<std::string> log;
  RemoveOldJobs(storage_, options_.state_dir, options_.task, options_.keep_ended_jobs, present,
                &log);
  for (const std::string& line : log) {
    LOG(WARNING) << "checkpoints of ended jobs: " << line;
  }
  if (options_.marks != nullptr) {
    options_.marks->RemoveOthers(JobsFolder(options_.state_dir));
  }
}

}  // namespace monsoon
