#include "coordinator/server/coordinator.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/logging.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/security/member_id.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

// Resolution of losses, stops by time and repetitions.
constexpr absl::Duration kTick = absl::Milliseconds(50);

// How long a replica's question is held, far below the deadline of the call, and how
// many are: each takes a thread.
constexpr absl::Duration kMostHeldFor = absl::Milliseconds(100);
constexpr uint32_t kMostHeld = 64;

// An answer to somebody who only looks waits so long for the journal.
constexpr absl::Duration kMostLookedFor = absl::Milliseconds(500);

// What a shard is told that has the list of version `known`; nothing: it has said nothing yet.
Revocations ForShard(Revocations list, std::optional<uint64_t> known) {
  if (known == list.version()) {
    list.clear_key();
  }
  return list;
}

}  // namespace

Coordinator::Coordinator(const Cluster& cluster, std::vector<std::unique_ptr<ShardGateway>> shards,
                         const Clock* clock, OpenedJournal opened)
    : cluster_(cluster),
      clock_(clock),
      time_offset_(opened.at > absl::ZeroDuration() ? opened.at - clock->Now()
                                                    : absl::ZeroDuration()),
      committer_(std::move(opened.journal), clock),
      awake_(absl::Milliseconds(cluster.lost_after_ms())),
      core_(
          cluster, static_cast<uint32_t>(getpid()), Time(),
          [this](const StateUpdate& update) { committer_.Add(update); }, std::move(opened.state)),
      shards_(shards.size()) {
  CHECK_EQ(static_cast<int>(shards.size()), cluster.ps_size());
  {
    MutexLock lock(&mutex_);
    if (committer_.keeps()) {
      core_.journal()->Begin(opened.folder, committer_.commits());
    }
    Dispatch(Time());
  }
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    shards_[i].gateway = std::move(shards[i]);
  }
}

void Coordinator::Begin() {
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    shards_[i].poll_thread = std::thread([this, i] { PollLoop(i); });
    shards_[i].command_thread = std::thread([this, i] { CommandLoop(i); });
  }
  tick_thread_ = std::thread([this] { TickLoop(); });
  batch_thread_ = std::thread([this] { BatchLoop(); });
}

Coordinator::~Coordinator() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  committer_.Stop();
  changed_.NotifyAll();
  tick_.NotifyAll();
  work_.NotifyAll();
  if (!tick_thread_.joinable()) {
    return;  // it never began
  }
  tick_thread_.join();
  batch_thread_.join();
  for (Shard& shard : shards_) {
    shard.poll_thread.join();
    shard.command_thread.join();
  }
}

Moment Coordinator::Time() {
  return {awake_.At(clock_->Now() + time_offset_), absl::ToUnixMillis(clock_->WallTime())};
}

absl::Status Coordinator::AwaitJournal(uint64_t ticket) {
  // A worker whose heartbeats wait here must not be silent for so long that it is lost.
  const uint32_t longest = std::min(cluster_.rpc_deadline_ms(), cluster_.lost_after_ms()) / 4;
  if (committer_.Await(ticket, absl::Milliseconds(longest))) {
    return absl::OkStatus();
  }
  const std::string trouble = committer_.trouble();
  return absl::UnavailableError(absl::StrCat("the coordinator cannot write its state",
                                             trouble.empty() ? "" : ": ", trouble,
                                             "; nothing was done yet, and it tries on"));
}

void Coordinator::Dispatch(Moment moment) {
  std::vector<ShardCommand> commands = core_.TakeCommands(moment);
  ticket_ = committer_.EndCall(moment.now);
  for (ShardCommand& command : commands) {
    shards_[command.shard].commands.emplace_back(std::move(command), ticket_);
  }
  for (std::string& line : core_.TakeLog()) {
    log_.push_back(std::move(line));
  }
  changed_.NotifyAll();
  if (!log_.empty() || core_.wants_poll()) {
    tick_.NotifyAll();
  }
}

void Coordinator::TickLoop() {
  absl::Duration next_poll = -absl::InfiniteDuration();
  while (true) {
    std::vector<std::string> log;
    {
      MutexLock lock(&mutex_);
      if (stopping_) {
        return;
      }
      const Moment moment = Time();
      core_.journal()->NoteTrouble(committer_.trouble());
      if (awake_.TakeGap()) {
        core_.ForgiveSilence(moment.now);
      }
      core_.Tick(moment);
      if (moment.now >= next_poll || core_.wants_poll()) {
        round_ = core_.BeginPoll();
        next_poll = moment.now + absl::Milliseconds(cluster_.heartbeat_ms());
      }
      Dispatch(moment);
      log.swap(log_);
    }
    for (const std::string& line : log) {
      LOG(INFO) << line;
    }
    MutexLock lock(&mutex_);
    tick_.WaitFor(&mutex_, kTick, [this] {
      mutex_.AssertHeld();
      return stopping_ || !log_.empty() || core_.wants_poll();
    });
  }
}

