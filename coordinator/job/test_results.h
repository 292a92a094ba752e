// TestResults: the runs of one job over its test set: when one is due, which
// replica does it (TestSchedule), and what came out.
//
// A pure state machine over the job's durable state. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/transport/frame/protocol.h"
#include "coordinator/job/test_schedule.h"
#include "coordinator/state/state_writer.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

struct TestResult {
  uint64_t step = 0;  // when it was given out, as all that follows
  double epoch = 0;
  absl::Duration at;    // since training began
  double loss = 0;      // mean per sample
  double accuracy = 0;  // in [0, 1]
  // All that was found, by name, where that is not loss and accuracy alone: these are 0 where
  // they are not among it.
  std::vector<std::pair<std::string, double>> metrics;
  bool final = false;
  uint64_t generation = 0;  // that was tested; 0: the parameters of the moment

  bool has_loss() const { return Has("loss"); }
  bool has_accuracy() const { return Has("accuracy"); }
  // "accuracy 0.9000, loss 0.5000", or the metrics, for people.
  std::string Text() const;
  // Without metrics it has loss and accuracy.
  bool Has(absl::string_view name) const;
};

class TestResults {
 public:
  // Without a test set nothing is ever due. `every` is in the unit of
  // NoteProgress (epochs or iterations); 0: only the last run, which is
  // the job's final one if `ends_job`. `best`: each run is of a generation, and the best
  // of these is kept; NO_TEST_METRIC: not so.
  TestResults(bool has_test, double every, bool ends_job, TestMetric best,
              const ProcedureWriter& writer)
      : has_test_(has_test),
        ends_job_(ends_job),
        best_(best),
        writer_(writer),
        schedule_(has_test ? every : 0, has_test && best != NO_TEST_METRIC, writer) {}

  void NoteProgress(double progress) { schedule_.NoteProgress(progress); }
  // So far an earlier job has come, with its runs.
  void PassOver(double progress) { schedule_.PassOver(progress); }
  // Training ended: drops what is due, and the last run comes, after
  // the one that a replica is at.
  void DropDue() { schedule_.DropDue(); }
  void RequestFinal();
  // A run is due, or a replica is at it.
  bool pending() const { return !schedule_.idle(); }
  // The progress at which the next one becomes due; nothing: at none.
  std::optional<double> NextMark() const { return schedule_.NextMark(); }
  // Nothing is left to wait for after RequestFinal.
  bool finished() const { return has_test_ ? schedule_.final_done() : schedule_.idle(); }

  // A generation is to be ordered, with its parameters kept as kTestedVector.
  bool WantsGeneration() const { return schedule_.WantsGeneration(); }
  // It was, with what is done by now.
  void UseGeneration(uint64_t generation, TestResult when);
  // The newest that is held.
  void NoteHeld(uint64_t generation) { schedule_.NoteHeld(generation); }
  // "": the parameters are to be tested.
  const char* vector() const { return schedule_.generation() == 0 ? "" : kTestedVector; }

  // The run that `worker`, one of `live`, has to do now, if it has one.
  std::optional<uint64_t> Assign(uint32_t worker, const std::set<uint32_t>& live);
  // `worker` is told to do its assignment, with the parameters of `when`. Only
  // the first call for an assignment counts. `final` is filled in here.
  void GivenOut(TestResult when);
  std::optional<uint32_t> assigned_worker() const { return schedule_.assigned_worker(); }
  // `worker` is gone; its run is due again.
  void Remove(uint32_t worker) { schedule_.Remove(worker); }

  // The record of a new result, valid until the next call; nullptr for one that
  // is known already or was replaced, or could not be made. INVALID_ARGUMENT for counts or metrics
  // that cannot be, FAILED_PRECONDITION for a run that another replica has by now.
  absl::StatusOr<const TestResult*> Report(uint32_t worker, const ReportEvaluationRequest& request);
  std::vector<TestResult> records() const;

 private:
  void GiveOut(uint64_t id, const TestResult& when);
  // Keeps it, if no earlier one did better.
  void Compare(const TestResult& result);

  const bool has_test_;
  const bool ends_job_;
  const TestMetric best_;
  const ProcedureWriter writer_;
  TestSchedule schedule_;
  TestResult newest_;  // that Report gives
};

}  // namespace monsoon
