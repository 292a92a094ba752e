#include "coordinator/replicas/replicas.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/optimizer/optimizer_kinds.h"
#include "coordinator/job/outer_optimizer.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/replicas/assignment.h"
#include "coordinator/replicas/evaluation_check.h"
#include "coordinator/slices/lost_pushes.h"
#include "coordinator/state/sorted_list.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

// The event of a worker that has gone because all is done.
constexpr char kFinished[] = "worker_finished";

// A worker that waits again and again is told of so often.
constexpr absl::Duration kBetweenWaitEvents = absl::Minutes(1);

void LeaveOut(JobRecord* job, uint32_t worker, const std::string& why) {
  job->Make([&](StateUpdate* update) {
    update->mutable_worker_excluded()->set_worker(worker);
    update->mutable_worker_excluded()->set_message(why);
  });
}

// A worker without a session learns by a heartbeat that a job has begun. So it beats as often
// as this, but all of them together no more than so many times a second.
constexpr uint32_t kIdleHeartbeatMs = 50;
constexpr uint32_t kIdleHeartbeatsPerSecond = 500;

}  // namespace

// ---- heartbeats --------------------------------------------------------------

absl::StatusOr<Membership::Heard> Replicas::Hear(const HeartbeatRequest& request, Moment moment,
                                                 const MemberIdentity& sender) {
  ASSIGN_OR_RETURN(const Membership::Heard heard,
                   membership_.Heartbeat(request, moment.now, moment.unix_ms, sender));
  const auto [outcome, worker] = heard;
  if (request.has_session() && request.has_stats() &&
      (outcome == Membership::Outcome::kRefreshed || outcome == Membership::Outcome::kLeft)) {
    if (JobRecord* const job = jobs_.JobOfSession(request.session())) {
      RecordStats(job, request.session(), request.stats(), moment.now);
      job->figures.worker_settings[worker] = request.settings_revision();
    }
  }
  switch (const uint32_t pid = membership_.member(worker).pid; outcome) {
    case Membership::Outcome::kLeft:
      Log(absl::StrCat(WorkerName(worker), " (pid ", pid, ") left"));
      CloseSession(worker, "worker_left", absl::StrCat("pid ", pid), moment.now);
      break;
    case Membership::Outcome::kJoined:
    case Membership::Outcome::kRejoined:
      Log(absl::StrCat(WorkerName(worker), " (pid ", pid, ") joined"));
      CloseSession(worker, "worker_lost", "joined again", moment.now);
      break;
    case Membership::Outcome::kMustRejoin:
      break;
    case Membership::Outcome::kRefreshed:
      cut_.Hear(worker, request, moment.now);
      CloseIfFinished(worker, request, moment.now);
      break;
  }
  return heard;
}

void Replicas::CloseIfFinished(uint32_t worker, const HeartbeatRequest& request,
                               absl::Duration now) {
  JobRecord* const job = jobs_.JobOfWorker(worker);
  // In a chain replicas stay for the next part.
  if (job == nullptr || job->stage() != JOB_ACTIVE || job->hands_over() ||
      !job->plan.job.downpour().has_rounds() || request.has_session()) {
    return;
  }
  const DurableSession* const session = job->ledger()->Find(worker);
  if (session->state() == DurableSession::OPEN &&
      job->procedure()->ReplicaState(worker) == "DONE") {
    CloseSession(worker, kFinished, "", now);
  }
}

void Replicas::Answer(const Membership::Heard& heard, HeartbeatReply* reply) const {
  const uint32_t worker = heard.worker;
  const bool left = heard.outcome == Membership::Outcome::kLeft;
  reply->set_task(worker);
  if (heard.outcome == Membership::Outcome::kMustRejoin || (!left && !membership_.up(worker))) {
    reply->set_rejoin(true);  // Lost before, or expelled by what it reported.
    return;
  }
  reply->set_incarnation(membership_.member(worker).incarnation);
  reply->set_term(registry_->writer.state().incarnation_term(worker));
  if (left) {
    return;
  }
  reply->set_drain(membership_.draining(worker));
  if (const JobRecord* const job = jobs_.JobOfWorker(worker);
      job != nullptr && job->stage() == JOB_ACTIVE) {
    const DurableSession* const session = job->ledger()->Find(worker);
    if (session->state() == DurableSession::OPEN) {
      *reply->mutable_assignment() =
          AssignmentOf(*job, job->ledger()->Key(*session), cluster_, View(*job).IsDurable());
      reply->set_replicas(static_cast<uint32_t>(std::ranges::count(
          job->state().session(), DurableSession::OPEN, &DurableSession::state)));
      reply->set_local_steps(job->figures.pace ? job->figures.pace->LocalSteps(worker) : 0u);
    }
  }
  if (!reply->has_assignment()) {
    reply->set_heartbeat_ms(IdleHeartbeatMs());
  }
}

