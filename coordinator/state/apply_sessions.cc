#include <algorithm>

#include "coordinator/state/add_figures.h"
#include "coordinator/state/apply.h"
#include "coordinator/state/sorted_list.h"

namespace monsoon::internal {
namespace {

absl::Status ChangeSession(const DurableSession& change, DurableJob* job) {
  const DurableSession* const known = FindWorker(job->session(), change.worker());
  const bool opens = change.state() == DurableSession::OPENING;
  if (opens != (known == nullptr)) {
    return absl::FailedPreconditionError(opens ? "the worker has a session already"
                                               : "the worker has no session");
  }
  if (known != nullptr &&
      (known->incarnation() != change.incarnation() || change.state() <= known->state() ||
       known->member().identity() != change.member().identity() ||
       known->member().key() != change.member().key())) {
    return absl::FailedPreconditionError("not what follows for this session");
  }
  *TakeWorker(job->mutable_session(), change.worker()) = change;
  return absl::OkStatus();
}

absl::Status NoteReported(const WorkerFigures& figures, DurableJob* job) {
  if (FindWorker(job->session(), figures.worker()) == nullptr) {
    return absl::FailedPreconditionError("the worker has no session");
  }
  *TakeWorker(job->mutable_session(), figures.worker())->mutable_reported() = figures.stats();
  return absl::OkStatus();
}

// Rising, each once.
void AddExcluded(uint32_t worker, DurableJob* job) {
  auto* const list = job->mutable_excluded();
  const auto place = std::ranges::lower_bound(*list, worker);
  if (place == list->end() || *place != worker) {
    const auto index = place - list->begin();
    list->Add(worker);
    std::rotate(list->begin() + index, list->end() - 1, list->end());
  }
}

}  // namespace

absl::Status ApplyToSessions(const StateUpdate& update, DurableJob* job) {
  switch (update.change_case()) {
    case StateUpdate::kSessionChanged:
      return ChangeSession(update.session_changed(), job);
    case StateUpdate::kSessionRemoved:
      return RemoveWorker(job->mutable_session(), update.session_removed().worker())
                 ? absl::OkStatus()
                 : absl::FailedPreconditionError("the worker has no session");
    case StateUpdate::kSessionCounted:
      AddFigures(
          update.session_counted().stats(),
          TakeWorker(job->mutable_closed(), update.session_counted().worker())->mutable_stats());
      return absl::OkStatus();
    case StateUpdate::kSessionReported:
      return NoteReported(update.session_reported(), job);
    case StateUpdate::kReplicaFailed: {
      ReplicaFailures* const failures =
          TakeWorker(job->mutable_failures(), update.replica_failed().worker());
      failures->set_failures(failures->failures() + 1);
      job->set_last_failure(update.replica_failed().message());
      return absl::OkStatus();
    }
    case StateUpdate::kWorkerExcluded:
      AddExcluded(update.worker_excluded().worker(), job);
      if (!update.worker_excluded().message().empty()) {
        job->set_last_failure(update.worker_excluded().message());
      }
      return absl::OkStatus();
    case StateUpdate::kTrainFingerprint:
      *job->mutable_train_fingerprint() = update.train_fingerprint();
      return absl::OkStatus();
    case StateUpdate::kTestFingerprint:
      *job->mutable_test_fingerprint() = update.test_fingerprint();
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("not of a job's sessions");
  }
}

}  // namespace monsoon::internal
