#include "coordinator/replicas/job_difference.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

Job Joined() {
  Job job;
  job.set_name("gpt");
  ModelTensor* const tensor = job.mutable_model()->add_tensor();
  tensor->set_name("wte");
  tensor->add_shape(4);
  job.mutable_train()->mutable_joiners()->set_examples(100);
  job.set_batch_size(10);
  job.mutable_downpour()->mutable_optimizer()->mutable_adagrad()->set_rate(0.03);
  job.mutable_stop()->set_epochs(3);
  return job;
}

TEST(JobDifferenceTest, NamesThePathAndBothValues) {
  Job other = Joined();
  other.set_name("another");
  EXPECT_EQ(JobDifference(Joined(), other, "gpt-1"), "");
  other.mutable_downpour()->mutable_optimizer()->mutable_adagrad()->set_rate(0.01);
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "downpour.optimizer.adagrad.rate is 0.01 here and 0.03 in job gpt-1");
  other.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "downpour.optimizer is sgd here and adagrad in job gpt-1");
  other = Joined();
  other.mutable_train()->mutable_joiners()->set_examples(99);
  other.set_seed(5);
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "train.joiners.examples is 99 here and 100 in job gpt-1");
  other = Joined();
  other.mutable_test()->mutable_joiners();
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "test is joiners here and not set in job gpt-1");
  other = Joined();
  other.mutable_checkpoint()->set_off(true);
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "checkpoint.off is true here and false in job gpt-1");
  other = Joined();
  other.mutable_downpour()->set_fetch_format(BFLOAT16);
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "downpour.fetch_format is BFLOAT16 here and FLOAT32 in job gpt-1");
}

TEST(JobDifferenceTest, SettingsThatAreOnlyThereAreDifferentToo) {
  Job other = Joined();
  other.mutable_downpour()->mutable_optimizer()->mutable_adam()->set_rate(0.1);
  Job same = other;
  same.mutable_downpour()->mutable_optimizer()->mutable_adam()->set_beta1(0);
  EXPECT_EQ(JobDifference(same, other, "gpt-1"),
            "downpour.optimizer.adam.beta1 is 0 here and not set in job gpt-1");
}

TEST(JobDifferenceTest, NamesTheFirstTensorInWords) {
  Job other = Joined();
  other.mutable_model()->mutable_tensor(0)->set_shape(0, 5);
  EXPECT_THAT(JobDifference(other, Joined(), "gpt-1"), HasSubstr("wte is"));
  EXPECT_THAT(JobDifference(other, Joined(), "gpt-1"), HasSubstr("that of job gpt-1"));
  other = Joined();
  other.mutable_model()->mutable_tensor(0)->set_kind(ModelTensor::STATISTIC);
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "model.tensor[0].kind is STATISTIC here and TRAINED in job gpt-1");
  other = Joined();
  other.mutable_model()->mutable_tensor(0)->add_alias("head");
  EXPECT_EQ(JobDifference(other, Joined(), "gpt-1"),
            "the number of model.tensor[0].alias is 1 here and 0 in job gpt-1");
}

}  // namespace
}  // namespace monsoon
