// ProcedureBase: what all procedures have alike: replicas and what each was told last, runs over
// the test set, events, and the way from the last such run to the end.
//
// A procedure adds what its replicas do: it takes their reports, decides what each does next,
// and goes on to later phases. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/job_procedure.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/job/test_results.h"
#include "coordinator/state/state_writer.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

class ProcedureBase : public JobProcedure {
 public:
  absl::StatusOr<NextWorkReply> NextWork(uint32_t worker, const NextWorkRequest& request,
                                         absl::Duration now, OnWait on_wait = OnWait::kTell) final;
  void Tick(absl::Duration now) final { Advance(now); }
  void TakeOver(const JobProcedure& before, absl::Duration now) final;
  uint64_t last_request(uint32_t worker) const final;

  Phase phase() const final { return static_cast<Phase>(procedure_.state().phase()); }
  std::optional<absl::Duration> started() const final { return procedure_.started(); }
  std::optional<absl::Duration> trained() const final { return procedure_.trained(); }
  const std::set<uint32_t>& replicas() const final { return replicas_.live(); }
  std::vector<TestResult> test_results() const final { return test_.records(); }
  bool WantsTestGeneration() const final { return test_.WantsGeneration(); }
  void UseTestGeneration(uint64_t generation, absl::Duration now) final {
    test_.UseGeneration(generation, AsOf(now));
  }
  void NoteHeldGeneration(uint64_t generation) final { test_.NoteHeld(generation); }
  std::string ReplicaState(uint32_t worker) const final;
  std::vector<JobEvent> TakeEvents() final;

 protected:
  // As TestResults.
  struct Tests {
    bool has_test = false;
    double every = 0;
    bool ends_job = true;
    TestMetric best = NO_TEST_METRIC;
  };
  // `writer`'s job has begun `procedure`.
  ProcedureBase(const JobWriter& writer, Procedure procedure, const Tests& tests);

  // A request that was not answered before: what it reports. An error changes nothing.
  virtual absl::Status TakeReport(uint32_t worker, const NextWorkRequest& request,
                                  absl::Duration now) = 0;
  virtual void Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) = 0;
  // Goes to later phases as far as the state allows.
  virtual void Advance(absl::Duration now) = 0;
  // The replica is at what it was given to do.
  virtual bool Works(uint32_t worker) const = 0;
  // In the unit of TestResult::step.
  virtual uint64_t steps_done() const = 0;

  // Of Advance, from the final evaluation on. `stay`: another procedure follows, for which
  // replicas stay; else they are told to finish.
  void AdvanceToEnd(bool stay, absl::Duration now);
  // As fraction(), of the examples that are planned or the time, whichever is further.
  double FractionOf(const Stop& stop, absl::Duration now) const;
  // What is done by now.
  TestResult AsOf(absl::Duration now) const {
    return {.step = steps_done(), .epoch = epoch(), .at = now - *started()};
  }
  void AddEvent(const std::string& kind, const std::string& task, const std::string& text) {
    events_.push_back({kind, task, text});
  }

  const JobWriter job_;
  const ProcedureWriter procedure_;
  TestResults test_;
  ReplicaSet replicas_;

 private:
  std::vector<JobEvent> events_;
};

}  // namespace monsoon
