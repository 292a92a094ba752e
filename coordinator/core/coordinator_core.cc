#include "coordinator/core/coordinator_core.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "coordinator/job/job_view.h"

namespace monsoon {

CoordinatorCore::CoordinatorCore(const Cluster& cluster, uint32_t pid, Moment moment,
                                 StateWriter::Observer observer, CoordinatorState state)
    : registry_(cluster, pid, moment, std::move(observer), std::move(state)),
      members_(&registry_, &guard_, &replicas_, absl::FromUnixMillis(moment.unix_ms)),
      order_({
          // Looks at a job before it has a slice, and so before all others.
          &data_looks_,
          // A job that ends badly gives up shards that are lost or empty first: its sessions are
          // closed there without them. Slices are made and freed before anything else is asked
          // of a shard.
          &slices_,
          // A shard that was started anew has nothing. So what it is to restore is ordered
          // before sessions, rates and generations, and a job's checkpoints and its batch hear
          // of the shard after its restore is under way.
          &restores_,
          // Says who writes initial parameters, before anybody looks for a replica.
          &entering_,
          // Sessions that shards have opened or closed since: whoever stands below sees the
          // replicas that there are now, and work that is free again.
          &replicas_,
          // Of a job that ends nothing below is done any more.
          &endings_,
          // What shards have stored is seen before the procedure judges by it.
          &orders_.stores,
          // The procedure sees time and replicas before what it has come to is looked at.
          &procedures_,
          // A batch returns after its procedure is there again, and its restores.
          &batches_,
          &orders_.rates,
          // After restores, which give a slice the newest settings.
          &orders_.settings,
          // Before a procedure that is done makes way: what its replicas have pushed must be on
          // the disks while they are there to send it again.
          &checkpoints_,
          // Before new sessions are opened: the next procedure has work for them.
          &succession_,
          &recruitment_,
          // What belongs to no job comes last.
          &terms_,
      }),
      reasons_(&registry_, &checkpoints_, &guard_, {order_.begin(), order_.end()}),
      requests_({.registry = &registry_,
                 .slices = &slices_,
                 .terms = &terms_,
                 .checkpoints = &checkpoints_,
                 .reasons = &reasons_,
                 .guard = &guard_,
                 .advance = [this](absl::Duration now) { Advance(now); }}) {
  terms_.BeginLife(moment.unix_ms);
  Recover(moment.now);
}

// ---- the loop ----------------------------------------------------------------

void CoordinatorCore::AdvanceActive(JobRecord* job, absl::Duration now) {
  for (Controller* const controller : order_) {
    if (!controller->Advance(job, now)) {
      return;
    }
  }
}

// The procedure begins before there are sessions: whoever opens one finds its work there.
void CoordinatorCore::Activate(JobRecord* job, absl::Duration now) {
  registry_.jobs.BeginActive(job);
  job->ChangeStage(JOB_ACTIVE, now);
  procedures_.Begin(job, now);
  job->BeginSessions();
  checkpoints_.CheckpointClientsParameters(job);
}

void CoordinatorCore::Advance(absl::Duration now) {
  if (!guard_.waits_for().empty()) {
    return;
  }
  // Each change can make way for the next one; every round but the last ends,
  // starts or deletes a job.
  for (bool changed = true; changed;) {
    // A name and its memory are free again before anybody looks for what could run.
    changed = terms_.RemoveDeleted();
    // What a slice is made with depends on how many samples there are.
    data_looks_.AdvanceWaiting(now);
    // Slices that a client or a program writes are made ahead of the queue: writing them takes
    // long, and no worker.
    for (const auto& job : registry_.jobs.jobs()) {
      if (job->state().init() && !job->plan.awaits_data) {
        slices_.AdvanceCreation(job.get(), now);
      }
      if (job->joined() && job->stage() == JOB_READY && !job->waits_for_client()) {
        Activate(job.get(), now);
      }
    }
    // One job of the queue has the cluster's workers. The slices of the next one are made when
    // it may begin; until then they would lie idle on the shards.
    JobRecord* const next =
        registry_.jobs.ActiveOfQueue() == nullptr ? registry_.jobs.NextToRun() : nullptr;
    if (next != nullptr && !next->plan.awaits_data) {
      slices_.AdvanceCreation(next, now);
      changed |= next->ended_or_deleting();
      if (next->stage() == JOB_READY) {
        Activate(next, now);
      }
    }
    for (JobRecord* const job : std::vector<JobRecord*>(registry_.jobs.active())) {
      AdvanceActive(job, now);
      // It has begun to end in this very step: a job without sessions is over at once.
      if (job->stage() == JOB_ENDING) {
        AdvanceActive(job, now);
      }
      changed |= !job->active();
    }
  }
}

void CoordinatorCore::Recover(absl::Duration now) {
  for (const ShardSeen& seen : registry_.writer.state().snapshot().shard()) {
    if (seen.shard() < registry_.shards.size()) {
      ShardStatusReply known;
      known.set_task(seen.shard());
      known.set_pid(seen.pid());
      known.set_shard_epoch(seen.epoch());
      known.set_state_dir(seen.state_dir());
      registry_.shards.Expect(seen.shard(), known, now);
    }
  }
  for (const auto& job : registry_.jobs.jobs()) {
    for (Controller* const controller : order_) {
      controller->Recover(job.get(), now);
    }
  }
  replicas_.CloseAbsent(now);
}

// ---- people, workers and programs --------------------------------------------

absl::StatusOr<CheckpointOrder> CoordinatorCore::Checkpoint(const std::string& name,
                                                            Moment moment) {
  RETURN_IF_ERROR(guard_.Check());
  ASSIGN_OR_RETURN(JobRecord* const job, registry_.jobs.Find(name));
  ASSIGN_OR_RETURN(CheckpointOrder order, checkpoints_.Ask(job));
  checkpoints_.OrderAll(moment);
  return order;
}

absl::StatusOr<GiveUpReply> CoordinatorCore::GiveUp(const std::string& task, const std::string& by,
                                                    Moment moment) {
  GiveUpReply reply;
  absl::string_view number = task;
  uint32_t shard = 0;
  if (task == "coordinator/0") {
    ASSIGN_OR_RETURN(const std::string what, guard_.GiveUp());
    // Jobs and incarnations are told apart by their terms: those of the state that is given up are
    // all of earlier ones, also where the clock is behind them.
    terms_.TakeTerm(guard_.newest_life(), moment.unix_ms);
    const std::string text = absl::StrCat(by, " has given up ", what);
    registry_.Log(text);
    for (const auto& job : registry_.jobs.jobs()) {
      if (!job->ended_or_deleting()) {
        job->AddEvent(moment.now, "folder_given_up", task, text);
        registry_.End(job.get(), FAILED,
                      absl::StrCat(text, ", which knew how far the job had come",
                                   JobView(*job, registry_.shards).ResumeHint()),
                      moment.now);
        reply.add_job(job->id());
      }
    }
    Advance(moment.now);
    return reply;
  }
  if (!absl::ConsumePrefix(&number, "ps/") || !absl::SimpleAtoi(number, &shard)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", task, "\" has no state folder to give up; say ps/N or coordinator/0"));
  }
  RETURN_IF_ERROR(guard_.Check());
  ASSIGN_OR_RETURN(const std::vector<std::string> jobs, restores_.GiveUp(shard, by, moment.now));
  reply.mutable_job()->Assign(jobs.begin(), jobs.end());
  return reply;
}

