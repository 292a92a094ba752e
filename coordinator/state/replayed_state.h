// ReplayedState: a durable state for tests that keeps all updates and, at its end,
// demands that their replay gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "coordinator/state/state_writer.h"
#include "gtest/gtest.h"

namespace monsoon::testing {

// Fails the test unless `updates`, each parsed from its bytes, make `state`.
inline void ExpectReplay(const std::vector<StateUpdate>& updates, const CoordinatorState& state) {
  CoordinatorState replayed;
  for (const StateUpdate& update : updates) {
    StateUpdate parsed;
    ASSERT_TRUE(parsed.ParseFromString(update.SerializeAsString()));
    const absl::Status status = replayed.Apply(parsed);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(replayed.Serialize(), state.Serialize());
}

class ReplayedState {
 public:
  ReplayedState() : writer_([this](const StateUpdate& update) { updates_.push_back(update); }) {}
  ~ReplayedState() { ExpectReplay(updates_, writer_.state()); }

  StateWriter* writer() { return &writer_; }
  const std::vector<StateUpdate>& updates() const { return updates_; }

  // A job with that id, NAME-N, for parts of a job that are tested alone.
  JobWriter Job(const std::string& id = "j-1") {
    if (writer_.state().FindJob(id) == nullptr) {
      StateUpdate update;
      update.set_job(id);
      update.mutable_job_submitted()->set_number(writer_.state().snapshot().jobs_counted() + 1);
      writer_.Apply(update);
    }
    return JobWriter(&writer_, id);
  }
  // A job whose `procedure` has begun.
  ProcedureWriter Begun(Procedure procedure = DOWNPOUR) {
    const JobWriter job = Job();
    StateUpdate update;
    update.set_procedure(procedure);
    update.mutable_procedure_begun();
    job.Apply(update);
    return ProcedureWriter(job, procedure);
  }

 private:
  std::vector<StateUpdate> updates_;
  StateWriter writer_;
};

}  // namespace monsoon::testing
