// How the coordinator's parts change its durable state: each makes updates, and the
// writer applies them and hands them on to whoever keeps them.
//
// Not thread safe; the coordinator's lock guards it with the state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "coordinator/state/coordinator_state.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

class StateWriter {
 public:
  using Observer = std::function<void(const StateUpdate&)>;

  // `observer`, if any, gets each update after it was applied, in order. `state`: that of
  // an earlier life.
  explicit StateWriter(Observer observer = nullptr, CoordinatorState state = CoordinatorState())
      : observer_(std::move(observer)), state_(std::move(state)) {}
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  // CHECKs that it fits: an update that does not is a bug of its maker.
  void Apply(const StateUpdate& update);

  const CoordinatorState& state() const { return state_; }

 private:
  const Observer observer_;
  CoordinatorState state_;
};

// One job's part of it. A value that refers to the writer, which outlives it.
class JobWriter {
 public:
  // The job is there, and stays as long as this is used.
  JobWriter(StateWriter* writer, const std::string& job);

  const DurableJob& job() const { return *job_; }
  const std::string& id() const { return job_->id(); }
  // Fills in the job.
  void Apply(StateUpdate update) const;
  // An update without content, filled in by `fill`.
  template <typename Fill>
  void Make(Fill fill) const {
    StateUpdate update;
    fill(&update);
    Apply(std::move(update));
  }

 private:
  StateWriter* writer_;
  const DurableJob* job_;
};

// One procedure's part of a job.
class ProcedureWriter {
 public:
  ProcedureWriter(const JobWriter& job, Procedure procedure) : job_(job), procedure_(procedure) {}

  const DurableJob& job() const { return job_.job(); }
  const JobWriter& job_writer() const { return job_; }
  // It has begun.
  const ProcedureState& state() const;
  std::optional<absl::Duration> started() const;
  std::optional<absl::Duration> trained() const;

  void ChangePhase(ProcedureState::Phase phase) const;
  // The same, at the time when training began, or ended.
  void Started(ProcedureState::Phase phase, absl::Duration now) const;
  void Trained(ProcedureState::Phase phase, absl::Duration now) const;
  // Fills in job and procedure.
  template <typename Fill>
  void Make(Fill fill) const {
    job_.Make([&](StateUpdate* update) {
      update->set_procedure(procedure_);
      fill(update);
    });
  }

 private:
  JobWriter job_;
  Procedure procedure_;
};

// Times are stored in nanoseconds.
inline int64_t ToNanos(absl::Duration time) { return absl::ToInt64Nanoseconds(time); }
inline absl::Duration FromNanos(int64_t nanos) { return absl::Nanoseconds(nanos); }

}  // namespace monsoon
