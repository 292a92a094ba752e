// Commands whose first call meets a coordinator that is away for a moment.
#include "common/base/status.h"
#include "common/base/unsent.h"
#include "common/testing/status_matchers.h"
#include "coordinator/cli/cli_fixture.h"
#include "gmock/gmock.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PatienceTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    cli_.variables["MONSOON_STATE_DIR"] = "/state";
    MarkNobodyListens(&refused_);
  }
  // An `up` on this machine runs the coordinator, or not.
  void UpRuns(bool runs) {
    cli_.locked.clear();
    if (runs) {
      cli_.locked.insert("/state/coordinator/up");
    }
  }

  absl::Status refused_ = kDown;
};

TEST_F(PatienceTest, WatchWaitsForACoordinatorThatUpStartsAgain) {
  UpRuns(true);
  cli_.coordinator.descriptions = {refused_,
                                   refused_,
                                   refused_,
                                   refused_,
                                   refused_,
                                   refused_,
                                   Description(RUNNING),
                                   Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("not reached; asking again for 59 s"),
                                HasSubstr("it answers again")));
}

TEST_F(PatienceTest, WhereNobodyListensAndNoUpRunsWatchEndsAtOnce) {
  cli_.coordinator.descriptions = {refused_, Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 3);
  EXPECT_EQ(cli_.waited, absl::ZeroDuration());
  cli_.variables["MONSOON_STATE_DIR"] = "";  // nothing is kept: what it had would be lost
  UpRuns(true);
  cli_.coordinator.descriptions = {refused_, Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 3);
}

TEST_F(PatienceTest, AnUpThatEndsIsNotWaitedFor) {
  UpRuns(true);
  int calls = 0;
  cli_.coordinator.describe = [&]() -> absl::StatusOr<JobDescription> {
    UpRuns(++calls < 5);
    return refused_;
  };
  EXPECT_EQ(Run({"watch", "tiny-1"}), 3);
  EXPECT_EQ(calls, 5);
  calls = -1000;
  cli_.waited = absl::ZeroDuration();
  EXPECT_EQ(Run({"watch", "tiny-1", "--patience=3"}), 3);
  EXPECT_GE(cli_.waited, absl::Seconds(3));
  EXPECT_LE(cli_.waited, absl::Seconds(4));
}

TEST_F(PatienceTest, ACoordinatorThatAnswersThatItEndsIsWaitedFor) {
  cli_.coordinator.descriptions = {absl::CancelledError("bye"), refused_, Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  cli_.coordinator.descriptions = {absl::UnavailableError("its disk is full"),
                                   Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 0);
  // Silence says nothing.
  cli_.coordinator.descriptions = {
      absl::DeadlineExceededError("coordinator at unix:c not reached: no answer in time"),
      Description(SUCCEEDED)};
  EXPECT_EQ(Run({"watch", "tiny-1"}), 3);
}

TEST_F(PatienceTest, WhatSubmitWatchesHasAnsweredAlready) {
  cli_.coordinator.descriptions = {refused_, Description(SUCCEEDED)};
  EXPECT_EQ(Run({"submit", job_, "--watch"}), 0);
}

TEST_F(PatienceTest, SubmitWaitsForACoordinatorThatUpStartsAgain) {
  cli_.coordinator.submit_errors = {refused_, refused_};
  EXPECT_EQ(Run({"submit", job_}), 3);
  UpRuns(true);
  cli_.coordinator.submit_errors = {refused_, refused_};
  EXPECT_EQ(Run({"submit", job_}), 0) << cli_.err();
}

// Nobody has said that there is such a job.
TEST_F(PatienceTest, CtrlCBeforeTheFirstAnswerPromisesNothing) {
  UpRuns(true);
  cli_.coordinator.descriptions = {refused_};
  cli_.signal_after = absl::Seconds(3);
  EXPECT_EQ(Run({"watch", "tiny-1"}), 130);
  EXPECT_THAT(cli_.err(), Not(HasSubstr("goes on")));
}

TEST_F(PatienceTest, ASubmitWhoseAnswerGotLostIsRepeatedAsTheSame) {
  cli_.coordinator.submit_errors = {absl::DeadlineExceededError("no answer"), kDown};
  EXPECT_EQ(Run({"submit", job_}), 0);
  ASSERT_EQ(cli_.coordinator.submitted.size(), 3u);
  for (const SubmitRequest& request : cli_.coordinator.submitted) {
    EXPECT_EQ(request.client_id(), "drawn");
  }
  EXPECT_EQ(cli_.out(), "submitted tiny-1, state PENDING\n");
  // What nobody has heard was not submitted.
  absl::Status other = kDown;
  MarkUnsent(&other);
  for (const absl::Status& unsent : {refused_, other}) {
    cli_.coordinator.submitted.clear();
    cli_.coordinator.submit_errors = {unsent};
    EXPECT_EQ(Run({"submit", job_}), 3);
    EXPECT_EQ(cli_.coordinator.submitted.size(), 1u);
  }
}

}  // namespace
}  // namespace monsoon
