// The fixture of the tests of batch jobs on shards that keep state.
#pragma once

#include "absl/strings/str_cat.h"
#include "coordinator/core/core_checkpoints_fixture.h"

namespace monsoon::testing {

// Of minimisers there is what they say: iteration N knows the vectors gN, dN, sN and yN.
class CoreBatchTest : public CoreCheckpointsTest {
 protected:
  CoreBatchTest() { h_.KeepState(); }

  JobPlan BatchPlan(bool chain = false) {
    JobPlan plan = h_.Plan(1);
    if (!chain) {
      plan.job.clear_downpour();
      plan.job.clear_stop();
    }
    plan.job.mutable_sandblaster()->set_chunk_examples(10);
    plan.job.mutable_sandblaster()->set_chunks_per_contribution(1);
    return plan;
  }
  // Its first generation is held, if the disks take it.
  void StartBatch() {
    Start(BatchPlan());
    Pass(1);
  }
  // Of a chain, until its replicas have nothing to do but to send again what is asked for.
  void TrainFirstPart() {
    for (int i = 0; i < 20; ++i) {
      const absl::StatusOr<NextWorkReply> reply = h_.Ask(0);
      ASSERT_OK(reply);
      if (reply->has_flush() && h_.Describe().data().blocks_done() == 4) {
        ASSERT_OK_AND_ASSIGN(const NextWorkReply next, h_.Ask(0));
        EXPECT_TRUE(next.has_wait()) << "it would ask without end";
        h_.core().Tick(h_.now());
        return h_.Settle();
      }
    }
    ADD_FAILURE() << "its first part does not end";
  }
  static MinimizerState StateAt(uint32_t number) {
    MinimizerState state;
    state.set_iterations(number);
    state.set_g(absl::StrCat("g", number));
    state.mutable_along()->set_d(absl::StrCat("d", number));
    CurvaturePair* const pair = state.add_pair();
    pair->set_s(absl::StrCat("s", number));
    pair->set_y(absl::StrCat("y", number));
    return state;
  }
  absl::StatusOr<bool> Note(uint32_t number) {
    JobDescription::Iteration iteration;
    iteration.set_iteration(number);
    iteration.set_f(1.0 / (1 + number));
    return h_.core().batches().NoteIteration(
        kBatch, iteration, BatchFigures(), [number] { return StateAt(number); }, h_.now());
  }
  void Iterate(uint32_t number) { ASSERT_OK(Note(number)); }
  // The minimiser's thread ends.
  void EndBatch() { h_.core().EndBatch(kBatch, BatchEnd{"converged", "F 1"}, h_.now()); }
  // The replica hears that all is done.
  void Finish() {
    for (int i = 0; i < 5; ++i) {
      const absl::StatusOr<NextWorkReply> reply = h_.Ask(0);
      ASSERT_OK(reply);
      if (reply->has_finish()) {
        break;
      }
    }
    Pass(1);
  }

  BatchKey kBatch{"j-1"};
};

}  // namespace monsoon::testing
