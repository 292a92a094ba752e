// A few epochs on Fashion-MNIST: enough to see that asynchronous replicas learn.
#include "common/testing/status_matchers.h"
#include "tests/convergence/fashion_mnist.h"

namespace monsoon {
namespace {

using testing::Preset;
using testing::StaleShare;
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

}  // namespace
}  // namespace monsoon