void Replicas::FindLost(absl::Duration now) {
  for (const uint32_t worker : membership_.Tick(now)) {
    const Member& member = membership_.member(worker);
    const std::string text = absl::StrFormat("pid %d silent for %.1f s", member.pid,
                                             absl::ToDoubleSeconds(now - member.last_seen));
    Log(absl::StrCat(WorkerName(worker), " is lost: ", text));
    CloseSession(worker, "worker_lost", text, now);
  }
  for (const auto& [worker, text] : cut_.TakeLost(now)) {
    Log(text);
    CloseSession(worker, "worker_cut", text, now);
    membership_.Expel(worker);
  }
}

uint32_t Replicas::IdleHeartbeatMs() const {
  const uint32_t shared = membership_.size() * 1000 / kIdleHeartbeatsPerSecond;
  return std::min(cluster_.heartbeat_ms(), std::max(kIdleHeartbeatMs, shared));
}

// ---- what sessions report ----------------------------------------------------

std::optional<absl::StatusOr<NextWorkReply>> Replicas::WithoutWork(const NextWorkRequest& request,
                                                                   absl::Duration now) {
  JobRecord* const job = jobs_.JobOfSession(request.session());
  if (jobs_.IsOver(request.session())) {
    if (job != nullptr && request.has_stats()) {
      RecordStats(job, request.session(), request.stats(), now);
    }
    NextWorkReply reply;
    reply.set_request(request.request());
    reply.mutable_finish();
    return reply;
  }
  if (job == nullptr || !job->ledger()->IsOpen(request.session())) {
    return SessionClosed(request.session());
  }
  if (request.durable_in_size() == job->state().shard_epoch_size()) {
    LeftSession left;
    left.set_worker(request.session().worker());
    left.set_incarnation(request.session().incarnation());
    left.set_pushes(request.pushes());
    job->checkpoints.NoteLeft(std::move(left), request.durable_in());
  }
  if (request.has_stats()) {
    RecordStats(job, request.session(), request.stats(), now);
    if (!job->ledger()->IsOpen(request.session())) {
      return SessionClosed(request.session());  // Other data than the others'.
    }
  }
  return std::nullopt;
}

absl::Status Replicas::ReportEvaluation(const ReportEvaluationRequest& request,
                                        absl::Duration now) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.JobOfOpenSession(request.session()));
  const std::string missing = MissingMetric(*job, request);
  if (!missing.empty()) {
    registry_->End(job, FAILED, absl::StrCat(WorkerName(request.session().worker()), ": ", missing),
                   now);
  } else if (HasDiverged(request)) {
    registry_->End(job, FAILED,
                   absl::StrCat("diverged: ", WorkerName(request.session().worker()),
                                " finds a non-finite loss on the test set"),
                   now);
    job->AddEvent(now, "diverged", WorkerName(request.session().worker()), job->reason());
  } else {
    RETURN_IF_ERROR(job->procedure()->ReportEvaluation(request.session().worker(), request, now));
    CompareWithChance(job, request, now);
  }
  return absl::OkStatus();
}

absl::StatusOr<TakeStreamReply> Replicas::TakeStream(const TakeStreamRequest& request) {
  ASSIGN_OR_RETURN(JobRecord* const job, jobs_.JobOfOpenSession(request.session()));
  ASSIGN_OR_RETURN(TakeStreamReply reply,
                   job->procedure()->TakeStream(request.session().worker(), request.stream()));
  // Who died just now is found to be silent, and then its session is closed on all shards.
  reply.set_patience_ms(2 * cluster_.lost_after_ms());
  return reply;
}

