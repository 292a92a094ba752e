// TestEvaluations: the evaluations of one job on its test set: when one is due,
// which replica does it (EvaluationSchedule), and what came out.
//
// A pure state machine. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/procedure/evaluation_schedule.h"
#include "proto/coordinator.pb.h"

namespace monsoon {

struct EvaluationRecord {
  uint64_t step = 0;  // when it was given out, as all that follows
  double epoch = 0;
  absl::Duration at;    // since training began
  double loss = 0;      // mean per sample
  double accuracy = 0;  // in [0, 1]
  bool final = false;
};

class TestEvaluations {
 public:
  // Without a test set nothing is ever due. `every` is in the unit of
  // NoteProgress (epochs or iterations); 0: only the last evaluation, which is
  // the job's final one if `ends_job`.
  TestEvaluations(bool has_test, double every, bool ends_job)
      : has_test_(has_test), ends_job_(ends_job), schedule_(has_test ? every : 0) {}

  void NoteProgress(double progress) { schedule_.NoteProgress(progress); }
  // Training ended: drops what is due, and the last evaluation comes, after
  // the one that a replica is at.
  void DropDue() { schedule_.DropDue(); }
  void RequestFinal();
  // Nothing is left to wait for after RequestFinal.
  bool finished() const { return has_test_ ? schedule_.final_done() : schedule_.idle(); }

  // The evaluation that `worker`, one of `live`, has to do now, if it has one.
  std::optional<uint64_t> Assign(uint32_t worker, const std::set<uint32_t>& live);
  // `worker` is told to do its assignment, with the parameters of `when`. Only
  // the first call for an assignment counts. `final` is filled in here.
  void GivenOut(EvaluationRecord when);
  std::optional<uint32_t> assigned_worker() const { return schedule_.assigned_worker(); }
  // `worker` is gone; its evaluation is due again.
  void Remove(uint32_t worker) { schedule_.Remove(worker); }

  // The record of a new result, valid until the next call; nullptr for one that
  // is known already or was replaced. INVALID_ARGUMENT for counts that cannot
  // be, FAILED_PRECONDITION for an evaluation that another replica has by now.
  absl::StatusOr<const EvaluationRecord*> Report(uint32_t worker,
                                                 const ReportEvaluationRequest& request);
  const std::vector<EvaluationRecord>& records() const { return records_; }

 private:
  const bool has_test_;
  const bool ends_job_;
  EvaluationSchedule schedule_;
  uint64_t given_out_id_ = 0;
  EvaluationRecord given_out_;
  std::vector<EvaluationRecord> records_;
};

}  // namespace monsoon
