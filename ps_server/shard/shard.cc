#include "ps_server/shard/shard.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/transport/frame/protocol.h"

namespace monsoon {
namespace {

absl::Status OtherContent() { return absl::AlreadyExistsError("it exists with other content"); }

absl::Status LaterAttempt(const ShardJob& job, uint64_t attempt) {
  return absl::AbortedError(absl::StrCat("its slice is of attempt ", job.attempt(),
                                         "; this call is of attempt ", attempt,
                                         ", an earlier one"));
}

// What a later call, or a later coordinator's, repeats.
CreateShardJobRequest WithoutCall(CreateShardJobRequest request) {
  request.clear_term();
  request.clear_call();
  request.clear_source();
  return request;
}

}  // namespace

Shard::Shard(ShardOptions options)
    : options_(std::move(options)),
      budget_(absl::StrCat("ps/", options_.task), options_.memory_limit_bytes,
              options_.memory_limit_is) {
  CHECK_NE(options_.shard_epoch, 0u);
}

absl::StatusOr<std::shared_ptr<ShardJob>> Shard::FindKnown(const std::string& job,
                                                           uint64_t job_term) const {
  std::shared_ptr<ShardJob> found = FindJob(job, job_term);
  return found != nullptr ? absl::StatusOr<std::shared_ptr<ShardJob>>(std::move(found))
                          : absl::NotFoundError(absl::StrCat("no job \"", Shorten(job, kMaxJobName),
                                                             "\" on this shard"));
}

absl::StatusOr<ShardStatusReply> Shard::GetStatus(const ShardStatusRequest& request) const {
  if (request.protocol_version() != 0 && request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ps/", options_.task, " speaks protocol ", kProtocolVersion, ", the sender protocol ",
        request.protocol_version(), "; start both from the same build"));
  }
  if (!request.cluster().empty() && request.cluster() != options_.cluster) {
    return absl::FailedPreconditionError(
        absl::StrCat("ps/", options_.task, " belongs to cluster \"", options_.cluster,
                     "\", the sender to \"", request.cluster(), "\""));
  }
  ShardStatusReply reply;
  reply.set_protocol_version(kProtocolVersion);
  reply.set_cluster(options_.cluster);
  reply.set_task(options_.task);
  reply.set_shard_epoch(options_.shard_epoch);
  reply.set_draining(draining_);
  reply.set_memory_limit_bytes(options_.memory_limit_bytes);
  std::vector<std::shared_ptr<ShardJob>> page;
  {
    MutexLock lock(&jobs_mutex_);
    auto next = jobs_.upper_bound({request.after_job(), request.after_job_term()});
    for (; next != jobs_.end() && page.size() < kJobsPerStatus; ++next) {
      page.push_back(next->second);
    }
    reply.set_term(term_);
    reply.set_more_jobs(next != jobs_.end());
  }
  for (const std::shared_ptr<ShardJob>& job : page) {
    *reply.add_job() = job->GetStatus();
  }
  reply.set_memory_used_bytes(budget_.used());
  return reply;
}

absl::Status Shard::CheckServing() const {
  return draining_ ? absl::UnavailableError(absl::StrCat("ps/", options_.task, " is draining"))
                   : absl::OkStatus();
}

absl::Status Shard::Fence(uint64_t term) {
  MutexLock lock(&jobs_mutex_);
  return Fence(term, /*call=*/0);
}

absl::Status Shard::Fence(uint64_t term, uint64_t call) {
  if (term < term_) {
    return absl::FailedPreconditionError(
        absl::StrCat("ps/", options_.task, " obeys the coordinator of term ", term_,
                     "; this call is of term ", term, ", an earlier one's"));
  }
  if (term > term_) {
    term_ = term;
    call_ = 0;
  }
  if (call != 0 && call < call_) {
    return absl::FailedPreconditionError(absl::StrCat("ps/", options_.task, ": call ", call,
                                                      " of term ", term, " comes late: call ",
                                                      call_, " was served before it"));
  }
  call_ = std::max(call_, call);
  return absl::OkStatus();
}