void Replicas::CompareWithChance(JobRecord* job, const ReportEvaluationRequest& request,
                                 absl::Duration now) {
  const std::string text = FinalAtChance(*job, request.examples());
  if (!text.empty() && std::ranges::count(job->state().event(), std::string(kAtChance),
                                          &JobDescription::Event::kind) == 0) {
    job->AddEvent(now, kAtChance, "", text);
    Log(absl::StrCat("job ", job->id(), ": ", text));
  }
}

absl::Status Replicas::ReportFailure(const ReportFailureRequest& request, absl::Duration now) {
  const SessionKey& session = request.session();
  JobRecord* const job = jobs_.JobOfSession(session);
  if (job == nullptr) {
    return SessionClosed(session);
  }
  const std::string worker = WorkerName(session.worker());
  const std::string said = PeerText(request.message(), kMostPeerText);
  const std::string message =
      absl::StrContains(said, worker) ? said : absl::StrCat(worker, ": ", said);
  const auto prefixed = [&message](const char* prefix) {
    return absl::StartsWith(message, prefix) ? message : absl::StrCat(prefix, message);
  };
  Log(absl::StrCat("job ", job->id(), ": failure reported: ", message));
  switch (request.kind()) {
    case ReportFailureRequest::DIVERGED:
      job->AddEvent(now, "diverged", worker, message);
      registry_->End(job, FAILED, prefixed("diverged: "), now);
      break;
    case ReportFailureRequest::PROGRAM_DIVERGED:
      TakeDiverged(job, session.worker(), message, now);
      break;
    case ReportFailureRequest::DATA:
      job->AddEvent(now, "data_error", worker, message);
      registry_->End(job, FAILED, prefixed("data: "), now);
      break;
    case ReportFailureRequest::JOB:
      job->AddEvent(now, "job_error", worker, message);
      registry_->End(job, FAILED, message, now);
      break;
    case ReportFailureRequest::OTHER_DATA:
    case ReportFailureRequest::UNFIT_DEVICE:
      Exclude(job, session.worker(), message, now);
      break;
    default:
      NoteFailure(job, session.worker(), message, now);
      break;
  }
  return absl::OkStatus();
}

void Replicas::NoteFailure(JobRecord* job, uint32_t worker, const std::string& message,
                           absl::Duration now) {
  job->Make([&](StateUpdate* update) {
    update->mutable_replica_failed()->set_worker(worker);
    update->mutable_replica_failed()->set_message(message);
  });
  if (FindWorker(job->state().failures(), worker)->failures() >= kMaxReplicaFailures) {
    job->Make([&](StateUpdate* update) { update->mutable_worker_excluded()->set_worker(worker); });
  }
  CloseSession(worker, "worker_failed", message, now);
  membership_.Expel(worker);
}

void Replicas::TakeDiverged(JobRecord* job, uint32_t worker, const std::string& message,
                            absl::Duration now) {
  const bool others =
      std::ranges::any_of(job->state().session(), [worker](const DurableSession& session) {
        return session.worker() != worker && session.state() != DurableSession::CLOSING;
      });
  const DivergencePolicy::Action action = job->plan.job.divergence().action();
  if (action == DivergencePolicy::HALT || (!others && action != DivergencePolicy::SKIP)) {
    job->AddEvent(now, "diverged", WorkerName(worker), message);
    registry_->End(job, FAILED, absl::StrCat("diverged: ", message), now);
    return;
  }
  LeaveOut(job, worker, message);
  // It says goodbye by itself. One that is expelled would join again meanwhile, as another.
  CloseSession(worker, "worker_diverged", message, now);
}

