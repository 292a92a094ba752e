// The fixture of the tests of checkpoints: a core whose shards may keep state.
#pragma once

#include <string>

#include "coordinator/core/core_harness.h"

namespace monsoon::testing {

// Two shards, and a job of worker/0.
class CoreCheckpointsTest : public ::testing::Test {
 protected:
  void Start(const JobPlan& plan) {
    h_.Submit(plan);
    h_.Poll();
    h_.Settle();
    h_.Join(0);
    ASSERT_EQ(h_.State(), RUNNING);
  }
  void Start(double epochs = 2) { Start(h_.Plan(epochs)); }
  void Pass(double seconds) { h_.Pass(absl::Seconds(seconds), {0}); }
  // Pushes, on both shards.
  void Push(uint64_t pushes = 1) {
    h_.shard(0).version += pushes;
    h_.shard(1).version += pushes;
  }
  // The replica has finished, so that the job ends as SUCCEEDED. What it has pushed is on
  // the disks that take it, and no poll has told so yet.
  void Train() {
    h_.TrainToTheEnd(0);
    Push(14);
    h_.Settle();
    h_.core().Tick(h_.now());
    h_.Settle();
  }
  JobDescription::Durability Durability() { return h_.Describe().durability(); }
  absl::StatusOr<CheckpointOrder> Ask(const std::string& job = "latest") {
    return h_.core().Checkpoint(job, h_.now());
  }
  std::string EventText(const std::string& kind) {
    std::string text;
    const JobDescription description = h_.Describe();
    for (const auto& event : description.event()) {
      text = event.kind() == kind ? event.text() : text;
    }
    return text;
  }
  const CheckpointContext& Context(uint32_t shard = 0) {
    return h_.shard(shard).ordered["j-1"].context();
  }

  CoreHarness h_{2, 2};
};

}  // namespace monsoon::testing