class Shard::Creation {
 public:
  Creation(Shard* shard, JobKey job) : shard_(shard), job_(std::move(job)) {}
  ~Creation() {
    if (begun_) {
      MutexLock lock(&shard_->jobs_mutex_);
      shard_->creations_.erase(job_);
    }
  }
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;

  // Unavailable while the job is made by another call, or just was.
  absl::Status Begin() {
    MutexLock lock(&shard_->jobs_mutex_);
    if (shard_->jobs_.contains(job_) || !shard_->creations_.emplace(job_, false).second) {
      return absl::UnavailableError("its slice is being made; ask again");
    }
    begun_ = true;
    return absl::OkStatus();
  }

  bool given_up() const {
    MutexLock lock(&shard_->jobs_mutex_);
    return shard_->draining_ || shard_->creations_.at(job_);
  }

  // False: it was deleted meanwhile.
  bool Finish(std::shared_ptr<ShardJob> job) {
    MutexLock lock(&shard_->jobs_mutex_);
    if (shard_->creations_.at(job_)) {
      return false;
    }
    shard_->jobs_[job_] = std::move(job);
    return true;
  }

 private:
  Shard* const shard_;
  const JobKey job_;
  bool begun_ = false;
};

absl::StatusOr<CreateShardJobReply> Shard::CreateJob(const CreateShardJobRequest& call) {
  RETURN_IF_ERROR(CheckServing());
  {
    MutexLock lock(&jobs_mutex_);
    RETURN_IF_ERROR(Fence(call.term(), call.call()));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   MakeJob(call, /*attempt=*/std::nullopt,
                           [&](const std::shared_ptr<ShardJob>& made,
                               absl::FunctionRef<bool()> go_on) -> absl::Status {
                             if (!call.has_source()) {
                               return made->stripes()->Initialize(go_on);
                             }
                             const SliceSource& source = call.source();
                             ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> from,
                                              FindKnown(source.job(), source.job_term()));
                             return made->TakeOver(from.get(), go_on);
                           }));
  return job->Describe();
}

absl::StatusOr<std::shared_ptr<ShardJob>> Shard::RestoreJob(const RestoreShardJobRequest& request,
                                                            RestoreContent restore) {
  ASSIGN_OR_RETURN(const std::vector<SessionId> open, SessionsToOpen(request));
  ASSIGN_OR_RETURN(const auto owners, OwnersToBind(request));
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(Fence(request.create().term()));
  return MakeJob(
      request.create(), request.attempt(),
      [&](const std::shared_ptr<ShardJob>& made, absl::FunctionRef<bool()> go_on) -> absl::Status {
        RETURN_IF_ERROR(restore(made, open, go_on));
        made->sessions()->Bind(owners);
        return absl::OkStatus();
      });
}

absl::Status Shard::GiveUpEarlier(const RestoreShardJobRequest& request) {
  RETURN_IF_ERROR(SessionsToOpen(request).status());
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(Fence(request.create().term()));
  const CreateShardJobRequest create = WithoutCall(request.create());
  // Declared before the lock: the last who holds it frees it.
  std::shared_ptr<ShardJob> job = FindJob(create.job(), create.job_term());
  if (job == nullptr || job->attempt() == request.attempt()) {
    return absl::OkStatus();  // RestoreJob answers it
  }
  const std::string name = absl::StrCat("ps/", options_.task, ": job ", create.job());
  if (job->attempt() > request.attempt()) {
    return Annotate(LaterAttempt(*job, request.attempt()), name);
  }
  if (!IsSameSlice(job->request(), create)) {
    return Annotate(OtherContent(), name);
  }
  MutexLock lock(&jobs_mutex_);
  const auto found = jobs_.find(JobParts(create.job(), create.job_term()));
  if (found != jobs_.end() && found->second == job) {
    given_up_.Add(job);
    job->GiveUp();
    jobs_.erase(found);
  }
  return absl::OkStatus();
}