void Replicas::RecordStats(JobRecord* job, const SessionKey& session, const ReplicaStats& stats,
                           absl::Duration now) {
  const uint32_t worker = session.worker();
  if (!CheckFingerprint(job, worker, /*train=*/true, stats.train_fingerprint(), now) ||
      !CheckFingerprint(job, worker, /*train=*/false, stats.test_fingerprint(), now)) {
    return;
  }
  const bool waited = !job->figures.totals.SumOf(worker).waits_for().empty();
  const ReplicaStats known = job->figures.totals.Of(worker, session.incarnation());
  job->figures.recent_fetch.Add(now, known.fetch_latency(), stats.fetch_latency());
  job->figures.recent_push.Add(now, known.push_latency(), stats.push_latency());
  job->figures.recent_staleness.Add(now, known.staleness(), stats.staleness());
  job->figures.worker_staleness[worker].Add(now, known.staleness(), stats.staleness());
  job->figures.totals.Record(worker, session.incarnation(), stats);
  if (!stats.waits_for().empty() && !waited) {
    TellOfWait(job, worker, PeerText(stats.waits_for(), kMostPeerText), now);
  }
  job->figures.rate.Add(now, job->figures.totals.examples());
  job->figures.long_rate.Add(now, job->figures.totals.examples());
  const uint64_t examples = job->figures.totals.SumOf(worker).examples();
  job->figures.worker_rate[worker].Add(now, examples);
  // Of a session that is being closed this may be the last word.
  if (job->figures.pace && job->ledger()->IsOpen(session)) {
    job->figures.pace->Note(worker, stats.step_compute_ms());
  }
  job->procedure()->NoteSteps(job->figures.totals.steps());
}

void Replicas::TellOfWait(JobRecord* job, uint32_t worker, const std::string& why,
                          absl::Duration now) {
  const auto [told, is_new] = job->figures.wait_told.try_emplace(worker, now);
  if (is_new || now - told->second >= kBetweenWaitEvents) {
    told->second = now;
    job->AddEvent(now, "worker_waits", WorkerName(worker), why);
    Log(absl::StrCat(WorkerName(worker), " waits for ", why));
  }
}

bool Replicas::CheckFingerprint(JobRecord* job, uint32_t worker, bool train, uint64_t value,
                                absl::Duration now) {
  if (value == 0 || job->stage() != JOB_ACTIVE) {
    return true;
  }
  const auto known = [&]() -> const DataFingerprint& {
    return train ? job->state().train_fingerprint() : job->state().test_fingerprint();
  };
  if (known().value() == 0) {
    job->Make([&](StateUpdate* update) {
      DataFingerprint* const fingerprint =
          train ? update->mutable_train_fingerprint() : update->mutable_test_fingerprint();
      fingerprint->set_value(value);
      fingerprint->set_worker(worker);
    });
  }
  if (known().value() == value) {
    return true;
  }
  const std::string message = absl::StrFormat(
      "%s has other %s data (fingerprint %016x) than worker/%d (%016x)", WorkerName(worker),
      train ? "training" : "test", value, known().worker(), known().value());
  Log(message);
  Exclude(job, worker, message, now);
  return false;
}

void Replicas::Exclude(JobRecord* job, uint32_t worker, const std::string& why,
                       absl::Duration now) {
  LeaveOut(job, worker, why);
  CloseSession(worker, "worker_refused", why, now);
  membership_.Expel(worker);
}

// ---- sessions ----------------------------------------------------------------

void Replicas::CloseSession(uint32_t worker, const std::string& kind, const std::string& text,
                            absl::Duration now) {
  JobRecord* const job = jobs_.JobOfWorker(worker);
  const DurableSession* const session = job == nullptr ? nullptr : job->ledger()->Find(worker);
  if (session == nullptr || session->state() == DurableSession::CLOSING) {
    return;
  }
  job->AddEvent(now, kind, WorkerName(worker), text);
  const bool was_testing = job->procedure()->phase() == JobProcedure::Phase::kFinalEvaluation &&
                           job->procedure()->ReplicaState(worker) == "EVALUATING";
  job->CloseSession(worker);
  job->checkpoints.NoteWaiting(worker, /*waits=*/false, now);
  if (job->figures.pace) {
    job->figures.pace->Forget(worker);
  }
  if (kind != "worker_left" && kind != kFinished) {
    job->lost_workers.insert(worker);
  }
  if (was_testing && kind == "worker_lost" && ++job->lost_final_tests >= kMaxLostFinalTests) {
    registry_->End(job, FAILED,
                   absl::StrCat(job->lost_final_tests,
                                " workers were lost while they tested the final parameters; last: ",
                                WorkerName(worker), ", ", text, "; `coordinator export ", job->id(),
                                "` gives the parameters"),
                   now);
  }
}