absl::StatusOr<EnterReply> CoordinatorCore::Enter(const EnterRequest& request, const JobPlan& plan,
                                                  Moment moment, const std::string& by) {
  RETURN_IF_ERROR(guard_.CheckForWorkers());
  if (!terms_.superseded().empty()) {
    return absl::FailedPreconditionError(terms_.superseded());
  }
  if (std::optional<EnterReply> ended = entering_.EndOfEntered(request)) {
    return *std::move(ended);
  }
  absl::StatusOr<JobRecord*> found = entering_.FindOrMakeJob(request, plan, by, moment);
  if (absl::IsNotFound(found.status())) {
    RETURN_IF_ERROR(guard_.CheckAbsence());
  }
  ASSIGN_OR_RETURN(JobRecord* const job, std::move(found));
  Advance(moment.now);
  EnterReply greeting = entering_.Greet(*job);
  if (job->waits_for_client() && job->written_by_program()) {
    if (entering_.TakeSeal(request, job)) {
      Advance(moment.now);
      checkpoints_.OrderAll(moment);  // nobody trains before the first one is held
    } else {
      entering_.FindPart(request, job, moment, &greeting);
    }
  }
  ASSIGN_OR_RETURN(EnterReply reply, entering_.Admit(request, *job, std::move(greeting)));
  const bool waits = reply.part() == EnterReply::WAIT && reply.ended() == 0;
  if (waits && reply.reason().empty()) {
    reply.set_reason(reasons_.Of(*job, moment));
  }
  return reply;
}

