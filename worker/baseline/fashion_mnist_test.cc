// LeNet on the real Fashion-MNIST: the published course of training, with
// Adagrad at 0.03 and batches of 64 (0.834 after the first epoch).
#include "common/config/job.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/baseline/trainer.h"

namespace monsoon {
namespace {

TEST(FashionMnistTrainingTest, OneEpochOfLeNet) {
  LoadOptions load;
  load.overrides = {"stop.epochs=1"};
  ASSERT_OK_AND_ASSIGN(const Job job, LoadJob("configs/job/lenet_downpour.textproto", load));
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(job, {}));
  EXPECT_EQ(trainer->layout().parameters(), 129'068u);
  ASSERT_OK_AND_ASSIGN(const TrainingReport report, trainer->Run([](const TrainingReport&) {}));
  EXPECT_EQ(report.step, 938u);
  ASSERT_TRUE(report.test_accuracy.has_value());
  EXPECT_GT(*report.test_accuracy, 0.82);
}

}  // namespace
}  // namespace monsoon