void Coordinator::PollLoop(uint32_t index) {
  Shard& shard = shards_[index];
  Revocations revoked;                      // what is told next, once that is written
  uint64_t revoked_ticket = 0;              // by when it is
  std::optional<uint64_t> revoked_version;  // of what the shard has, as it said last
  while (true) {
    uint64_t round = 0;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && shard.polled_round == round_) {
        changed_.WaitFor(&mutex_, kIdleWait);
      }
      if (stopping_) {
        return;
      }
      round = shard.polled_round = round_;
      core_.journal()->NoteCommits(committer_.commits(),
                                   committer_.Await(ticket_, absl::ZeroDuration()));
      shard.gateway->NoteJournal(core_.journal()->MarkFor(index));
      if (core_.members()->revocations().version() != revoked.version()) {
        revoked = core_.members()->revocations();
        revoked_ticket = ticket_;
      }
      if (committer_.Await(revoked_ticket, absl::ZeroDuration())) {
        shard.gateway->NoteRevoked(ForShard(revoked, revoked_version));
      }
    }
    const absl::StatusOr<ShardStatusReply> reply = shard.gateway->GetStatus();
    if (reply.ok()) {
      revoked_version = reply->revoked_version();
    }
    MutexLock lock(&mutex_);
    const Moment moment = Time();
    core_.OnPoll(index, round, reply, moment);
    Dispatch(moment);
  }
}

void Coordinator::CommandLoop(uint32_t index) {
  Shard& shard = shards_[index];
  while (true) {
    ShardCommand command;
    uint64_t ticket = 0;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && shard.commands.empty()) {
        changed_.WaitFor(&mutex_, kIdleWait);
      }
      if (stopping_) {
        return;
      }
      std::tie(command, ticket) = std::move(shard.commands.front());
      shard.commands.pop_front();
    }
    if (!AwaitWritten(ticket)) {
      return;
    }
    const ShardAnswer answer = CarryOut(command, shard.gateway.get());
    MutexLock lock(&mutex_);
    const Moment moment = Time();
    core_.OnCommand(command, answer, moment);
    Dispatch(moment);
  }
}

absl::Status Coordinator::CheckCluster(const std::string& cluster) const {
  if (cluster.empty() || cluster == cluster_.name()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the coordinator at ", cluster_.coordinator().address(), " (pid ", getpid(),
      ") is that of cluster \"", cluster_.name(), "\", and the request is for cluster \"", cluster,
      "\": nothing was done; give each cluster an address of its own"));
}

absl::StatusOr<SubmitReply> Coordinator::Submit(const SubmitRequest& request,
                                                const Caller& caller) {
  uint64_t ticket = 0;
  const std::optional<absl::StatusOr<SubmitReply>> known = WithCore(
      [&](Moment moment) -> std::optional<absl::StatusOr<SubmitReply>> {
        mutex_.AssertHeld();
        if (core_.state().FindClient(request.client_id()) == nullptr) {
          return std::nullopt;
        }
        return core_.Submit(JobPlan(), {.client_id = request.client_id()}, moment);
      },
      &ticket);
  if (known) {
    RETURN_IF_ERROR(AwaitJournal(ticket));
    return *known;  // whatever became of its files since
  }
  ASSIGN_OR_RETURN(JobPlan plan, JobPlan::Make(request.job(), cluster_));
  JobTable::Submission submission{
      .client_id = request.client_id(), .by = QuotaName(caller), .init = request.init()};
  if (request.has_resume()) {
    submission.resume = request.resume();
    submission.resume_held = request.resume_held();
  }
  uint64_t look = 0;
  const std::optional<DataVerdict> verdict = AwaitLook(plan, &look);
  SubmitReply found;
  absl::Status fits;
  if (verdict) {
    found.mutable_data_error()->Assign(verdict->errors.begin(), verdict->errors.end());
    found.mutable_data_warning()->Assign(verdict->warnings.begin(), verdict->warnings.end());
    if (verdict->errors.empty()) {
      fits = plan.TakeData(verdict->examples, cluster_);
      found.set_data_seen(verdict->seen);
      submission.data_seen = verdict->seen;
    }
  }
  found.set_data_awaited(plan.awaits_data && !verdict);
  return Answer([&](Moment moment) -> absl::StatusOr<SubmitReply> {
    mutex_.AssertHeld();
    absl::StatusOr<SubmitReply> reply = SubmitReply();
    if (fits.ok() && found.data_error().empty()) {
      reply = core_.Submit(plan, submission, moment);
      if (reply.ok() && plan.awaits_data) {
        core_.data_looks().Adopt(look, reply->job());
        look = 0;
      }
    }
    core_.data_looks().End(look);
    RETURN_IF_ERROR(fits);
    RETURN_IF_ERROR(reply.status());
    reply->MergeFrom(found);
    return reply;
  });
}

