#include "coordinator/synchronous/synchronous_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "coordinator/job/plateau.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

// How long a replica with nothing to do waits before it asks again: others wait for it.
constexpr uint32_t kWaitMs = 10;
// Workers of a cluster that has just been started come one after another.
constexpr absl::Duration kGatherPatience = absl::Seconds(2);
constexpr absl::Duration kLongestPatience = absl::Minutes(10);

}  // namespace

SynchronousJob::SynchronousJob(const SynchronousOptions& options, const JobWriter& writer)
    : ProcedureBase(writer, SYNCHRONOUS,
                    {.has_test = options.has_test,
                     .every = options.evaluate_every_epochs,
                     .ends_job = true,
                     .best = options.keep_best}),
      options_(options),
      order_(options.examples, options.batch_size),
      end_(order_.EndOf(options.stop)),
      members_(writer),
      store_(writer, options.store_every),
      patience_(options.patience) {
  for (const uint32_t worker : replicas_.live()) {
    members_.Add(worker);
  }
}

// ---- replicas ----------------------------------------------------------------

void SynchronousJob::AddReplica(uint32_t worker, absl::Duration now) {
  replicas_.Add(worker);
  members_.Add(worker);
  if (phase() == Phase::kIdle) {
    test_.PassOver(epoch());
    procedure_.Started(ProcedureState::RUNNING, now);
    AddEvent("running", "", absl::StrCat(WorkerName(worker), " is there"));
    gather_until_ = now + kGatherPatience;
    store_.Begin(now);
  }
}

uint64_t SynchronousJob::RemoveReplica(uint32_t worker, absl::Duration now) {
  if (!replicas_.Remove(worker)) {
    return 0;
  }
  test_.Remove(worker);
  if (members_.InGroup(worker) && phase() <= Phase::kDraining) {
    const bool in_step = state().done().batches() < group().until_batches();
    NoteBroken(absl::StrCat(WorkerName(worker), " is gone"), in_step, now);
    breakage_->gone = true;
  }
  members_.Remove(worker);
  Advance(now);
  return 0;
}

absl::Status SynchronousJob::TakeReport(uint32_t worker, const NextWorkRequest& request,
                                        absl::Duration now) {
  if (!request.has_synchronous()) {
    return absl::OkStatus();  // the coordinator asks on its behalf
  }
  const SynchronousReport& report = request.synchronous();
  if (report.group() > group().generation() ||
      (report.group() == group().generation() && report.at().batches() > group().until_batches())) {
    return absl::InvalidArgumentError(
        absl::StrCat(WorkerName(worker), " tells of a group that there is not"));
  }
  if (!members_.Take(worker, report)) {
    return absl::OkStatus();
  }
  if (report.has_all_at()) {
    NoteDone(report.all_at());
  }
  if (!report.broken().empty()) {
    NoteBroken(report.has_missing()
                   ? absl::StrCat(WorkerName(report.missing()), " was missing: ", report.broken())
                   : report.broken(),
               /*in_step=*/true, now);
    breakage_->waited = std::max(breakage_->waited, absl::Milliseconds(report.waited_ms()));
  }
  if (AllStand() && report.has_at()) {
    NoteDone(report.at());
  }
  if (const std::string error = store_.Take(report, now); !error.empty()) {
    AddEvent("write_failed", WorkerName(worker), error);
  }
  return absl::OkStatus();
}

void SynchronousJob::NoteDone(const SynchronousPosition& done) {
  const SynchronousPosition& before = state().done();
  if (done.updates() < before.updates() || done.batches() < before.batches() ||
      done.batches() > group().until_batches() ||
      (done.updates() == before.updates() && done.batches() == before.batches())) {
    return;  // a late report
  }
  job_.Make([&](StateUpdate* update) {
    update->set_procedure(SYNCHRONOUS);
    *update->mutable_group_done() = done;
  });
}

void SynchronousJob::NoteBroken(const std::string& why, bool in_step, absl::Duration now) {
  if (breakage_) {
    return;  // others have told of it
  }
  breakage_ = Breakage{.since = now, .why = why};
  job_.Make([&](StateUpdate* update) {
    update->set_procedure(SYNCHRONOUS);
    update->mutable_group_broken()->set_in_step(in_step);
  });
}

// ---- groups ------------------------------------------------------------------

bool SynchronousJob::IsBroken() const { return breakage_ || members_.IsBroken(); }

bool SynchronousJob::AllStand() const {
  return !IsBroken() && !members_.IsChanging() && members_.AllRest();
}