absl::Status Shard::AwaitGivenUp(const std::string& job, uint64_t job_term,
                                 absl::Duration patience) {
  return given_up_.AwaitNoneOf(job, job_term, patience)
             ? absl::OkStatus()
             : absl::UnavailableError(absl::StrCat(
                   "ps/", options_.task, ": job ", job,
                   ": somebody still reads its slice of an earlier attempt; ask again"));
}

absl::StatusOr<std::shared_ptr<ShardJob>> Shard::MakeJob(const CreateShardJobRequest& call,
                                                         Attempt attempt, MakeContent make) {
  const CreateShardJobRequest request = WithoutCall(call);
  absl::StatusOr<std::shared_ptr<ShardJob>> job = MakeOrFind(request, attempt, make);
  return job.ok() || absl::IsResourceExhausted(job.status())
             ? std::move(job)
             : Annotate(job.status(), absl::StrCat("ps/", options_.task, ": job ",
                                                   Shorten(request.job(), kMaxJobName)));
}

absl::StatusOr<std::shared_ptr<ShardJob>> Shard::MakeOrFind(const CreateShardJobRequest& request,
                                                            Attempt attempt, MakeContent make) {
  if (std::shared_ptr<ShardJob> job = FindJob(request.job(), request.job_term())) {
    if (!IsSameSlice(job->request(), request)) {
      return OtherContent();
    }
    if (attempt.has_value() && job->attempt() > *attempt) {
      return LaterAttempt(*job, *attempt);
    }
    if (attempt.has_value() && job->attempt() < *attempt) {
      return absl::UnavailableError("its slice is of an earlier attempt; ask again");
    }
    return job;
  }
  // With two in memory the budget would refuse what there is room for.
  if (given_up_.AnyOf(request.job(), request.job_term())) {
    return absl::UnavailableError("somebody still reads the slice before; ask again");
  }
  ASSIGN_OR_RETURN(ShardJobPlan plan, PlanJob(request));
  Creation creation(this, {request.job(), request.job_term()});
  RETURN_IF_ERROR(creation.Begin());
  ASSIGN_OR_RETURN(MemoryBudget::Reservation memory,
                   budget_.Reserve(plan.memory_bytes, absl::StrCat("job ", request.job()),
                                   "parameters and optimizer state"));
  plan.shape.shard_epoch = options_.shard_epoch;
  ASSIGN_OR_RETURN(SharedSlice slice, SharedSlice::Create(plan.shape));
  std::shared_ptr<FloatArena> state;
  if (plan.state_bytes > 0) {
    ASSIGN_OR_RETURN(state, FloatArena::Create(plan.state_bytes));
  }
  const ParameterLayout layout = plan.layout;
  std::unique_ptr<SessionMarks> marks;
  if (options_.make_session_marks != nullptr) {
    const uint32_t of_tables = plan.layout.tables().empty() ? 0 : 1;
    marks = options_.make_session_marks(request, plan.map.stripes(request.shard()) + of_tables,
                                        /*fresh=*/!attempt.has_value());
  }
  const std::shared_ptr<ShardJob> job = given_up_.Watch(
      std::make_unique<ShardJob>(request, std::move(plan), options_.shard_epoch, std::move(slice),
                                 std::move(memory), &budget_, std::move(marks)));
  job->set_attempt(attempt.value_or(0));
  job->stripes()->Fill(layout, state, options_.clock);
  const absl::Status made = make(job, [&] { return !creation.given_up(); });
  if (made.ok() ? !creation.Finish(job) : creation.given_up()) {
    return absl::AbortedError("it was deleted while its slice was made, or the shard is draining");
  }
  RETURN_IF_ERROR(made);
  files_.Add(job);
  return job;
}

