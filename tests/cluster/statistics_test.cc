// Running statistics of batch normalisation on a whole cluster in one process.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "tests/cluster/batch_jobs.h"
#include "tests/cluster/test_cluster.h"
#include "worker/data/open_dataset.h"
#include "worker/nn/batch.h"

namespace monsoon {
namespace {

using testing::BatchJob;
using testing::SyntheticJob;
using testing::TestCluster;
using testing::TraceOf;

void RunToEnd(const TestCluster::Options& options, const Job& job, JobDescription* end,
              std::vector<float>* parameters) {
  TestCluster cluster(options);
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::string id, cluster.Submit(job));
  ASSERT_OK_AND_ASSIGN(*end, cluster.AwaitEnd(id));
  ASSERT_EQ(end->summary().state(), SUCCEEDED) << end->summary().reason();
  ASSERT_OK_AND_ASSIGN(*parameters, cluster.Parameters(id));
}

// batch_norm, by that name, in front of what the job has.
void PutBatchNormFirst(Job* job, double momentum) {
  Model model = job->model();
  model.clear_layer();
  Layer* const norm = model.add_layer();
  norm->set_name("norm");
  norm->mutable_batch_norm()->set_momentum(momentum);
  for (const Layer& layer : job->model().layer()) {
    *model.add_layer() = layer;
  }
  *job->mutable_model() = model;
}

struct Moments {
  std::vector<double> mean;
  std::vector<double> variance;
};

absl::StatusOr<Moments> MomentsOf(const Job& job) {
  const size_t features = job.model().input_shape(0);
  ASSIGN_OR_RETURN(const auto source,
                   OpenDataset(job.train(), TrainingContext(job, DataAccess::Own())));
  std::vector<uint32_t> all(source->examples());
  std::iota(all.begin(), all.end(), 0u);
  Batch batch(all.size(), features);
  RETURN_IF_ERROR(source->Gather(all, &batch));
  const double count = static_cast<double>(all.size());
  Moments moments{std::vector<double>(features), std::vector<double>(features)};
  for (size_t i = 0; i < all.size() * features; ++i) {
    moments.mean[i % features] += batch.inputs.data()[i] / count;
  }
  for (size_t i = 0; i < all.size() * features; ++i) {
    moments.variance[i % features] +=
        std::pow(batch.inputs.data()[i] - moments.mean[i % features], 2) / count;
  }
  return moments;
}

// Two workers of two replicas, several steps a push.
TEST(StatisticsClusterTest, DownpourBringsThemToThoseOfTheData) {
  Job job = SyntheticJob(4096, 4);
  PutBatchNormFirst(&job, 0.1);
  job.mutable_downpour()->set_n_push(3);
  job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.02);
  JobDescription end;
  std::vector<float> parameters;
  ASSERT_NO_FATAL_FAILURE(
      RunToEnd({.shards = 2, .workers = 2, .replicas = 2}, job, &end, &parameters));
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(job.model()));
  ASSERT_OK_AND_ASSIGN(const Moments moments, MomentsOf(job));
  const TensorInfo& mean = layout.tensors()[2];
  const TensorInfo& variance = layout.tensors()[3];
  ASSERT_EQ(mean.name, "norm/mean");
  ASSERT_EQ(variance.name, "norm/variance");
  double moved = 0;
  for (size_t i = 0; i < mean.size; ++i) {
    // Noise of batches of 16 that an average over some tens leaves.
    EXPECT_NEAR(parameters[mean.offset + i], moments.mean[i], 0.35) << i;
    EXPECT_NEAR(parameters[variance.offset + i] / moments.variance[i], 1, 0.5) << i;
    moved += std::abs(moments.mean[i]) / static_cast<double>(mean.size);
  }
  EXPECT_GT(moved, 0.25);  // or it would be near 0, where they began
  // Evaluations take them.
  ASSERT_GE(end.evaluation_size(), 1);
  EXPECT_GT(end.evaluation(end.evaluation_size() - 1).test_accuracy(), 0.9);
}

class BatchStatisticsTest : public ::testing::TestWithParam<bool> {};

TEST_P(BatchStatisticsTest, ABatchJobLeavesThemAsTheyAre) {
  Job job = BatchJob(12, 8);
  PutBatchNormFirst(&job, 0.1);
  job.mutable_sandblaster()->set_l2(0.05);
  job.mutable_sandblaster()->set_l2_weights_only(GetParam());
  JobDescription end;
  std::vector<float> parameters;
  ASSERT_NO_FATAL_FAILURE(RunToEnd({.shards = 2, .workers = 2}, job, &end, &parameters));
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(job.model()));
  for (const TensorInfo& tensor : layout.tensors()) {
    double moved = 0;
    for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      if (tensor.is_statistic) {
        ASSERT_EQ(parameters[i], tensor.name == "norm/mean" ? 0.0f : 1.0f) << tensor.name;
      }
      moved += std::abs(parameters[i] - (tensor.name == "norm/weight" ? 1.0f : 0.0f));
    }
    EXPECT_TRUE(tensor.is_statistic || moved > 0.01) << tensor.name;
  }
  // The constant part of |w|^2, 40 variances of 1, is not in F: of a softmax over 5 classes F
  // begins near log 5.
  const auto trace = TraceOf(end);
  ASSERT_GT(trace.size(), 4u);
  EXPECT_LT(trace.back().f, trace.front().f);
  EXPECT_LT(trace.back().f, std::log(5.0));
}

INSTANTIATE_TEST_SUITE_P(L2, BatchStatisticsTest, ::testing::Bool());

}  // namespace
}  // namespace monsoon
