// A Downpour job that follows its test set's figures: PlateauSchedule and Stop.early.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "coordinator/downpour/downpour_fixture.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = DownpourJob::Phase;
using testing::FourBlocks;
using testing::Replicas;

class DownpourFiguresTest : public ::testing::Test {
 protected:
  DownpourFiguresTest() : options_(FourBlocks(100)) {
    options_.has_test = true;
    options_.evaluate_every_epochs = 1;
  }
  // Trains to the next run over the test set, which finds this many of 100 right and a loss of
  // always 0.5.
  void Evaluate(DownpourJob* job, Replicas* replicas, uint64_t correct) {
    for (int i = 0; i < 50; ++i) {
      const NextWorkReply reply = replicas->Ask(0);
      if (reply.has_evaluate()) {
        ASSERT_OK(replicas->Report(0, reply.evaluate().evaluation(), correct));
        for (const auto& event : job->TakeEvents()) {
          if (event.kind != "evaluation") {
            events_.push_back(absl::StrCat(event.kind, ": ", event.text));
          }
        }
        return;
      }
    }
    FAIL() << "no run over the test set";
  }
  double Factor(const DownpourJob& job) {
    JobDescription description;
    job.Describe(&description);
    EXPECT_TRUE(description.has_rate_factor());
    return description.rate_factor();
  }

  DownpourOptions options_;
  std::vector<std::string> events_;
};

TEST_F(DownpourFiguresTest, ARateFollowsThePlateausOfTheLoss) {
  options_.plateau.emplace().set_min_factor(0.2);
  testing::ReplayedState state;
  DownpourJob job(options_, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  job.TakeEvents();
  Evaluate(&job, &replicas, 50);
  Evaluate(&job, &replicas, 60);  // a better accuracy, the same loss
  EXPECT_EQ(job.rate_reductions(), 0u);
  EXPECT_EQ(Factor(job), 1.0);
  EXPECT_THAT(events_, IsEmpty());
  Evaluate(&job, &replicas, 70);
  EXPECT_EQ(job.rate_reductions(), 1u);
  EXPECT_EQ(Factor(job), 0.5);
  EXPECT_THAT(events_, ElementsAre("rate_reduced: the rate is times 0.5 from now on: the test "
                                   "loss has not become better in 2 evaluations"));
  for (int i = 0; i < 4; ++i) {
    Evaluate(&job, &replicas, 70);
  }
  EXPECT_EQ(job.rate_reductions(), 3u);
  EXPECT_EQ(Factor(job), 0.2) << "not below min_factor";
}

TEST_F(DownpourFiguresTest, ByAccuracyAndAfterWhatWasReducedBefore) {
  options_.plateau.emplace().set_by_accuracy(true);
  options_.plateau->set_patience(1);
  options_.plateau->set_reductions(2);
  testing::ReplayedState state;
  DownpourJob job(options_, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  Evaluate(&job, &replicas, 50);
  Evaluate(&job, &replicas, 60);
  EXPECT_EQ(Factor(job), 0.25);
  Evaluate(&job, &replicas, 60);
  EXPECT_EQ(job.rate_reductions(), 3u);
  EXPECT_EQ(Factor(job), 0.125);
}

TEST_F(DownpourFiguresTest, AnEarlyStopEndsTheTraining) {
  options_.stop.mutable_early()->set_metric(TEST_ACCURACY);
  options_.stop.mutable_early()->set_patience(2);
  testing::ReplayedState state;
  DownpourJob job(options_, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  Evaluate(&job, &replicas, 50);
  Evaluate(&job, &replicas, 49);
  Evaluate(&job, &replicas, 60);
  Evaluate(&job, &replicas, 60);
  EXPECT_EQ(job.phase(), Phase::kRunning);
  Evaluate(&job, &replicas, 55);
  EXPECT_NE(job.phase(), Phase::kRunning);
  EXPECT_THAT(events_, Contains("finishing: stopped early: the test accuracy has not become "
                                "better in 2 evaluations"));
}

TEST_F(DownpourFiguresTest, WithoutEitherNothingFollows) {
  testing::ReplayedState state;
  DownpourJob job(options_, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  job.TakeEvents();
  for (int i = 0; i < 4; ++i) {
    Evaluate(&job, &replicas, 50);
  }
  EXPECT_THAT(events_, IsEmpty());
  EXPECT_EQ(job.phase(), Phase::kRunning);
  JobDescription description;
  job.Describe(&description);
  EXPECT_FALSE(description.has_rate_factor());
}

}  // namespace
}  // namespace monsoon
