#include "worker/baseline/trainer.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "common/model/initializer.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "worker/data/open_dataset.h"
#include "worker/data/permutation.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

Job SmallJob() {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "small"
        model {
          input_shape: 12
          layer { dense { units: 9 } }
          layer { relu {} }
          layer { dropout { rate: 0.1 } }
          layer { dense { units: 4 } }
        }
        train { synthetic { examples: 500 classes: 4 seed: 1 center_seed: 7 } }
        test { synthetic { examples: 203 classes: 4 seed: 2 center_seed: 7 } }
        seed: 3
        batch_size: 16
        downpour { optimizer { sgd { rate: 0.05 } } }
        stop { epochs: 3 }
        evaluation { every_epochs: 1 batch_size: 50 }
      )pb",
      &job));
  return job;
}

std::vector<TrainingReport> Train(Trainer& trainer) {
  std::vector<TrainingReport> reports;
  EXPECT_OK(trainer.Run([&](const TrainingReport& report) { reports.push_back(report); }).status());
  return reports;
}

// The same job as a plain loop over the permutation, with its own SGD.
std::vector<float> PlainSgd(const Job& job, uint64_t steps, uint32_t n_fetch, uint32_t n_push) {
  const ParameterLayout layout = *ParameterLayout::Create(job.model());
  const auto network = *CreateNetwork(BackendKind::kCpu, job.model(), layout, NetworkOptions{});
  const auto source = *OpenDataset(job.train(), {{12}});
  std::vector<float> w(layout.size());
  Initialize(layout, job.seed(), 0, w);
  std::vector<float> seen;
  std::vector<float> sum(w.size());
  std::vector<float> gradient(w.size());
  Batch batch(16, 12);
  uint64_t step = 0;
  for (uint32_t epoch = 0; step < steps; ++epoch) {
    const std::vector<uint32_t> order = EpochPermutation(job.seed(), epoch, 500);
    for (size_t begin = 0; begin < 500 && step < steps; begin += 16, ++step) {
      if (step % n_fetch == 0) {
        seen = w;
      }
      network->SetParameters(seen);
      EXPECT_OK(source->Gather(std::span(order).subspan(begin, std::min<size_t>(16, 500 - begin)),
                               &batch));
      EXPECT_OK(network->LossAndGradient(batch, StepKey{job.seed(), 0, step}, gradient).status());
      for (size_t i = 0; i < w.size(); ++i) {
        sum[i] += gradient[i];
      }
      if ((step + 1) % n_push == 0 || step + 1 == steps) {
        for (size_t i = 0; i < w.size(); ++i) {
          w[i] -= 0.05f * sum[i];
          sum[i] = 0;
        }
      }
    }
  }
  return w;
}

TEST(TrainerTest, FollowsThePermutationAndTheOptimizerToTheBit) {
  for (const auto& [n_fetch, n_push] :
       std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {4, 2}, {1, 3}, {5, 1}}) {
    SCOPED_TRACE(n_fetch * 10 + n_push);
    Job job = SmallJob();
    job.mutable_downpour()->set_n_fetch(n_fetch);
    job.mutable_downpour()->set_n_push(n_push);
    ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
    const std::vector<TrainingReport> reports = Train(*trainer);
    // 500 samples: 31 batches of 16 and one of 4.
    EXPECT_EQ(reports.back().step, 96u);
    EXPECT_EQ(reports.back().examples, 1500u);
    const std::vector<float> expected = PlainSgd(job, 96, n_fetch, n_push);
    EXPECT_EQ(
        std::memcmp(trainer->parameters().data(), expected.data(), expected.size() * sizeof(float)),
        0);
  }
}

TEST(TrainerTest, LearnsAndReportsEachEpoch) {
  Job job = SmallJob();
  job.mutable_downpour()->mutable_optimizer()->mutable_adagrad()->set_rate(0.1);
  job.mutable_stop()->set_epochs(5);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
  const std::vector<TrainingReport> reports = Train(*trainer);
  ASSERT_EQ(reports.size(), 5u);
  for (size_t i = 0; i < reports.size(); ++i) {
    EXPECT_DOUBLE_EQ(reports[i].epoch, static_cast<double>(i + 1));
    ASSERT_TRUE(reports[i].test_accuracy.has_value());
    EXPECT_GT(reports[i].examples_per_s, 0);
  }
  EXPECT_LT(reports.back().loss, 0.6 * reports.front().loss);
  EXPECT_GT(*reports.back().test_accuracy, 0.9);
}

TEST(TrainerTest, StopsAtStepsAndAtTheTargetAccuracy) {
  Job job = SmallJob();
  job.mutable_stop()->set_steps(7);
  {
    ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
    EXPECT_EQ(Train(*trainer).back().step, 7u);
  }
  job.mutable_stop()->Clear();
  job.mutable_stop()->set_target_accuracy(0.5);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
  const TrainingReport last = Train(*trainer).back();
  EXPECT_GE(*last.test_accuracy, 0.5);
}

TEST(TrainerTest, ClipNormBoundsWhatOnePushMoves) {
  Job job = SmallJob();
  job.mutable_stop()->set_steps(1);
  Optimizer* optimizer = job.mutable_downpour()->mutable_optimizer();
  optimizer->mutable_sgd()->set_rate(1.0);
  optimizer->set_clip_norm(0.01);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
  const std::vector<float> before(trainer->parameters().begin(), trainer->parameters().end());
  Train(*trainer);
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    moved += std::pow(trainer->parameters()[i] - before[i], 2);
  }
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5);
}

TEST(TrainerTest, NamesTheStepThatDiverged) {
  Job job = SmallJob();
  job.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(1e30);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
  EXPECT_THAT(
      trainer->Run([](const TrainingReport&) {}).status(),
      StatusIs(absl::StatusCode::kAborted, AllOf(HasSubstr("diverged"), HasSubstr("step"))));
}

TEST(TrainerTest, RefusesAJobThatNeverStops) {
  Job job = SmallJob();
  job.clear_stop();
  EXPECT_THAT(Trainer::Create(job, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stop")));
}

}  // namespace
}  // namespace monsoon
