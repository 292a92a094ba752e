#include "coordinator/job/procedure_base.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace monsoon {

ProcedureBase::ProcedureBase(const JobWriter& writer, Procedure procedure, const Tests& tests)
    : job_(writer),
      procedure_(writer, procedure),
      test_(tests.has_test, tests.every, tests.ends_job, tests.best, procedure_),
      replicas_(procedure_) {}

absl::StatusOr<NextWorkReply> ProcedureBase::NextWork(uint32_t worker,
                                                      const NextWorkRequest& request,
                                                      absl::Duration now, OnWait on_wait) {
  ASSIGN_OR_RETURN(const std::optional<NextWorkReply> known,
                   replicas_.KnownReply(worker, request.request()));
  if (known) {
    return *known;
  }
  RETURN_IF_ERROR(TakeReport(worker, request, now));
  // What was reported may end a phase, which decides what the replica does next; what it is
  // told now may end the next one.
  Advance(now);
  NextWorkReply reply;
  reply.set_request(request.request());
  Decide(worker, now, &reply);
  if (!reply.has_wait() || on_wait == OnWait::kTell) {
    replicas_.Replied(worker, reply);
  }
  Advance(now);
  return reply;
}

void ProcedureBase::TakeOver(const JobProcedure& before, absl::Duration now) {
  for (const uint32_t worker : before.replicas()) {
    AddReplica(worker, now);
    if (const uint64_t number = before.last_request(worker); number > 0) {
      NextWorkReply reply;
      reply.set_request(number);
      reply.mutable_wait();
      replicas_.Replied(worker, reply);
    }
  }
}

uint64_t ProcedureBase::last_request(uint32_t worker) const {
  const NextWorkReply* const last = replicas_.last_reply(worker);
  return last == nullptr ? 0 : last->request();
}

void ProcedureBase::AdvanceToEnd(bool stay, absl::Duration now) {
  if (phase() == Phase::kFinalEvaluation && test_.finished()) {
    procedure_.ChangePhase(stay ? ProcedureState::DONE : ProcedureState::LEAVING);
    replicas_.BeginLeaving(now);
  }
  if (phase() == Phase::kLeaving && replicas_.Gone(now)) {
    procedure_.ChangePhase(ProcedureState::DONE);
  }
}

std::string ProcedureBase::ReplicaState(uint32_t worker) const {
  if (!replicas_.contains(worker)) {
    return "WAITING";
  }
  if (replicas_.left(worker) || phase() == Phase::kDone) {
    return "DONE";
  }
  if (test_.assigned_worker() == worker) {
    return "EVALUATING";
  }
  return Works(worker) ? "RUNNING" : "WAITING";
}

std::vector<ProcedureBase::JobEvent> ProcedureBase::TakeEvents() {
  return std::exchange(events_, {});
}

double ProcedureBase::FractionOf(const Stop& stop, absl::Duration now) const {
  if (phase() > Phase::kDraining) {
    return 1.0;
  }
  double fraction = 0.0;
  if (const std::optional<uint64_t> examples = planned_examples()) {
    fraction = static_cast<double>(examples_done()) /
               static_cast<double>(std::max<uint64_t>(*examples, 1));
  }
  if (stop.seconds() > 0 && started()) {
    fraction = std::max(fraction, absl::ToDoubleSeconds(now - *started()) / stop.seconds());
  }
  return std::min(fraction, 1.0);
}

}  // namespace monsoon