absl::StatusOr<HeartbeatReply> CoordinatorCore::Heartbeat(const HeartbeatRequest& request,
                                                          Moment moment,
                                                          const MemberIdentity& sender) {
  guard_.Hear(absl::StrCat("worker/", request.task()), request.journal());
  RETURN_IF_ERROR(guard_.CheckForWorkers());
  HeartbeatReply reply;
  if (const std::optional<JournalMark> mark = guard_.MarkForWorkers()) {
    *reply.mutable_journal() = *mark;
  }
  reply.set_heartbeat_ms(registry_.cluster.heartbeat_ms());
  if (!entering_.Knows(request)) {
    RETURN_IF_ERROR(guard_.CheckAbsence());
  }
  if (!entering_.TellOfJob(request, &reply) && request.incarnation() == 0) {
    return reply;
  }
  ASSIGN_OR_RETURN(const Membership::Heard heard, replicas_.Hear(request, moment, sender));
  if (heard.outcome != Membership::Outcome::kMustRejoin) {
    if (heard.outcome != Membership::Outcome::kLeft) {
      checkpoints_.NoteWaitingWorker(heard.worker, request, moment.now);
      data_looks_.Hear(heard.worker, request);
    }
    Advance(moment.now);
  }
  replicas_.Answer(heard, &reply);
  if (registry_.membership.up(heard.worker)) {
    data_looks_.Tell(heard.worker, &reply);
  }
  return reply;
}

absl::StatusOr<NextWorkReply> CoordinatorCore::NextWork(const NextWorkRequest& request,
                                                        Moment moment, OnWait on_wait) {
  RETURN_IF_ERROR(guard_.CheckForWorkers());
  if (auto answer = replicas_.WithoutWork(request, moment.now)) {
    return *std::move(answer);
  }
  const SessionKey& session = request.session();
  JobRecord* const job = registry_.jobs.JobOfSession(session);
  absl::StatusOr<NextWorkReply> reply =
      job->procedure()->NextWork(session.worker(), request, moment.now, on_wait);
  if (reply.ok() && reply->has_finish()) {
    job->KeepReported(session.worker());
  }
  Advance(moment.now);
  return reply;
}

bool CoordinatorCore::WorkIsNear(const SessionKey& session) {
  const JobRecord* const job = registry_.jobs.JobOfSession(session);
  return job != nullptr && job->stage() == JOB_ACTIVE &&
         job->procedure()->WorkIsNear(session.worker());
}