std::optional<DataVerdict> Coordinator::AwaitLook(const JobPlan& plan, uint64_t* number) {
  if (!plan.awaits_data) {
    return std::nullopt;
  }
  MutexLock lock(&mutex_);
  Moment moment = Time();
  *number = core_.data_looks().Ask(plan, moment.now);
  // The heartbeat that would bring the question may just have been answered.
  const absl::Duration until = moment.now + kLookFor + absl::Milliseconds(cluster_.heartbeat_ms());
  std::optional<DataVerdict> verdict;
  while (*number != 0 && !verdict && !stopping_ && moment.now < until) {
    changed_.WaitFor(&mutex_, until - moment.now);
    moment = Time();
    verdict = core_.data_looks().Verdict(*number, moment.now);
  }
  return verdict;
}

absl::StatusOr<JobSummary> Coordinator::Start(const std::string& job) {
  return Answer([&](Moment moment) {
    mutex_.AssertHeld();
    return core_.Start(job, moment);
  });
}

absl::StatusOr<ListReply> Coordinator::List() {
  MutexLock lock(&mutex_);
  return core_.List(Time());
}

absl::StatusOr<JobDescription> Coordinator::Describe(const std::string& job) {
  uint64_t ticket = 0;
  absl::StatusOr<JobDescription> description = [&] {
    MutexLock lock(&mutex_);
    ticket = ticket_;
    return core_.Describe(job, Time());
  }();
  // People act on an end that they see. While the journal cannot be written they must see
  // that.
  committer_.Await(ticket, kMostLookedFor);
  const std::string trouble = trouble_.Get();
  if (!trouble.empty() && description.ok() && description->summary().state() < SUCCEEDED) {
    description->add_trouble()->set_task("coordinator/0");
    description->mutable_trouble()->rbegin()->set_text(trouble);
  }
  return description;
}

absl::StatusOr<JobSummary> Coordinator::Cancel(const std::string& job) {
  return Answer([&](Moment moment) {
    mutex_.AssertHeld();
    return core_.Cancel(job, moment);
  });
}

absl::StatusOr<CheckpointOrder> Coordinator::Checkpoint(const std::string& job) {
  return Answer([&](Moment moment) {
    mutex_.AssertHeld();
    return core_.Checkpoint(job, moment);
  });
}

absl::StatusOr<JobSummary> Coordinator::Delete(const std::string& job) {
  absl::StatusOr<JobSummary> summary = Answer([&](Moment moment) {
    mutex_.AssertHeld();
    return core_.Delete(job, moment);
  });
  if (summary.ok()) {
    // So that the memory can be used by the next submit.
    const absl::Duration deadline =
        clock_->Now() + absl::Milliseconds(cluster_.rpc_deadline_ms()) / 2;
    MutexLock lock(&mutex_);
    while (core_.state().FindJob(summary->job()) != nullptr && !stopping_ &&
           clock_->Now() < deadline) {
      changed_.WaitFor(&mutex_, deadline - clock_->Now());
    }
  }
  return summary;
}

absl::StatusOr<JobLocation> Coordinator::Locate(const std::string& job) {
  return Answer([&](Moment moment) {
    mutex_.AssertHeld();
    return core_.Locate(job, moment);
  });
}

absl::StatusOr<InfoReply> Coordinator::Info() {
  MutexLock lock(&mutex_);
  InfoReply info = core_.Info(Time());
  info.set_trouble(trouble_.Get());
  return info;
}

absl::StatusOr<TaskStatus> Coordinator::Drain(uint32_t worker) {
  return Answer([&](Moment) {
    mutex_.AssertHeld();
    return core_.Drain(worker);
  });
}