bool SynchronousJob::MayForm(absl::Duration now) const {
  if (!members_.AllRest() || (!IsBroken() && !members_.IsChanging())) {
    return false;
  }
  if (group().generation() == 0 && members_.Present().size() < options_.workers &&
      now < gather_until_) {
    return false;
  }
  // Without a state of its own nobody begins before the shards have one.
  return store_.from().has_value() || members_.AnyHasState();
}

void SynchronousJob::Form(absl::Duration now) {
  SynchronousGroup next = members_.Next(store_.from().value_or(SynchronousPosition()));
  if (next.from().batches() < state().done().batches()) {
    AddEvent(
        "went_back", "",
        absl::StrCat("nobody is left who has update ", state().done().updates(),
                     ": all go on from update ", next.from().updates(), ", which the shards have"));
  }
  std::string why;
  if (breakage_) {
    const absl::Duration stood = now - breakage_->since + breakage_->waited;
    next.set_stood_ns(ToNanos(stood));
    why = absl::StrFormat(" (%s; nobody trained for %.2f s)", breakage_->why,
                          absl::ToDoubleSeconds(stood));
  }
  // Where nobody is gone, somebody is slow: a group that cannot wait for it breaks again and again.
  const bool slow = breakage_ && !breakage_->gone && breakage_->waited >= patience_;
  patience_ = slow ? std::min(patience_ * 2, kLongestPatience) : options_.patience;
  breakage_.reset();
  const bool again = group().generation() > 0;
  job_.Make([&](StateUpdate* update) {
    update->set_procedure(SYNCHRONOUS);
    *update->mutable_group_formed() = next;
  });
  store_.ForgetOrder();
  lengths_.Rest();
  AddEvent(again ? "regrouped" : "grouped", "",
           absl::StrCat(NamesOf(next), " take steps of ", members_.BatchesOfStep(),
                        " batches from update ", next.from().updates(), " on", why));
}

bool SynchronousJob::Train(uint32_t worker, absl::Duration now, NextWorkReply* reply) {
  if (MayForm(now)) {
    Form(now);
    Extend(now);
  }
  if (!members_.InGroup(worker) || IsBroken()) {
    return false;
  }
  // What one member has been told, all are: whoever is at a step waits for the others there.
  const bool told = members_.IsTold(worker);
  const bool writes = worker == group().member(0).worker() && store_.Wants(now);
  const bool more = told && !members_.IsChanging() && Extend(now);
  if (told && !more && !writes) {
    return false;
  }
  NextWorkReply::Synchronize* const order = reply->mutable_synchronize();
  order->set_write(writes ? store_.Order() : 0);
  order->set_patience_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(patience_)));
  members_.Tell(worker, order);
  return true;
}

// ---- leases ------------------------------------------------------------------

uint64_t SynchronousJob::Limit() const {
  if (state().stopped()) {
    return group().until_batches();
  }
  return end_.value_or(UINT64_MAX);
}

uint64_t SynchronousJob::LeaseEnd(uint64_t from, uint64_t steps) const {
  const uint64_t step = members_.BatchesOfStep();
  if (const std::optional<double> mark = test_.NextMark()) {
    // The test set is run at the first step's end that is no earlier than the mark.
    const uint64_t at = order_.BatchesOf(*mark);
    steps = std::min(steps, at > from ? (at - from + step - 1) / step : 0);
  }
  return std::min(from + steps * step, Limit());
}

bool SynchronousJob::Extend(absl::Duration now) {
  const uint64_t until = group().until_batches();
  if (phase() > Phase::kDraining || test_.pending() || until >= Limit()) {
    return false;
  }
  const uint64_t next =
      LeaseEnd(until, until == group().from().batches() ? lengths_.Begin(now) : lengths_.Next(now));
  if (next <= until) {
    return false;  // at a mark
  }
  job_.Make([&](StateUpdate* update) {
    update->set_procedure(SYNCHRONOUS);
    update->mutable_group_leased()->set_until_batches(next);
  });
  return true;
}

bool SynchronousJob::AtLimit() const { return state().done().batches() >= Limit() && AllStand(); }

// ---- the course --------------------------------------------------------------

void SynchronousJob::Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) {
  if (phase() >= Phase::kLeaving) {
    reply->mutable_finish();
    return;
  }
  // In between all stand at one step, whose parameters each member has.
  const bool may_test = phase() == Phase::kFinalEvaluation || AllStand();
  if (may_test) {
    if (const auto id = test_.Assign(worker, members_.Present())) {
      test_.GivenOut(AsOf(now));
      reply->mutable_evaluate()->set_evaluation(*id);
      reply->mutable_evaluate()->set_vector(test_.vector());
      return;
    }
  }
  if (phase() <= Phase::kDraining && Train(worker, now, reply)) {
    return;
  }
  reply->mutable_wait()->set_retry_ms(kWaitMs);
}

