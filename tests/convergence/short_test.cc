// A few epochs on Fashion-MNIST: enough to see that asynchronous replicas learn.
#include <string>

#include "common/testing/status_matchers.h"
#include "tests/convergence/fashion_mnist.h"

namespace monsoon {
namespace {

using testing::Preset;
using testing::StaleShare;
using testing::TrainInOneProcess;
using testing::TrainOnCluster;

TEST(ConvergenceTest, ThreeReplicasTrainTheMlp) {
  ASSERT_OK_AND_ASSIGN(const Job job, Preset("mlp", {"stop.epochs=3"}));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, TrainOnCluster(job, 3, absl::Seconds(120)));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  std::printf("mlp, 3 replicas, 3 epochs: accuracy %.4f, %.0f %% of the pushes stale\n",
              end.final_test_accuracy(), 100 * StaleShare(end));
  EXPECT_GE(end.final_test_accuracy(), 0.84);
  EXPECT_GE(StaleShare(end), 0.1);
}

TEST(ConvergenceTest, ThreeReplicasTrainTheLenet) {
  ASSERT_OK_AND_ASSIGN(const Job job, Preset("lenet", {"stop.epochs=2"}));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, TrainOnCluster(job, 3, absl::Seconds(240)));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  std::printf("lenet, 3 replicas, 2 epochs: accuracy %.4f, %.0f %% of the pushes stale\n",
              end.final_test_accuracy(), 100 * StaleShare(end));
  EXPECT_GE(end.final_test_accuracy(), 0.82);
  EXPECT_GE(StaleShare(end), 0.1);
}

// A push for 20 steps of AdamW, with momentum that moves once for three of them.
TEST(ConvergenceTest, ThreeReplicasTrainTheMlpByLocalSteps) {
  ASSERT_OK_AND_ASSIGN(
      const Job job,
      Preset("mlp", {"stop.epochs=3",
                     "downpour={ local { steps: 20 inner { adam_w { rate: 0.001 } } } optimizer { "
                     "nesterov { rate: 0.7 momentum: 0.9 period: 3 } damping: 0.25 } }"}));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, TrainOnCluster(job, 3, absl::Seconds(120)));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  uint64_t steps = 0, pushes = 0;
  for (const JobDescription::Worker& worker : end.worker()) {
    steps += worker.steps();
    pushes += worker.pushes();
  }
  std::printf("mlp, 3 replicas, 3 epochs by local steps: accuracy %.4f, %lu pushes of %lu steps\n",
              end.final_test_accuracy(), pushes, steps);
  EXPECT_GE(end.final_test_accuracy(), 0.84);
  EXPECT_GE(steps, pushes * 15);
}

std::string RoundsOf(const std::string& inner) {
  return "downpour={ rounds { } local { steps: 20 inner { adam_w { rate: 0.001 } " + inner +
         " } } optimizer { nesterov { rate: 0.7 momentum: 0.8 } } }";
}

// MuLoCo: as many steps with Muon for the weights reach no less than AdamW's. In one process both
// repeat to the bit.
TEST(ConvergenceTest, MuonTrainsTheMlpInFewerSteps) {
  const std::string muon = "muon { rate: 0.001 scale: MATCH_ADAMW }";
  double alone[2] = {};
  for (const bool with_muon : {false, true}) {
    ASSERT_OK_AND_ASSIGN(const Job job,
                         Preset("mlp", {"stop.epochs=2", RoundsOf(with_muon ? muon : "")}));
    ASSERT_OK_AND_ASSIGN(alone[with_muon], TrainInOneProcess(job));
  }
  std::printf("mlp, one process, 2 epochs: accuracy %.4f with AdamW, %.4f with Muon\n", alone[0],
              alone[1]);
  EXPECT_GE(alone[1], alone[0]);

  ASSERT_OK_AND_ASSIGN(const Job job, Preset("mlp", {"stop.epochs=2", RoundsOf(muon)}));
  ASSERT_OK_AND_ASSIGN(const JobDescription end, TrainOnCluster(job, 3, absl::Seconds(120)));
  ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  std::printf("mlp, 3 replicas, 2 epochs by Muon in rounds: accuracy %.4f\n",
              end.final_test_accuracy());
  EXPECT_GE(end.final_test_accuracy(), 0.84);
}

}  // namespace
}  // namespace monsoon
