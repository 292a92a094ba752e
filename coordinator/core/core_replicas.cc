// CoordinatorCore: what workers say.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
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

// A worker without a session learns by a heartbeat that a job has begun. So it beats as often
// as this, but all of them together no more than so many times a second.
constexpr uint32_t kIdleHeartbeatMs = 50;
constexpr uint32_t kIdleHeartbeatsPerSecond = 500;

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

// What the program's evaluation does not give though the job needs it; "": nothing.
std::string MissingMetric(const JobRecord& job, const ReportEvaluationRequest& request) {
  const bool counted = request.metric().empty() && request.examples() > 0;
  if (!job.joined() || request.vector_is_gone() || counted) {
    return "";
  }
  if (request.metric().empty()) {
    return "the program's evaluation gives no figure, as {\"loss\": 0.5} would be";
  }
  const auto has = [&request](absl::string_view name) {
    return std::ranges::any_of(request.metric(),
                               [name](const Metric& metric) { return metric.name() == name; });
  };
  const TestMetric best = job.plan.job.checkpoint().keep_best();
  const bool to_target = job.plan.job.stop().target_accuracy() > 0;
  const char* const needed = to_target || best == TEST_ACCURACY ? "accuracy" : "loss";
  std::string lacking;
  if ((to_target || best != NO_TEST_METRIC) && !has(needed)) {
    lacking = needed;
  } else if (best == TEST_LOSS && !has("loss")) {
    lacking = "loss";
  }
  const Stop& stop = job.plan.job.stop();
  const char* const watched = stop.early().metric() == TEST_ACCURACY ? "accuracy" : "loss";
  const bool early = lacking.empty() && stop.has_early() && !has(watched);
  if (early) {
    lacking = watched;
  }
  const Schedule& schedule = job.plan.job.downpour().optimizer().schedule();
  const char* const followed = schedule.plateau().by_accuracy() ? "accuracy" : "loss";
  const bool plateau = lacking.empty() && schedule.has_plateau() && !has(followed);
  if (plateau) {
    lacking = followed;
  }
  if (lacking.empty()) {
    return "";
  }
  const std::string given =
      absl::StrJoin(request.metric(), ", ", [](std::string* out, const Metric& metric) {
        absl::StrAppend(out, "\"", absl::CEscape(metric.name().substr(0, 64)), "\"");
      });
  return absl::StrCat(plateau                              ? "downpour.optimizer.schedule.plateau"
                      : early                              ? "stop.early"
                      : to_target && lacking == "accuracy" ? "stop.target_accuracy"
                                                           : "checkpoint.keep_best",
                      " needs \"", lacking, "\", and the program's evaluation gives only ", given);
}

absl::Status SessionClosed(const SessionKey& session) {
  return absl::FailedPreconditionError(
      absl::StrCat("session ", SessionName(session), " is not open: join again"));
}

}  // namespace

JobRecord* CoordinatorCore::JobOfSession(const SessionKey& session) const {
  const auto found = std::ranges::find_if(active_, [&session](const JobRecord* job) {
    return job->id() == session.job() && job->state().term() == session.job_term();
  });
  if (found == active_.end()) {
    return nullptr;
  }
  const DurableSession* const known = (*found)->ledger()->Find(session.worker());
  return known != nullptr && known->incarnation() == session.incarnation() ? *found : nullptr;
}

bool CoordinatorCore::IsOver(const SessionKey& session) const {
  const JobRecord* const job = jobs_.Lookup(session.job());
  return job != nullptr && job->state().term() == session.job_term() && job->stage() >= JOB_ENDING;
}

absl::StatusOr<HeartbeatReply> CoordinatorCore::Heartbeat(const HeartbeatRequest& request,
                                                          Moment moment) {
  HeartbeatReply reply;
  reply.set_heartbeat_ms(cluster_.heartbeat_ms());
  if (!TellOfEnd(request, &reply) && request.incarnation() == 0) {
    return reply;
  }
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
  if (const JobRecord* const job = JobOfWorker(worker);
      job != nullptr && job->stage() == JOB_ACTIVE) {
    const DurableSession* const session = job->ledger()->Find(worker);
    if (session->state() == DurableSession::OPEN) {
      *reply.mutable_assignment() = MakeAssignment(*job, job->ledger()->Key(*session));
      reply.set_replicas(static_cast<uint32_t>(std::ranges::count(
          job->state().session(), DurableSession::OPEN, &DurableSession::state)));
      reply.set_local_steps(job->figures.pace ? job->figures.pace->LocalSteps(worker) : 0u);
    }
  }
  if (!reply.has_assignment()) {
    reply.set_heartbeat_ms(IdleHeartbeatMs());
  }
  return reply;
}

uint32_t CoordinatorCore::IdleHeartbeatMs() const {
  const uint32_t shared = membership_.size() * 1000 / kIdleHeartbeatsPerSecond;
  return std::min(cluster_.heartbeat_ms(), std::max(kIdleHeartbeatMs, shared));
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
  const bool diverged = !std::isfinite(request.loss_sum()) ||
                        std::ranges::any_of(request.metric(), [](const Metric& metric) {
                          return metric.name() == "loss" && !std::isfinite(metric.value());
                        });
  const std::string missing = MissingMetric(*job, request);
  if (!missing.empty()) {
    End(job, FAILED, absl::StrCat(Worker(request.session().worker()), ": ", missing), moment.now);
  } else if (diverged) {
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
  if (results.empty() || !results.back().final || !results.back().has_accuracy() || !layout.ok()) {
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
  // Of a session that is being closed this may be the last word.
  if (job->figures.pace && job->ledger()->IsOpen(session)) {
    job->figures.pace->Note(worker, stats.step_compute_ms());
  }
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
  JobRecord* const job = JobOfWorker(worker);
  const DurableSession* const session = job == nullptr ? nullptr : job->ledger()->Find(worker);
  if (session == nullptr || session->state() == DurableSession::CLOSING) {
    return;
  }
  job->AddEvent(now, kind, Worker(worker), text);
  const bool was_testing = job->procedure()->phase() == JobProcedure::Phase::kFinalEvaluation &&
                           job->procedure()->ReplicaState(worker) == "EVALUATING";
  job->ledger()->Close(worker);
  job->checkpoints.NoteWaiting(worker, /*waits=*/false, now);
  if (job->figures.pace) {
    job->figures.pace->Forget(worker);
  }
  if (kind != "worker_left") {
    job->lost_workers.insert(worker);
  }
  if (was_testing && kind == "worker_lost" && ++job->lost_final_tests >= kMaxLostFinalTests) {
    End(job, FAILED,
        absl::StrCat(
            job->lost_final_tests,
            " workers were lost while they tested the final parameters; last: ", Worker(worker),
            ", ", text, "; `coordinator export ", job->id(), "` gives the parameters"),
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
