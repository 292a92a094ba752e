#include "coordinator/state/state_writer.h"

#include "common/base/check.h"

namespace monsoon {

void StateWriter::Apply(const StateUpdate& update) {
  CHECK_OK(state_.Apply(update));
  if (observer_) {
    observer_(update);
  }
}

JobWriter::JobWriter(StateWriter* writer, const std::string& job)
    : writer_(writer), job_(writer->state().FindJob(job)) {
  CHECK(job_ != nullptr);
}

void JobWriter::Apply(StateUpdate update) const {
  update.set_job(id());
  writer_->Apply(update);
}

const ProcedureState& ProcedureWriter::state() const {
  switch (procedure_) {
    case SANDBLASTER:
      return job().sandblaster().procedure();
    case SYNCHRONOUS:
      return job().synchronous().procedure();
    default:
      return job().downpour().procedure();
  }
}

std::optional<absl::Duration> ProcedureWriter::started() const {
  return state().has_started_ns() ? std::optional(FromNanos(state().started_ns())) : std::nullopt;
}

std::optional<absl::Duration> ProcedureWriter::trained() const {
  return state().has_trained_ns() ? std::optional(FromNanos(state().trained_ns())) : std::nullopt;
}

void ProcedureWriter::ChangePhase(ProcedureState::Phase phase) const {
  Make([&](StateUpdate* update) { update->mutable_phase_changed()->set_phase(phase); });
}

void ProcedureWriter::Started(ProcedureState::Phase phase, absl::Duration now) const {
  Make([&](StateUpdate* update) {
    update->mutable_phase_changed()->set_phase(phase);
    update->mutable_phase_changed()->set_started_ns(ToNanos(now));
  });
}

void ProcedureWriter::Trained(ProcedureState::Phase phase, absl::Duration now) const {
  Make([&](StateUpdate* update) {
    update->mutable_phase_changed()->set_phase(phase);
    update->mutable_phase_changed()->set_trained_ns(ToNanos(now));
  });
}

}  // namespace monsoon