absl::StatusOr<GiveUpReply> Coordinator::GiveUp(const GiveUpRequest& request) {
  return Answer([&](Moment moment) {
    mutex_.AssertHeld();
    return core_.GiveUp(request.task(), PeerText(request.by(), kMostPeerName), moment);
  });
}

absl::StatusOr<EnterReply> Coordinator::Enter(const EnterRequest& request, const Caller& caller) {
  RETURN_IF_ERROR(CheckProgram(request));
  ASSIGN_OR_RETURN(const JobPlan plan, JobPlan::Make(request.job(), cluster_));
  return Answer([&](Moment moment) -> absl::StatusOr<EnterReply> {
    mutex_.AssertHeld();
    RETURN_IF_ERROR(core_.members()->CheckEnter(request.job().name(), caller));
    return core_.Enter(request, plan, moment, QuotaName(caller));
  });
}

absl::StatusOr<HeartbeatReply> Coordinator::Heartbeat(const HeartbeatRequest& request,
                                                      const Caller& caller) {
  return Answer([&](Moment moment) -> absl::StatusOr<HeartbeatReply> {
    mutex_.AssertHeld();
    RETURN_IF_ERROR(core_.members()->CheckWorker(request, caller));
    return core_.Heartbeat(request, moment, ToProto(caller));
  });
}

absl::Status Coordinator::CheckSession(const SessionKey& session, const Caller& caller) {
  if (!caller.member.has_value()) {
    return absl::OkStatus();
  }
  MutexLock lock(&mutex_);
  return core_.members()->CheckSession(session.worker(), caller);
}

const RevokedKeys* Coordinator::revoked_keys() {
  MutexLock lock(&mutex_);
  return core_.members()->revoked_keys();
}

bool Coordinator::TakesJoiners() {
  MutexLock lock(&mutex_);
  return core_.members()->TakesJoiners(clock_->WallTime());
}

absl::StatusOr<NextWorkReply> Coordinator::NextWork(const NextWorkRequest& request) {
  uint64_t ticket = 0;
  absl::StatusOr<NextWorkReply> reply = AskForWork(request, &ticket);
  RETURN_IF_ERROR(AwaitJournal(ticket));
  return reply;
}

absl::StatusOr<NextWorkReply> Coordinator::AskForWork(const NextWorkRequest& request,
                                                      uint64_t* ticket) {
  MutexLock lock(&mutex_);
  Moment moment = Time();
  using OnWait = CoordinatorCore::OnWait;
  absl::StatusOr<NextWorkReply> reply = core_.NextWork(request, moment, OnWait::kHold);
  Dispatch(moment);
  // What was reported with it is taken: only the question is left.
  NextWorkRequest question;
  *question.mutable_session() = request.session();
  question.set_request(request.request());
  const absl::Duration until = moment.now + kMostHeldFor;
  ++held_;
  while (reply.ok() && reply->has_wait() && !stopping_ && moment.now < until &&
         held_ <= kMostHeld && core_.WorkIsNear(request.session())) {
    work_.WaitFor(&mutex_, absl::Milliseconds(reply->wait().retry_ms()));
    moment = Time();
    reply = core_.NextWork(question, moment, OnWait::kHold);
    Dispatch(moment);
  }
  --held_;
  if (reply.ok() && reply->has_wait()) {
    reply = core_.NextWork(question, moment, OnWait::kTell);
    Dispatch(moment);
  }
  *ticket = ticket_;
  return reply;
}

absl::StatusOr<ReportEvaluationReply> Coordinator::ReportEvaluation(
    const ReportEvaluationRequest& request) {
  RETURN_IF_ERROR(Answer([&](Moment moment) {
    mutex_.AssertHeld();
    return core_.ReportEvaluation(request, moment);
  }));
  return ReportEvaluationReply();
}

absl::StatusOr<TakeStreamReply> Coordinator::TakeStream(const TakeStreamRequest& request) {
  TakeStreamReply reply;
  RETURN_IF_ERROR(Answer([&](Moment moment) -> absl::Status {
    mutex_.AssertHeld();
    ASSIGN_OR_RETURN(reply, core_.TakeStream(request, moment));
    return absl::OkStatus();
  }));
  return reply;
}

absl::StatusOr<ReportFailureReply> Coordinator::ReportFailure(const ReportFailureRequest& request) {
  ReportFailureReply reply;
  RETURN_IF_ERROR(Answer([&](Moment moment) -> absl::Status {
    mutex_.AssertHeld();
    ASSIGN_OR_RETURN(reply, core_.ReportFailure(request, moment));
    return absl::OkStatus();
  }));
  return reply;
}

}  // namespace monsoon
