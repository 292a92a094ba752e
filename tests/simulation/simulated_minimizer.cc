#include "tests/simulation/simulated_minimizer.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/sandblaster/batch_control.h"
#include "coordinator/sandblaster/batch_drive.h"
#include "coordinator/sandblaster/vector_shards.h"
#include "proto/parameter_server.pb.h"
#include "tests/simulation/parked_call.h"
#include "tests/simulation/simulated_coordinator.h"
#include "tests/simulation/simulated_ps.h"

namespace monsoon::simulation {
namespace {

constexpr absl::Duration kVectorDeadline = absl::Milliseconds(600);

class Minimizer : public BatchSeat {
 public:
  Minimizer(World* world, SimulatedCoordinator* coordinator)
      : world_(world), coordinator_(coordinator), life_(&coordinator->process) {}

  // One batch after the other, until this life is over.
  void Run() {
    while (!life_.over()) {
      std::optional<BatchTask> task = coordinator_->core().TakeBatch();
      if (!task.has_value()) {
        Wait();
        continue;
      }
      batch_ = task->batch;
      const uint64_t ticket = coordinator_->ticket();
      while (!life_.over() && !coordinator_->IsCommitted(ticket)) {
        Wait();
      }
      const absl::StatusOr<BatchEnd> end = DriveBatch(*task, Calls(), this);
      world_->Trace(absl::StrCat("minimiser of attempt ", batch_.attempt,
                                 " ends: ", end.ok() ? end->reason : end.status().ToString()));
      if (!life_.over()) {
        coordinator_->WithCore([&](CoordinatorCore& core, Moment now) {
          core.EndBatch(batch_, end, now);
          return true;
        });
      }
    }
  }

  bool Runs() override { return !life_.over() && coordinator_->core().batches().Runs(batch_); }

  absl::StatusOr<BatchResult> Evaluate(uint64_t evaluation, const std::string& w,
                                       bool probe) override {
    if (life_.over()) {
      return Stopped();
    }
    RETURN_IF_ERROR(coordinator_->WithCore([&](CoordinatorCore& core, Moment now) {
      return core.batches().StartEvaluation(batch_, evaluation, w, probe, now);
    }));
    while (!life_.over()) {
      ASSIGN_OR_RETURN(const std::optional<BatchResult> result,
                       coordinator_->core().batches().FinishedEvaluation(batch_));
      if (result.has_value()) {
        return *result;
      }
      Wait();
    }
    return Stopped();
  }

  absl::StatusOr<bool> NoteIteration(const JobDescription::Iteration& iteration,
                                     const BatchFigures& figures,
                                     const MinimizerStateFunction& state) override {
    if (life_.over()) {
      return Stopped();
    }
    world_->Trace(absl::StrCat("iteration ", iteration.iteration(), ": F ", iteration.f()));
    return coordinator_->WithCore([&](CoordinatorCore& core, Moment now) {
      return core.batches().NoteIteration(batch_, iteration, figures, state, now);
    });
  }

  void AwaitCheckpoint() override {
    while (!life_.over() && coordinator_->core().batches().Waits(batch_)) {
      Wait();
    }
  }

 private:
  static absl::Status Stopped() { return absl::CancelledError("the coordinator is dead"); }
  void Wait() { world_->threads.Park(coordinator_, kLookForDeath); }
  std::vector<VectorShards::Call> Calls() {
    std::vector<VectorShards::Call> calls;
    for (SimulatedPs* const ps : world_->ps) {
      calls.push_back([this, ps](const VectorRequest& request) {
        return ParkedCall<VectorReply>(world_, &coordinator_->process, life_, &ps->process,
                                       kVectorDeadline,
                                       [ps, request](auto reply) { reply(ps->Vector(request)); });
      });
    }
    return calls;
  }

  World* const world_;
  SimulatedCoordinator* const coordinator_;
  const ProcessLife life_;
  BatchKey batch_;
};

}  // namespace

void StartMinimizer(World* world, SimulatedCoordinator* coordinator) {
  const auto minimizer = std::make_shared<Minimizer>(world, coordinator);
  world->threads.StartIn(&coordinator->process, [minimizer] { minimizer->Run(); });
}

}  // namespace monsoon::simulation