bool Replicas::Advance(JobRecord* job, absl::Duration now) {
  // Opened before closed: who came and went since the last step is in both, and is added first.
  const SessionLedger::Changes changes = job->ledger()->TakeChanges();
  for (const uint32_t worker : changes.opened) {
    BeginReplica(job, worker, now);
  }
  for (const auto& [worker, status] : changes.refused) {
    job->AddEvent(now, "session_refused", WorkerName(worker), std::string(status.message()));
    Log(absl::StrCat("session of ", WorkerName(worker), " refused: ", status.message()));
    membership_.Expel(worker);
  }
  for (const DurableSession& session : changes.closed) {
    EndReplica(job, session, now);
  }
  return true;
}

void Replicas::BeginReplica(JobRecord* job, uint32_t worker, absl::Duration now) {
  const bool again = !job->figures.worker_rate.try_emplace(worker).second;
  job->procedure()->AddReplica(worker, now);
  job->AddEvent(
      now, again ? "worker_rejoined" : "worker_joined", WorkerName(worker),
      absl::StrCat("pid ", membership_.member(worker).pid,
                   again && OptimizerStateSlots(job->plan.job.downpour().local().inner()) > 0
                       ? "; the state of its inner optimizer begins anew"
                       : ""));
  const std::string added = AddedDifferences(
      job->plan.job, job->plan.sharers, static_cast<uint32_t>(job->procedure()->replicas().size()));
  if (!added.empty() && !again) {
    job->AddEvent(now, "differences_add_up", WorkerName(worker), added);
    Log(absl::StrCat("job ", job->id(), ": ", added));
  }
}

void Replicas::EndReplica(JobRecord* job, const DurableSession& session, absl::Duration now) {
  const uint32_t worker = session.worker();
  job->Make([&](StateUpdate* update) {
    update->mutable_session_counted()->set_worker(worker);
    *update->mutable_session_counted()->mutable_stats() =
        job->figures.totals.Of(worker, session.incarnation());
  });
  job->procedure()->LeaveStreams(job->ledger()->Key(session), cut_.PushesOf(*job, session));
  const uint64_t released = job->procedure()->RemoveReplica(worker, now);
  if (released > 0 && job->stage() == JOB_ACTIVE) {
    job->AddEvent(
        now, "blocks_released", WorkerName(worker),
        absl::StrCat(released, " ", job->procedure()->work_name(), " go to other replicas"));
  }
  cut_.EndSession(job, session, now);
  checkpoints_->CheckpointAfterLoss(job, worker);
}

void Replicas::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (JobRecord* const job : jobs_.active()) {
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      job->ledger()->HoldBack(shard, View(*job).AwaitsRestore(shard));
    }
    for (ShardCommand& command : job->ledger()->Due(now)) {
      commands->push_back(std::move(command));
    }
  }
}

void Replicas::OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                        absl::Duration now) {
  if (LostPushes lost = answer.closed.lost(); lost.records() + lost.row_pushes() > 0) {
    lost.set_shard(command.shard);
    NoteLostPushes(job, lost, now, registry_);
  }
  cut_.NoteClosed(job, command, answer);
  if (job->ledger() != nullptr) {
    job->ledger()->OnResult(command, View(*job).Excused(command, answer), now);
  }
}

// ---- recovery ----------------------------------------------------------------

void Replicas::Recover(JobRecord* job, absl::Duration) {
  const DurableJob& state = job->state();
  for (const WorkerFigures& closed : state.closed()) {
    job->figures.totals.Record(closed.worker(), /*incarnation=*/0, closed.stats());
    job->figures.worker_rate.try_emplace(closed.worker());
  }
  if (!job->active()) {
    return;
  }
  jobs_.BeginActive(job);
  job->BeginSessions();
  for (const DurableSession& session : state.session()) {
    if (session.has_reported()) {
      job->figures.totals.Record(session.worker(), session.incarnation(), session.reported());
    }
    job->figures.worker_rate.try_emplace(session.worker());
  }
}

void Replicas::CloseAbsent(absl::Duration now) {
  std::vector<uint32_t> absent;
  for (JobRecord* const job : jobs_.active()) {
    for (const DurableSession& session : job->state().session()) {
      if (session.state() == DurableSession::CLOSING) {
        // Perhaps it left, and perhaps it was lost.
        job->lost_workers.insert(session.worker());
      } else if (!membership_.Expect(session.worker(), now)) {
        absent.push_back(session.worker());
      }
    }
  }
  for (const uint32_t worker : absent) {
    CloseSession(worker, "worker_lost", "the cluster file has it no more", now);
  }
}

}  // namespace monsoon
