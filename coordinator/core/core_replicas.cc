// CoordinatorCore: what workers say.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/model/parameter_layout.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/state/sorted_list.h"

namespace monsoon {
namespace {

// A worker that waits again and again is told of so often.
constexpr absl::Duration kBetweenWaitEvents = absl::Minutes(1);

std::string Worker(uint32_t worker) { return absl::StrCat("worker/", worker); }

std::string SessionName(const SessionKey& session) {
  return absl::StrCat(session.job(), "/worker/", session.worker(), "#", session.incarnation());
}

// A result this many standard deviations above guessing is no guess.
constexpr double kChanceDeviations = 2;

// What to say of `accuracy` on `examples` samples if guessing one of `classes`
// does as well; else "".
std::string AtChance(double accuracy, uint64_t examples, uint64_t classes) {
  if (classes < 2 || examples == 0) {
    return "";
  }
  const double guess = 1.0 / static_cast<double>(classes);
  const double deviation = std::sqrt(guess * (1 - guess) / static_cast<double>(examples));
  if (accuracy > guess + kChanceDeviations * deviation) {
    return "";
  }
  return absl::StrFormat(
      "the model has learned nothing: test accuracy %.4f on %d samples is what guessing one of %d "
      "classes gives (%.4f); try a smaller rate, and look at the data's labels and scale",
      accuracy, examples, classes, guess);
}

absl::Status SessionClosed(const SessionKey& session) {
  return absl::FailedPreconditionError(
      absl::StrCat("session ", SessionName(session), " is not open: join again"));
}

}  // namespace

JobRecord* CoordinatorCore::JobOfSession(const SessionKey& session) const {
  if (active_ == nullptr || active_->id() != session.job() ||
      active_->state().term() != session.job_term()) {
    return nullptr;
  }
  const DurableSession* const known = active_->ledger()->Find(session.worker());
  return known != nullptr && known->incarnation() == session.incarnation() ? active_ : nullptr;
}

bool CoordinatorCore::IsOver(const SessionKey& session) const {
  const JobRecord* const job = jobs_.Lookup(session.job());
  return job != nullptr && job->state().term() == session.job_term() && job->stage() >= JOB_ENDING;
}

absl::StatusOr<HeartbeatReply> CoordinatorCore::Heartbeat(const HeartbeatRequest& request,
                                                          Moment moment) {
  ASSIGN_OR_RETURN(const Membership::Heard heard,
                   membership_.Heartbeat(request, moment.now, moment.unix_ms));
  const auto [outcome, worker] = heard;
  if (request.has_session() && request.has_stats() &&
      (outcome == Membership::Outcome::kRefreshed || outcome == Membership::Outcome::kLeft)) {
    if (JobRecord* const job = JobOfSession(request.session())) {
      RecordStats(job, request.session(), request.stats(), moment.now);
    }
  }
  const Member& member = membership_.member(worker);
  HeartbeatReply reply;
  reply.set_heartbeat_ms(cluster_.heartbeat_ms());
  reply.set_task(worker);
  switch (outcome) {
    case Membership::Outcome::kMustRejoin:
      reply.set_rejoin(true);
      return reply;
    case Membership::Outcome::kLeft:
      Log(absl::StrCat(Worker(worker), " (pid ", member.pid, ") left"));
      CloseSession(worker, "worker_left", absl::StrCat("pid ", member.pid), moment.now);
      Advance(moment.now);
      reply.set_incarnation(member.incarnation);
      reply.set_term(writer_.state().incarnation_term(worker));
      return reply;
    case Membership::Outcome::kJoined:
    case Membership::Outcome::kRejoined:
      Log(absl::StrCat(Worker(worker), " (pid ", member.pid, ") joined"));
      CloseSession(worker, "worker_lost", "joined again", moment.now);
      break;
    case Membership::Outcome::kRefreshed:
      break;
  }
  NoteWaitingWorker(worker, request, moment.now);
  Advance(moment.now);
  if (!membership_.up(worker)) {
    reply.set_rejoin(true);  // Expelled by what it reported.
    return reply;
  }
  reply.set_incarnation(member.incarnation);
  reply.set_term(writer_.state().incarnation_term(worker));
  reply.set_drain(membership_.draining(worker));
  if (active_ != nullptr && active_->stage() == JOB_ACTIVE) {
    const DurableSession* const session = active_->ledger()->Find(worker);
    if (session != nullptr && session->state() == DurableSession::OPEN) {
      *reply.mutable_assignment() = MakeAssignment(*active_, active_->ledger()->Key(*session));
    }
  }
  return reply;
}

Assignment CoordinatorCore::MakeAssignment(const JobRecord& job, const SessionKey& session) const {
  Assignment assignment;
  *assignment.mutable_session() = session;
  *assignment.mutable_job() = job.plan.job;
  assignment.set_layout_hash(job.plan.layout_hash);
  assignment.set_max_stripe_bytes(job.plan.max_stripe_bytes);
  for (int shard = 0; shard < cluster_.ps_size(); ++shard) {
    assignment.add_shard_address(cluster_.ps(shard).address());
    assignment.add_shard_epoch(job.state().shard_epoch(static_cast<int>(shard)));
  }
  // The same for the whole session: a chain pushes again only in its first part.
  assignment.set_keep_pushes(job.plan.job.has_downpour() && IsDurable(job));
  assignment.set_train_fingerprint(job.state().train_fingerprint().value());
  assignment.set_test_fingerprint(job.state().test_fingerprint().value());
  return assignment;
}

absl::StatusOr<NextWorkReply> CoordinatorCore::NextWork(const NextWorkRequest& request,
                                                        Moment moment, OnWait on_wait) {
  JobRecord* const job = JobOfSession(request.session());
  if (IsOver(request.session())) {
    if (job != nullptr && request.has_stats()) {
      RecordStats(job, request.session(), request.stats(), moment.now);
    }
    NextWorkReply reply;
    reply.set_request(request.request());
    reply.mutable_finish();
    return reply;
  }
  if (job == nullptr || !job->ledger()->IsOpen(request.session())) {
    return SessionClosed(request.session());
  }
  if (request.has_stats()) {
    RecordStats(job, request.session(), request.stats(), moment.now);
    if (!job->ledger()->IsOpen(request.session())) {
      return SessionClosed(request.session());  // Other data than the others'.
    }
  }
  absl::StatusOr<NextWorkReply> reply =
      job->procedure()->NextWork(request.session().worker(), request, moment.now, on_wait);
  Advance(moment.now);
  return reply;
}

bool CoordinatorCore::WorkIsNear(const SessionKey& session) {
  const JobRecord* const job = JobOfSession(session);
  return job != nullptr && job->stage() == JOB_ACTIVE &&
         job->procedure()->WorkIsNear(session.worker());
}

absl::Status CoordinatorCore::ReportEvaluation(const ReportEvaluationRequest& request,
                                               Moment moment) {
  if (IsOver(request.session())) {
    return absl::OkStatus();
  }
  JobRecord* const job = JobOfSession(request.session());
  if (job == nullptr || !job->ledger()->IsOpen(request.session())) {
    return SessionClosed(request.session());
  }
  if (!std::isfinite(request.loss_sum())) {
    End(job, FAILED,
        absl::StrCat("diverged: ", Worker(request.session().worker()),
                     " finds a non-finite loss on the test set"),
        moment.now);
    job->AddEvent(moment.now, "diverged", Worker(request.session().worker()), job->reason());
  } else {
    RETURN_IF_ERROR(
        job->procedure()->ReportEvaluation(request.session().worker(), request, moment.now));
    CompareWithChance(job, request, moment.now);
  }
  Advance(moment.now);
  return absl::OkStatus();
}

void CoordinatorCore::CompareWithChance(JobRecord* job, const ReportEvaluationRequest& request,
                                        absl::Duration now) {
  const std::vector<TestResult> results = job->procedure()->test_results();
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(job->plan.job.model());
  if (results.empty() || !results.back().final || !layout.ok()) {
    return;
  }
  const std::string text =
      AtChance(results.back().accuracy, request.examples(), layout->output_units());
  const auto noted = [](const JobDescription::Event& event) { return event.kind() == kAtChance; };
  if (!text.empty() && !std::ranges::any_of(job->state().event(), noted)) {
    job->AddEvent(now, kAtChance, "", text);
    Log(absl::StrCat("job ", job->id(), ": ", text));
  }
}

absl::Status CoordinatorCore::ReportFailure(const ReportFailureRequest& request, Moment moment) {
  const SessionKey& session = request.session();
  if (IsOver(session)) {
    return absl::OkStatus();
  }
  JobRecord* const job = JobOfSession(session);
  if (job == nullptr) {
    return SessionClosed(session);
  }
  const std::string worker = Worker(session.worker());
  const std::string message = absl::StrContains(request.message(), worker)
                                  ? request.message()
                                  : absl::StrCat(worker, ": ", request.message());
  const auto prefixed = [&message](const char* prefix) {
    return absl::StartsWith(message, prefix) ? message : absl::StrCat(prefix, message);
  };
  Log(absl::StrCat("job ", job->id(), ": failure reported: ", message));
  switch (request.kind()) {
    case ReportFailureRequest::DIVERGED:
      job->AddEvent(moment.now, "diverged", worker, message);
      End(job, FAILED, prefixed("diverged: "), moment.now);
      break;
    case ReportFailureRequest::DATA:
      job->AddEvent(moment.now, "data_error", worker, message);
      End(job, FAILED, prefixed("data: "), moment.now);
      break;
    case ReportFailureRequest::JOB:
      job->AddEvent(moment.now, "job_error", worker, message);
      End(job, FAILED, message, moment.now);
      break;
    case ReportFailureRequest::OTHER_DATA:
    case ReportFailureRequest::UNFIT_DEVICE:
      Exclude(job, session.worker(), message, moment.now);
      break;
    default:
      job->Make([&](StateUpdate* update) {
        update->mutable_replica_failed()->set_worker(session.worker());
        update->mutable_replica_failed()->set_message(message);
      });
      if (FindWorker(job->state().failures(), session.worker())->failures() >=
          kMaxReplicaFailures) {
        job->Make([&](StateUpdate* update) {
          update->mutable_worker_excluded()->set_worker(session.worker());
        });
      }
      CloseSession(session.worker(), "worker_failed", message, moment.now);
      membership_.Expel(session.worker());
      break;
  }
  Advance(moment.now);
  return absl::OkStatus();
}

void CoordinatorCore::RecordStats(JobRecord* job, const SessionKey& session,
                                  const ReplicaStats& stats, absl::Duration now) {
  const uint32_t worker = session.worker();
  if (!CheckFingerprint(job, worker, /*train=*/true, stats.train_fingerprint(), now) ||
      !CheckFingerprint(job, worker, /*train=*/false, stats.test_fingerprint(), now)) {
    return;
  }
  const bool waited = !job->figures.totals.SumOf(worker).waits_for().empty();
  job->figures.totals.Record(worker, session.incarnation(), stats);
  if (!stats.waits_for().empty() && !waited) {
    TellOfWait(job, worker, stats.waits_for(), now);
  }
  job->figures.rate.Add(now, job->figures.totals.examples());
  const uint64_t examples = job->figures.totals.SumOf(worker).examples();
  job->figures.worker_rate[worker].Add(now, examples);
  job->procedure()->NoteSteps(job->figures.totals.steps());
}

void CoordinatorCore::TellOfWait(JobRecord* job, uint32_t worker, const std::string& why,
                                 absl::Duration now) {
  const auto [told, is_new] = job->figures.wait_told.try_emplace(worker, now);
  if (is_new || now - told->second >= kBetweenWaitEvents) {
    told->second = now;
    job->AddEvent(now, "worker_waits", Worker(worker), why);
    Log(absl::StrCat(Worker(worker), " waits for ", why));
  }
}

bool CoordinatorCore::CheckFingerprint(JobRecord* job, uint32_t worker, bool train, uint64_t value,
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
      "%s has other %s data (fingerprint %016x) than worker/%d (%016x)", Worker(worker),
      train ? "training" : "test", value, known().worker(), known().value());
  Log(message);
  Exclude(job, worker, message, now);
  return false;
}