absl::Status CoordinatorCore::ReportEvaluation(const ReportEvaluationRequest& request,
                                               Moment moment) {
  RETURN_IF_ERROR(guard_.CheckForWorkers());
  if (registry_.jobs.IsOver(request.session())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(replicas_.ReportEvaluation(request, moment.now));
  Advance(moment.now);
  return absl::OkStatus();
}

absl::StatusOr<TakeStreamReply> CoordinatorCore::TakeStream(const TakeStreamRequest& request,
                                                            Moment moment) {
  RETURN_IF_ERROR(guard_.CheckForWorkers());
  ASSIGN_OR_RETURN(TakeStreamReply reply, replicas_.TakeStream(request));
  Advance(moment.now);
  return reply;
}

absl::StatusOr<ClockReply> CoordinatorCore::TellClock(const ClockRequest& request) {
  RETURN_IF_ERROR(guard_.CheckForWorkers());
  const SessionKey& session = request.session();
  ASSIGN_OR_RETURN(JobRecord* const job, registry_.jobs.JobOfOpenSession(session));
  return job->procedure()->TellClock(session.worker(), request);
}

absl::StatusOr<ReportFailureReply> CoordinatorCore::ReportFailure(
    const ReportFailureRequest& request, Moment moment) {
  RETURN_IF_ERROR(guard_.CheckForWorkers());
  ReportFailureReply reply;
  if (registry_.jobs.IsOver(request.session())) {
    reply.set_job_ends(true);
    return reply;
  }
  RETURN_IF_ERROR(replicas_.ReportFailure(request, moment.now));
  Advance(moment.now);
  const JobRecord* const job = registry_.jobs.Lookup(request.session().job());
  reply.set_job_ends(job == nullptr || job->stage() != JOB_ACTIVE);
  return reply;
}

void CoordinatorCore::EndBatch(const BatchKey& batch, const absl::StatusOr<BatchEnd>& end,
                               Moment moment) {
  batches_.EndBatch(batch, end, moment);
  Advance(moment.now);
  checkpoints_.OrderAll(moment);
}

// ---- shards and time ---------------------------------------------------------

uint64_t CoordinatorCore::BeginPoll() {
  checkpoints_.NotePoll();
  members_.NotePoll();
  return ++registry_.poll_round;
}

void CoordinatorCore::OnPoll(uint32_t shard, uint64_t round,
                             const absl::StatusOr<ShardStatusReply>& reply, Moment moment) {
  const auto change = registry_.shards.OnPoll(shard, round, reply, moment.now, moment.unix_ms);
  if (reply.ok() && terms_.superseded().empty()) {
    guard_.Hear(ShardName(shard), reply->journal());
  }
  if (!guard_.waits_for().empty()) {
    return;
  }
  slices_.RememberShard(shard);
  if (change) {
    OnShardChange(*change, moment.now);
  }
  if (reply.ok()) {
    // Whose the slices are comes first: those of a coordinator that was replaced are not missing.
    terms_.CheckTerm(shard, reply->term(), moment);
    slices_.RecordShards(round);
    slices_.FindMissingSlices(shard, round, moment.now);
    checkpoints_.RecordCheckpoints(shard, moment.now);
    terms_.ForgetDeletions();
  }
  Advance(moment.now);
  checkpoints_.OrderAll(moment);
}

void CoordinatorCore::OnShardChange(const ShardChange& change, absl::Duration now) {
  const std::string who = absl::StrCat(ShardName(change.shard), " (pid ", change.pid, ")");
  const std::string address = registry_.cluster.ps(static_cast<int>(change.shard)).address();
  switch (change.kind) {
    case ShardChange::Kind::kJoined:
      registry_.Log(absl::StrCat(who, " is up at ", address));
      return;
    case ShardChange::Kind::kSuspect: {
      const std::string text = absl::StrFormat(
          "%s at %s has been silent for %.1f s; jobs wait for it, and those that it keeps in "
          "memory only until it is lost, after %.0f s",
          who, address, absl::ToDoubleSeconds(now - registry_.shards.shard(change.shard).last_seen),
          registry_.cluster.ps_lost_after_ms() / 1000.0);
      registry_.Log(text);
      for (JobRecord* const job : registry_.jobs.active()) {
        job->AddEvent(now, "shard_silent", ShardName(change.shard), text);
      }
      return;
    }
    case ShardChange::Kind::kBack:
      registry_.Log(absl::StrCat(who, " is back at ", address));
      for (JobRecord* const job : registry_.jobs.active()) {
        job->AddEvent(now, "shard_back", ShardName(change.shard), absl::StrCat(who, " answers"));
      }
      return;
    case ShardChange::Kind::kLost: {
      const ShardView& view = registry_.shards.shard(change.shard);
      std::string text = absl::StrFormat("%s at %s is lost: silent for %.1f s", who, address,
                                         absl::ToDoubleSeconds(now - view.last_seen));
      if (!view.last_error.ok()) {
        absl::StrAppend(&text, " (", view.last_error.message(), ")");
      }
      registry_.Log(text);
      for (const auto& job : registry_.jobs.jobs()) {
        if (!JobView(*job, registry_.shards).IsRestorable()) {
          slices_.LoseSlices(job.get(), Slices::Loss::kUnreachable, text, now);
        } else if (job->stage() != JOB_ENDED) {
          job->AddEvent(now, "shard_lost", ShardName(change.shard),
                        absl::StrCat(text, "; the job waits until it is started again"));
        }
      }
      return;
    }
    case ShardChange::Kind::kRestarted: {
      const std::string text = absl::StrCat(ShardName(change.shard), " (pid ", change.old_pid,
                                            ") at ", address, " restarted as pid ", change.pid);
      registry_.Log(text);
      for (const auto& job : registry_.jobs.jobs()) {
        if (JobView(*job, registry_.shards).IsRestorable()) {
          for (Controller* const controller : order_) {
            controller->OnShardRestarted(job.get(), change, text, now);
          }
        } else {
          slices_.OnFreshShard(job.get(), change, text, now);
        }
      }
      return;
    }
  }
}

void CoordinatorCore::OnCommand(const ShardCommand& command, const ShardAnswer& answer,
                                Moment moment) {
  if (!guard_.waits_for().empty()) {
    return;
  }
  if (answer.status.ok()) {
    terms_.NoteObeyed(command.term);
  }
  JobRecord* const job = registry_.jobs.Lookup(command.job);
  if (job == nullptr || job->state().term() != command.job_term) {
    terms_.OnOrphanDeleted(command, answer, moment.now);
    return;
  }
  order_[command.owner]->OnAnswer(job, command, answer, moment.now);
  Advance(moment.now);
  checkpoints_.OrderAll(moment);
}

void CoordinatorCore::ForgiveSilence(absl::Duration now) {
  registry_.Log("this process stood still for a while; nobody counts as silent for it");
  registry_.membership.ForgiveSilence(now);
  registry_.shards.ForgiveSilence(now);
}

void CoordinatorCore::Tick(Moment moment) {
  if (!guard_.waits_for().empty()) {
    return;
  }
  for (const ShardChange& change : registry_.shards.Tick(moment.now)) {
    OnShardChange(change, moment.now);
  }
  replicas_.FindLost(moment.now);
  for (const auto& job : registry_.jobs.jobs()) {
    entering_.WatchWriter(job.get(), moment.now);
    slices_.WatchClient(job.get(), moment.now);
  }
  Advance(moment.now);
  checkpoints_.OrderAll(moment);
}

std::vector<ShardCommand> CoordinatorCore::TakeCommands(Moment moment) {
  std::vector<ShardCommand> commands;
  if (!guard_.MayAct()) {
    return commands;
  }
  for (uint32_t owner = 0; owner < order_.size(); ++owner) {
    const size_t before = commands.size();
    order_[owner]->TakeCommands(moment.now, &commands);
    for (size_t i = before; i < commands.size(); ++i) {
      ShardCommand& command = commands[i];
      command.owner = owner;
      command.term = registry_.term();
      command.call = registry_.calls += 2;
      command.create.set_call(command.call);
    }
  }
  return commands;
}

}  // namespace monsoon