absl::Status Shard::DeleteJob(const std::string& job, uint64_t job_term, uint64_t term,
                              uint64_t call) {
  std::shared_ptr<ShardJob> deleted;  // freed after the lock
  MutexLock lock(&jobs_mutex_);
  // Under the lock, so that none which comes later is overtaken in between.
  RETURN_IF_ERROR(Fence(term, call));
  if (const auto made = creations_.find({job, job_term}); made != creations_.end()) {
    made->second = true;
    return absl::UnavailableError(absl::StrCat("ps/", options_.task, ": job ", job,
                                               " is being made, which is given up; ask again"));
  }
  if (const auto found = jobs_.find(JobParts(job, job_term)); found != jobs_.end()) {
    deleted = std::move(found->second);
    deleted->Retire();
    jobs_.erase(found);
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenSessionReply> Shard::OpenSession(const SessionKey& session, uint64_t term,
                                                    uint64_t call, const MemberIdentity& member) {
  ASSIGN_OR_RETURN(const SessionOwner owner, ParseMemberId(member));
  RETURN_IF_ERROR(CheckServing());
  {
    MutexLock lock(&jobs_mutex_);
    RETURN_IF_ERROR(Fence(term, call));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(session.job(), session.job_term()));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> applied,
                   job->sessions()->Open({session.worker(), session.incarnation()}, owner));
  OpenSessionReply reply;
  reply.set_shard_epoch(options_.shard_epoch);
  reply.set_resumed(applied.has_value());
  reply.set_applied(applied.value_or(0));
  return reply;
}

absl::StatusOr<CloseSessionReply> Shard::CloseSession(const SessionKey& session, uint64_t term,
                                                      uint64_t call) {
  {
    MutexLock lock(&jobs_mutex_);
    RETURN_IF_ERROR(Fence(term, call));
  }
  CloseSessionReply reply;
  // Without the job there is nothing left that could be applied.
  if (const std::shared_ptr<ShardJob> job = FindJob(session.job(), session.job_term())) {
    ASSIGN_OR_RETURN(reply, job->sessions()->Close({session.worker(), session.incarnation()}));
  }
  return reply;
}

absl::StatusOr<std::shared_ptr<ShardJob>> Shard::StartCheckpoint(const CheckpointRequest& request) {
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(Fence(request.term()));
  if (request.generation() == 0) {
    return absl::InvalidArgumentError("generations start at 1");
  }
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job, FindKnown(request.job(), request.job_term()));
  RETURN_IF_ERROR(job->writes()->CheckReadable());
  if (job->sessions()->AnyCatchesUp()) {
    return absl::UnavailableError(
        absl::StrCat("ps/", options_.task, ": workers have not sent again yet what job ",
                     request.job(), " had of them before the server was started anew"));
  }
  return job;
}

absl::StatusOr<VectorReply> Shard::Vector(const VectorRequest& request) {
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(Fence(request.term()));
  // First: a shard that was started anew does not know the job either.
  if (request.shard_epoch() != options_.shard_epoch) {
    return absl::AbortedError(absl::StrCat("ps/", options_.task, ": its epoch is ",
                                           options_.shard_epoch, ", not ", request.shard_epoch(),
                                           ": it was started anew and has lost the job's vectors"));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(request.job(), request.job_term()));
  if (request.attempt() != job->attempt()) {
    return absl::AbortedError(absl::StrCat("ps/", options_.task, ": job ", request.job(),
                                           ": its slice is of attempt ", job->attempt(),
                                           ", this operation of attempt ", request.attempt()));
  }
  absl::StatusOr<VectorReply> reply = job->vectors()->Execute(request);
  return reply.ok() ? reply : Annotate(reply.status(), absl::StrCat("ps/", options_.task));
}

std::optional<absl::Status> Shard::CheckOwner(const SessionKey& session,
                                              const Caller& caller) const {
  const std::shared_ptr<ShardJob> job = FindJob(session.job(), session.job_term());
  return job == nullptr
             ? std::nullopt
             : job->sessions()->owners().Check({session.worker(), session.incarnation()}, caller);
}

std::shared_ptr<ShardJob> Shard::FindJob(const std::string& job, uint64_t job_term) const {
  MutexLock lock(&jobs_mutex_);
  const auto found = jobs_.find(JobParts(job, job_term));
  return found == jobs_.end() ? nullptr : found->second;
}

}  // namespace monsoon