void CoordinatorCore::Exclude(JobRecord* job, uint32_t worker, const std::string& why,
                              absl::Duration now) {
  job->Make([&](StateUpdate* update) {
    update->mutable_worker_excluded()->set_worker(worker);
    update->mutable_worker_excluded()->set_message(why);
  });
  CloseSession(worker, "worker_refused", why, now);
  membership_.Expel(worker);
}

void CoordinatorCore::CloseSession(uint32_t worker, const std::string& kind,
                                   const std::string& text, absl::Duration now) {
  if (active_ == nullptr) {
    return;
  }
  const DurableSession* const session = active_->ledger()->Find(worker);
  if (session == nullptr || session->state() == DurableSession::CLOSING) {
    return;
  }
  active_->AddEvent(now, kind, Worker(worker), text);
  const bool was_testing = active_->procedure()->phase() == JobProcedure::Phase::kFinalEvaluation &&
                           active_->procedure()->ReplicaState(worker) == "EVALUATING";
  active_->ledger()->Close(worker);
  active_->checkpoints.NoteWaiting(worker, /*waits=*/false, now);
  if (kind != "worker_left") {
    active_->lost_workers.insert(worker);
  }
  if (was_testing && kind == "worker_lost" && ++active_->lost_final_tests >= kMaxLostFinalTests) {
    End(active_, FAILED,
        absl::StrCat(
            active_->lost_final_tests,
            " workers were lost while they tested the final parameters; last: ", Worker(worker),
            ", ", text, "; `coordinator export ", active_->id(), "` gives the parameters"),
        now);
  }
}

void CoordinatorCore::TakeJobEvents(JobRecord* job, absl::Duration now) {
  for (JobProcedure::JobEvent& event : job->procedure()->TakeEvents()) {
    Log(absl::StrCat("job ", job->id(), " ", event.kind, ": ",
                     event.task.empty() ? "" : event.task + " ", event.text));
    job->AddEvent(now, std::move(event.kind), std::move(event.task), std::move(event.text));
  }
}

}  // namespace monsoon