void SynchronousJob::Advance(absl::Duration now) {
  if (running()) {
    const double seconds = absl::ToDoubleSeconds(now - *started());
    if (options_.stop.seconds() > 0 && seconds >= options_.stop.seconds()) {
      Stop("time is over");
    } else if (AtLimit()) {
      Stop("all data is done");
    } else if (AllStand()) {
      test_.NoteProgress(epoch());
    }
  }
  store_.SetUrgent(phase() == Phase::kDraining || test_.WantsGeneration());
  store_.NoteNobodyHas(phase() <= Phase::kDraining && members_.AllRest() &&
                       !members_.AnyHasState());
  if (phase() == Phase::kDraining && AtLimit() && store_.has_all() && !test_.pending()) {
    procedure_.Trained(ProcedureState::FINAL_EVALUATION, now);
    test_.RequestFinal();
  }
  AdvanceToEnd(/*stay=*/false, now);
}

void SynchronousJob::Stop(const std::string& why) {
  if (!AtLimit()) {
    job_.Make([](StateUpdate* update) {
      update->set_procedure(SYNCHRONOUS);
      update->mutable_synchronous_stopped();
    });
  }
  test_.DropDue();
  procedure_.ChangePhase(ProcedureState::DRAINING);
  AddEvent("finishing", "", why);
}

absl::Status SynchronousJob::ReportEvaluation(uint32_t worker,
                                              const ReportEvaluationRequest& request,
                                              absl::Duration now) {
  ASSIGN_OR_RETURN(const TestResult* const record, test_.Report(worker, request));
  if (record == nullptr) {
    return absl::OkStatus();
  }
  AddEvent("evaluation", WorkerName(worker),
           absl::StrFormat("epoch %.2f: %s", record->epoch, record->Text()));
  if (running() && options_.stop.target_accuracy() > 0 &&
      record->accuracy >= options_.stop.target_accuracy()) {
    Stop("target accuracy reached");
  } else if (running() && options_.stop.has_early()) {
    const Plateau early = Plateau::From(options_.stop.early());
    if (CountPlateaus(early, test_.records()) > 0) {
      Stop(absl::StrCat(kStoppedEarly, early.Text()));
    }
  }
  lengths_.Rest();  // nobody took steps meanwhile
  Advance(now);
  return absl::OkStatus();
}

// ---- what people see ---------------------------------------------------------

bool SynchronousJob::Works(uint32_t worker) const {
  const NextWorkReply* const told = replicas_.last_reply(worker);
  return told != nullptr && told->has_synchronize();
}

double SynchronousJob::planned_epochs() const {
  if (options_.stop.epochs() > 0) {
    return options_.stop.epochs();
  }
  return end_ ? order_.EpochOf(*end_) : 0.0;
}

std::optional<uint64_t> SynchronousJob::planned_examples() const {
  return end_ ? std::optional(order_.ExamplesOf(*end_)) : std::nullopt;
}

double SynchronousJob::fraction(absl::Duration now) const { return FractionOf(options_.stop, now); }

void SynchronousJob::Describe(JobDescription* description) const {
  description->set_mode("synchronous");
  // Each batch that counts, once: a worker that is gone has computed others.
  description->mutable_progress()->set_step(state().done().batches());
  description->mutable_progress()->set_examples(examples_done());
  JobDescription::Synchronous* const told = description->mutable_synchronous();
  told->set_reduce(Synchronous::Reduce_Name(job_.job().plan().job().synchronous().reduce()));
  for (const NextWorkReply::GroupMember& member : group().member()) {
    told->add_member(member.worker());
  }
  told->set_group(group().generation());
  told->set_batches(static_cast<uint32_t>(members_.BatchesOfStep()));
  told->set_updates(state().done().updates());
  told->set_broken(state().broken());
  told->set_retaken(state().retaken());
  told->set_regrouping_s(absl::ToDoubleSeconds(FromNanos(state().stood_ns())));
  if (state().written() > 0) {
    told->set_stored(state().written_at().updates());
  }
}

void BeginSynchronous(const SynchronousOptions& options, JobRecord* job) {
  job->Make([&](StateUpdate* update) {
    update->set_procedure(SYNCHRONOUS);
    *update->mutable_procedure_begun()->mutable_position() = options.resumed;
  });
  ContinueSynchronous(options, job);
}

void ContinueSynchronous(const SynchronousOptions& options, JobRecord* job) {
  job->AddProcedure(std::make_unique<SynchronousJob>(options, job->writer()));
}

}  // namespace monsoon
