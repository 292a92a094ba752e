#include "coordinator/job/job_record.h"

#include <algorithm>
#include <utility>

#include "coordinator/state/add_figures.h"
#include "proto/downpour.pb.h"

namespace monsoon {

JobRecord::JobRecord(const JobWriter& writer)
    : plan(JobPlan::FromStored(writer.job().plan())),
      checkpoints(writer, plan.job.checkpoint(), static_cast<uint32_t>(plan.shard_bytes.size())),
      restores(plan.shard_bytes.size()),
      figures(plan.shard_bytes.size()),
      writer_(writer) {
  const Downpour& downpour = plan.job.downpour();
  if (downpour.local().dynamic() && downpour.local().steps() > 0) {
    figures.pace.emplace(downpour.local().steps());
  }
}

// ---- durable -----------------------------------------------------------------

std::optional<absl::Duration> JobRecord::ended() const {
  return state().has_ended_ns() ? std::optional(FromNanos(state().ended_ns())) : std::nullopt;
}

bool JobRecord::excluded(uint32_t worker) const {
  return std::ranges::binary_search(state().excluded(), worker);
}

std::optional<absl::Duration> JobRecord::started() const {
  return procedures_.empty() ? std::nullopt : procedures_.front()->started();
}

void JobRecord::ChangeStage(JobStage stage, absl::Duration now) {
  if (stage == JOB_QUEUED) {
    procedures_.clear();
    ledger_.reset();
    checkpoints.ForgetShards();
    restores.assign(restores.size(), SliceRestore());
    lost_workers.clear();
    leaving_generation = 0;
    if (figures.pace) {
      figures.pace->ForgetAll();
    }
  }
  Make([&](StateUpdate* update) {
    update->mutable_stage_changed()->set_stage(stage);
    update->mutable_stage_changed()->set_at_ns(ToNanos(now));
  });
}

void JobRecord::End(JobState state, const std::string& reason, absl::Duration now) {
  if (stage() == JOB_ENDING && end_state() == SUCCEEDED) {
    Make([&](StateUpdate* update) {
      update->mutable_reason_changed()->set_end_state(state);
      update->mutable_reason_changed()->set_reason(reason);
    });
  }
  if (stage() >= JOB_ENDING) {
    return;
  }
  Make([&](StateUpdate* update) {
    StageChanged* const change = update->mutable_stage_changed();
    change->set_stage(stage() == JOB_ACTIVE ? JOB_ENDING : JOB_ENDED);
    change->set_at_ns(ToNanos(now));
    change->set_end_state(state);
    change->set_reason(reason);
  });
}

void JobRecord::AddEvent(absl::Duration now, const std::string& kind, const std::string& task,
                         const std::string& text) {
  Make([&](StateUpdate* update) {
    JobDescription::Event* const event = update->mutable_event_added();
    event->set_elapsed_s(absl::ToDoubleSeconds(elapsed(now)));
    event->set_kind(kind);
    event->set_task(task);
    event->set_text(text);
  });
}

// ---- what works on it --------------------------------------------------------

void JobRecord::TakeData(JobPlan seen) {
  Make(
      [&](StateUpdate* update) { *update->mutable_data_seen()->mutable_plan() = seen.ToStored(); });
  plan = std::move(seen);
}

void JobRecord::TakeSettings(JobPlan changed, absl::Duration now) {
  Make([&](StateUpdate* update) {
    *update->mutable_settings_changed()->mutable_plan() = changed.ToStored();
    update->mutable_settings_changed()->set_at_ns(ToNanos(now));
  });
  plan = std::move(changed);
  if (figures.pace) {
    figures.pace->SetMost(std::max(1u, plan.job.downpour().local().steps()));
  }
}

void JobRecord::BeginSessions() {
  ledger_ =
      std::make_unique<SessionLedger>(writer_, static_cast<uint32_t>(plan.shard_bytes.size()));
}

void JobRecord::KeepReported(uint32_t worker) {
  const DurableSession* const session = ledger_->Find(worker);
  if (session == nullptr) {
    return;
  }
  const ReplicaStats stats = figures.totals.Of(worker, session->incarnation());
  if (AllTotals(stats) <= AllTotals(session->reported())) {
    return;
  }
  Make([&](StateUpdate* update) {
    update->mutable_session_reported()->set_worker(worker);
    *update->mutable_session_reported()->mutable_stats() = stats;
  });
}

void JobRecord::CloseSession(uint32_t worker) {
  KeepReported(worker);
  ledger_->Close(worker);
}

void JobRecord::CloseSessions() {
  std::vector<uint32_t> workers;
  for (const DurableSession& session : state().session()) {
    workers.push_back(session.worker());
  }
  for (const uint32_t worker : workers) {
    CloseSession(worker);
  }
}

JobState JobRecord::job_state() const {
  switch (stage()) {
    case JOB_QUEUED:
    case JOB_CREATING:
      return PENDING;
    case JOB_READY:
      return waits_for_client() && (!written_by_program() || initial_writer.is_there) ? INITIALIZING
                                                                                      : PENDING;
    case JOB_ACTIVE:
      if (joined() && procedure()->replicas().empty() &&
          procedure()->phase() < JobProcedure::Phase::kLeaving) {
        return PENDING;
      }
      [[fallthrough]];
    case JOB_ENDING:
      switch (procedure()->phase()) {
        case JobProcedure::Phase::kIdle:
          return PENDING;
        case JobProcedure::Phase::kWarmstart:
          return WARMSTART;
        case JobProcedure::Phase::kRunning:
          return RUNNING;
        case JobProcedure::Phase::kDraining:
        case JobProcedure::Phase::kFinalEvaluation:
        case JobProcedure::Phase::kLeaving:
        case JobProcedure::Phase::kDone:
          return hands_over() ? RUNNING : FINISHING;
      }
      break;
    default:
      return end_state();
  }
  return JOB_STATE_UNSPECIFIED;
}

absl::Duration JobRecord::elapsed(absl::Duration now) const {
  const std::optional<absl::Duration> began = started();
  return began ? ended().value_or(now) - *began : absl::ZeroDuration();
}

double JobRecord::fraction(absl::Duration now) const {
  if (procedure() == nullptr) {
    return 0.0;
  }
  // Each part of a chain counts alike.
  const auto before = static_cast<double>(procedures_.size() - 1);
  const double fraction = procedure()->fraction(ended().value_or(now));
  return (before + fraction) / static_cast<double>(plan.procedures().size());
}

Job JobOfGeneration(const JobRecord& job) {
  const Job& kept = job.checkpoints.state().context().job();
  if (!kept.name().empty()) {
    return kept;  // its settings have changed since it was ordered
  }
  Job made = job.plan.job;
  made.MergeFrom(kept);
  return made;
}

}  // namespace monsoon
