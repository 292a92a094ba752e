// What jobs may ask of their test set's figures.
#include <functional>
#include <string>

#include "common/config/job.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

Job Valid() {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "j"
        model {
          input_shape: 4
          layer { dense { units: 3 } }
        }
        train { synthetic { examples: 100 classes: 3 } }
        test { synthetic { examples: 100 classes: 3 } }
        batch_size: 10
        downpour { optimizer { sgd { rate: 0.1 } } }
        stop { epochs: 3 }
        evaluation { every_epochs: 1 }
      )pb",
      &job));
  return job;
}

void ExpectError(const Job& job, const std::string& text) {
  EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
}

TEST(TestFiguresCheckTest, WhatIsWholeIsValid) {
  Job job = Valid();
  EXPECT_OK(ValidateJob(job));
  job.mutable_stop()->mutable_early()->set_metric(TEST_LOSS);
  job.mutable_stop()->mutable_early()->set_patience(3);
  job.mutable_downpour()->mutable_optimizer()->mutable_schedule()->mutable_plateau();
  for (const char* name : {"cat", "dog", "fox"}) {
    job.mutable_test()->add_class_name(name);
  }
  job.mutable_model()->mutable_loss_settings()->set_label_smoothing(0.1);
  for (int i = 0; i < 3; ++i) {
    job.mutable_model()->mutable_loss_settings()->add_class_weight(i);
  }
  EXPECT_OK(ValidateJob(job));
  job.mutable_stop()->clear_epochs();
  EXPECT_OK(ValidateJob(job)) << "an early stop is an end";
}

TEST(TestFiguresCheckTest, EarlyStop) {
  const auto with = [](const std::function<void(Job*)>& change) {
    Job job = Valid();
    job.mutable_stop()->mutable_early()->set_metric(TEST_ACCURACY);
    job.mutable_stop()->mutable_early()->set_patience(1);
    change(&job);
    return job;
  };
  EXPECT_OK(ValidateJob(with([](Job*) {})));
  ExpectError(with([](Job* job) { job->clear_evaluation(); }),
              "stop.early: it never takes effect: evaluation is only at the end");
  EXPECT_OK(ValidateJob(with([](Job* job) {
    job->clear_evaluation();
    job->mutable_stop()->set_target_accuracy(0.9);
  }))) << "that is looked at each epoch";
  ExpectError(with([](Job* job) { job->clear_test(); }), "stop.early: it needs test data");
  ExpectError(with([](Job* job) { job->mutable_stop()->mutable_early()->clear_patience(); }),
              "stop.early.patience: must be at least 1");
  ExpectError(with([](Job* job) { job->mutable_stop()->mutable_early()->clear_metric(); }),
              "stop.early.metric: says which figure");
  ExpectError(with([](Job* job) { job->mutable_stop()->mutable_early()->set_min_change(-1); }),
              "stop.early.min_change");
  ExpectError(with([](Job* job) { job->mutable_model()->set_loss(MEAN_SQUARED_ERROR); }),
              "stop.early.metric: MEAN_SQUARED_ERROR tells no accuracy");
}

TEST(TestFiguresCheckTest, Plateau) {
  const auto with = [](const std::function<void(Job*, PlateauSchedule*)>& change) {
    Job job = Valid();
    change(&job,
           job.mutable_downpour()->mutable_optimizer()->mutable_schedule()->mutable_plateau());
    return job;
  };
  const std::string field = "downpour.optimizer.schedule.plateau";
  ExpectError(with([](Job* job, PlateauSchedule*) { job->clear_evaluation(); }),
              field + ": it never takes effect");
  ExpectError(with([](Job*, PlateauSchedule* plateau) { plateau->set_factor(1); }),
              field + ".factor: 1 is outside (0, 1)");
  ExpectError(with([](Job*, PlateauSchedule* plateau) { plateau->set_min_factor(1); }),
              field + ".min_factor: 1 is outside [0, 1)");
  ExpectError(with([](Job*, PlateauSchedule* plateau) { plateau->set_min_change(-0.5); }),
              field + ".min_change");
  ExpectError(with([](Job* job, PlateauSchedule* plateau) {
                plateau->set_by_accuracy(true);
                job->mutable_model()->set_loss(MEAN_SQUARED_ERROR);
              }),
              field + ".by_accuracy: MEAN_SQUARED_ERROR tells no accuracy");
  ExpectError(
      with([](Job* job, PlateauSchedule*) {
        job->mutable_downpour()->mutable_local()->set_steps(8);
        job->mutable_downpour()->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(0.1);
        job->mutable_downpour()
            ->mutable_local()
            ->mutable_inner()
            ->mutable_schedule()
            ->mutable_plateau();
      }),
      "downpour.local.inner.schedule.plateau: replicas do not see");
}

TEST(TestFiguresCheckTest, ClassNames) {
  Job job = Valid();
  job.mutable_train()->add_class_name("a");
  job.mutable_train()->add_class_name("b");
  ExpectError(job, "train.class_name: has 2 names, the model has 3 classes");
  job.mutable_train()->add_class_name("a");
  ExpectError(job, "train.class_name: \"a\" is there twice");
  job.mutable_train()->set_class_name(2, "");
  ExpectError(job, "train.class_name: a name is empty");
  job.mutable_train()->set_class_name(2, "c");
  EXPECT_OK(ValidateJob(job));
  for (const char* name : {"a", "c", "b"}) {
    job.mutable_test()->add_class_name(name);
  }
  ExpectError(job, "test.class_name: its names are others than those of train");
}

}  // namespace
}  // namespace monsoon
