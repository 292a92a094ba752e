// libmonsoon beside a sidecar that answers as the test says.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/sidecar/replica_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::ReplicaTest;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ReplicaTest, BatchesComeWithAnyAnswer) {
  Join("0 go+2 go+1 go nothing");
  EXPECT_EQ(Draw(), 0);
  EXPECT_EQ(batch_.left, 1u);
  EXPECT_EQ(Draw(), 4);
  EXPECT_EQ(batch_.left, 0u);
  ASSERT_EQ(Step(), MONSOON_OK);  // brings one
  EXPECT_EQ(Draw(), 8);
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(Draw(), -1);
  EXPECT_EQ(event_.kind, MONSOON_NOTHING_NOW);
}

TEST_F(ReplicaTest, AStepNamesTheTensorsThatHaveNoGradient) {
  Join("0 go+3 go go");
  const uint32_t numbers[] = {0, 1};
  ASSERT_EQ(Draw(), 0);
  EXPECT_EQ(Step(false, numbers, 2), MONSOON_INVALID_ARGUMENT) << "the model has one tensor";
  EXPECT_THAT(monsoon_last_error(), HasSubstr("absent tensor 1 of 1"));
  const uint32_t twice[] = {0, 0};
  EXPECT_EQ(Step(false, twice, 2), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(Step(false, nullptr, 1), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(steps(), 0u);
  ASSERT_EQ(Step(false, numbers, 1), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(Stats().refused, 1u);
  ASSERT_EQ(Draw(), 4);
  ASSERT_EQ(Step(), MONSOON_OK) << "which has all gradients";
  EXPECT_EQ(Stats().refused, 0u);
}

TEST_F(ReplicaTest, AProgramThatHasDivergedIsToldThatItsPartIsOver) {
  Join("0 go+3 go! diverged");
  ASSERT_EQ(Draw(), 0);
  EXPECT_EQ(monsoon_report_divergence(replica_, nullptr, &event_), MONSOON_INVALID_ARGUMENT);
  ASSERT_EQ(monsoon_report_divergence(replica_, "w", &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.discarded, 1) << "the session was lost before, and it is to say it again";
  EXPECT_EQ(monsoon_report_divergence(replica_, "exp_avg of w", &event_), MONSOON_OUT_OF_RANGE);
  EXPECT_STREQ(monsoon_last_error(), "exp_avg of w");
  EXPECT_EQ(monsoon_draw(replica_, &batch_, &event_), MONSOON_OUT_OF_RANGE) << "nobody is asked";
}

TEST_F(ReplicaTest, WithLocalStepsNoTensorIsAbsent) {
  Join("2 go+2");
  const uint32_t number = 0;
  ASSERT_EQ(Draw(), 0);
  EXPECT_EQ(Step(false, &number, 1), MONSOON_FAILED_PRECONDITION);
  EXPECT_THAT(monsoon_last_error(), HasSubstr("a value for each parameter"));
}

TEST_F(ReplicaTest, AStepThatIsDueIsNotCountedWhereThatIsAskedFor) {
  Join("3 go+3 go");
  for (const bool due : {false, false, true}) {
    ASSERT_GE(Draw(), 0);
    ASSERT_EQ(Step(/*unless_due=*/true), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(event_.kind, due ? MONSOON_DUE : MONSOON_GO);
  }
  EXPECT_EQ(steps(), 0u) << "none was exchanged";
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(event_.kind, MONSOON_GO);
  EXPECT_EQ(steps(), 3u);
}

TEST_F(ReplicaTest, TheNextDifferenceHasAsManyLocalStepsAsIsSaid) {
  Join("4 go=2+9 go=9 go=1 go");
  for (const uint32_t all : {2u, 4u, 1u}) {  // never more than the job says
    EXPECT_EQ(Stats().local_steps, all);
    for (uint32_t step = 1; step <= all; ++step) {
      ASSERT_GE(Draw(), 0);
      ASSERT_EQ(Step(/*unless_due=*/true), MONSOON_OK) << monsoon_last_error();
      EXPECT_EQ(event_.kind, step < all ? MONSOON_GO : MONSOON_DUE) << step << " of " << all;
    }
    ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
  }
  EXPECT_EQ(steps(), 7u);
  EXPECT_EQ(monsoon_local_steps(replica_), 4u);
}

TEST_F(ReplicaTest, ADifferenceUnderWayIsFinishedAsItWasBegun) {
  Join("4 go+2 go=1+8 go");
  for (int step = 1; step <= 4; ++step) {  // the second one draws ahead
    ASSERT_GE(Draw(), 0);
    ASSERT_EQ(Step(/*unless_due=*/true), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(event_.kind, step < 4 ? MONSOON_GO : MONSOON_DUE) << step;
  }
  ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
  ASSERT_GE(Draw(), 0);
  ASSERT_EQ(Step(/*unless_due=*/true), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_DUE);
}

// The last batch's step draws ahead, and is told then that the session is over.
TEST_F(ReplicaTest, ASessionLostWhileDrawingAheadTakesTheStepAway) {
  Join("100 go+1 go!+2 go");
  EXPECT_EQ(Draw(), 0);
  ASSERT_EQ(Step(/*unless_due=*/true), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_GO);
  EXPECT_EQ(event_.discarded, 1);
  EXPECT_EQ(Draw(), 4) << "of the new session";
  EXPECT_EQ(event_.discarded, 0) << "told once";
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(event_.discarded, 0);
  EXPECT_EQ(steps(), 0u);
}

TEST_F(ReplicaTest, ThatIsToldByTheNextCallToOneThatOnlyAsked) {
  for (const bool step : {true, false}) {
    Join("100 go+1 evaluate! go");
    EXPECT_EQ(Draw(), 0);
    int due = 0;
    ASSERT_EQ(monsoon_step_is_due(replica_, 1, &due), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(due, 1);
    if (step) {
      ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
    } else {
      EXPECT_EQ(Draw(), -1);
    }
    EXPECT_EQ(event_.kind, MONSOON_EVALUATE);
    EXPECT_EQ(event_.discarded, 1);
    ASSERT_EQ(monsoon_report_evaluation(replica_, nullptr, 0, nullptr, &event_), MONSOON_OK)
        << monsoon_last_error();
    if (step) {
      ASSERT_EQ(monsoon_leave(replica_), MONSOON_OK);
      monsoon_free(replica_);
    }
  }
}

TEST_F(ReplicaTest, ThatIsToldWhereTheNewSessionHasNoBatchesYetToo) {
  Join("100 go+1 go! go+1");
  EXPECT_EQ(Draw(), 0);
  int due = 0;
  ASSERT_EQ(monsoon_step_is_due(replica_, 1, &due), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(Draw(), -1);
  EXPECT_EQ(event_.kind, MONSOON_GO);
  EXPECT_EQ(event_.discarded, 1);
  EXPECT_EQ(Draw(), 4);
  EXPECT_EQ(event_.discarded, 0);
}

TEST_F(ReplicaTest, TheGradientIsZeroAfterAStepHoweverItWasTaken) {
  Join("0 go+3 go seen go!");
  for (const bool discarded : {false, false, true}) {
    ASSERT_GE(Draw(), 0);
    float* const gradient = monsoon_gradient(replica_);
    for (size_t i = 0; i < monsoon_size(replica_); ++i) {
      gradient[i] = 1.0f;
    }
    ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(event_.discarded, discarded);
    EXPECT_EQ(std::vector<float>(gradient, gradient + monsoon_size(replica_)),
              std::vector<float>(monsoon_size(replica_)));
  }
}

TEST_F(ReplicaTest, ASidecarThatDiesIsAnotherSession) {
  Join("0 go+2 die again go go+1 go");
  monsoon_parameters(replica_)[3] = 5.0f;
  const uint32_t first = Stats().sidecar_pid;
  EXPECT_EQ(Draw(), 0);
  ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();  // the first one dies of it
  EXPECT_EQ(event_.kind, MONSOON_GO);
  EXPECT_EQ(event_.discarded, 1);
  EXPECT_NE(Stats().sidecar_pid, first);
  EXPECT_EQ(Stats().steps, 0u);
  EXPECT_EQ(monsoon_parameters(replica_)[3], 5.0f) << "the memory is the same";
  EXPECT_EQ(Draw(), 0) << "of the new session: what was drawn ahead is forgotten";
  EXPECT_EQ(event_.discarded, 0);
  ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.discarded, 0);
  EXPECT_EQ(Stats().steps, 1u);
}

TEST_F(ReplicaTest, ASidecarMayDieOfAnyCall) {
  for (const std::string script : {"0 die again go go+1", "2 go+1 die again go go+1"}) {
    Join(script);
    if (script[0] == '2') {
      EXPECT_EQ(Draw(), 0);
      int due = 0;
      ASSERT_EQ(monsoon_step_is_due(replica_, 1, &due), MONSOON_OK) << monsoon_last_error();
      EXPECT_EQ(Draw(), -1);
      EXPECT_EQ(event_.discarded, 1) << "told by the next call";
    } else {
      EXPECT_EQ(event_.discarded, 0) << "it had nothing yet";
    }
    EXPECT_EQ(Draw(), 0);
    ASSERT_EQ(monsoon_leave(replica_), MONSOON_OK) << monsoon_last_error();
    monsoon_free(replica_);
    replica_ = nullptr;
  }
}

TEST_F(ReplicaTest, SidecarsThatDieWithoutAStepBetweenAreTooManyAtLast) {
  Join("0 go+1 die again go die");
  EXPECT_EQ(Draw(), 0);
  ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
  for (int restarts = 1; restarts < 3; ++restarts) {
    EXPECT_EQ(Draw(), -1);  // each dies of this
    EXPECT_EQ(event_.discarded, 1);
  }
  EXPECT_EQ(monsoon_draw(replica_, &batch_, &event_), MONSOON_UNAVAILABLE);
  EXPECT_THAT(monsoon_last_error(),
              AllOf(HasSubstr("was killed by signal 9 (Killed), as did the 3 before it"),
                    HasSubstr("Join again")));
  EXPECT_EQ(monsoon_draw(replica_, &batch_, &event_), MONSOON_UNAVAILABLE) << "for good";
}

TEST_F(ReplicaTest, AStepThatCountsMakesTheDeathsBeforeItForgotten) {
  Join("0 go+1 die again go go+1 go die");
  EXPECT_EQ(Draw(), 0);
  for (int deaths = 1; deaths < 10; ++deaths) {
    ASSERT_EQ(deaths == 1 ? Step() : monsoon_draw(replica_, &batch_, &event_), MONSOON_OK)
        << monsoon_last_error();  // of this it dies
    EXPECT_EQ(event_.discarded, 1);
    EXPECT_EQ(Draw(), 0);
    ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(event_.discarded, 0);
  }
}

TEST_F(ReplicaTest, OneThatHasLeftDrawsNothing) {
  Join("0 go+2");
  EXPECT_EQ(Draw(), 0);
  ASSERT_EQ(monsoon_leave(replica_), MONSOON_OK);
  EXPECT_EQ(monsoon_draw(replica_, &batch_, &event_), MONSOON_CANCELLED);
  EXPECT_EQ(batch_.count, 0u);
}

// ---- the end of the job ----

TEST_F(ReplicaTest, AProgramEndsItsJob) {
  Join("0 go+3 go ended");
  EXPECT_EQ(Draw(), 0);
  ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(Draw(), 4);
  ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
  // Nothing is asked any more.
  ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
  ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
  EXPECT_EQ(Draw(), -1);
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
  EXPECT_EQ(steps(), 1u);
  EXPECT_EQ(monsoon_finish(nullptr, &event_), MONSOON_INVALID_ARGUMENT);
}

TEST_F(ReplicaTest, LocalStepsThatWereNotToldAreToldThen) {
  Join("4 go+3 ended");
  for (int step = 0; step < 2; ++step) {
    ASSERT_GE(Draw(), 0);
    ASSERT_EQ(Step(/*unless_due=*/true), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(event_.kind, MONSOON_GO);
  }
  EXPECT_EQ(steps(), 0u);
  ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(steps(), 2u);
}

TEST_F(ReplicaTest, OfASessionThatIsLostItIsToBeSaidAgain) {
  for (const std::string script : {"0 go+1 go! ended", "0 go+1 die again go ended"}) {
    Join(script);
    EXPECT_EQ(Draw(), 0);
    ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(event_.kind, MONSOON_GO);
    EXPECT_EQ(event_.discarded, 1);
    ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(event_.kind, MONSOON_ENDED);
    ASSERT_EQ(monsoon_leave(replica_), MONSOON_OK);
    monsoon_free(replica_);
    replica_ = nullptr;
  }
}

TEST_F(ReplicaTest, AnEvaluationComesFirst) {
  Join("0 go+1 evaluate go ended");
  EXPECT_EQ(Draw(), 0);
  ASSERT_EQ(Step(), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_EVALUATE);
  EXPECT_EQ(monsoon_finish(replica_, &event_), MONSOON_FAILED_PRECONDITION);
  EXPECT_THAT(monsoon_last_error(), HasSubstr("monsoon_report_evaluation comes first"));
  ASSERT_EQ(monsoon_report_evaluation(replica_, nullptr, 0, nullptr, &event_), MONSOON_OK);
  ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
}

TEST_F(ReplicaTest, WhatAQuestionWasToldIsToldBeforeTheEnd) {
  Join("100 go+1 go! ended");
  EXPECT_EQ(Draw(), 0);
  int due = 0;
  ASSERT_EQ(monsoon_step_is_due(replica_, 1, &due), MONSOON_OK) << monsoon_last_error();
  ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_GO);
  EXPECT_EQ(event_.discarded, 1);
  ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
  EXPECT_EQ(event_.discarded, 0);
}

TEST_F(ReplicaTest, GradientsOfRowsWithoutAStepAreNotPushedThen) {
  Join("0 go+1 ended");
  EXPECT_EQ(Draw(), 0);
  const uint64_t row = 3;
  const float values[] = {1, 2};
  ASSERT_EQ(monsoon_push_rows(replica_, 0, &row, 1, values), MONSOON_OK);
  ASSERT_EQ(monsoon_finish(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  EXPECT_EQ(event_.kind, MONSOON_ENDED);
  EXPECT_EQ(Stats().pushes, 0u);
}

// ---- rows of tables ----

TEST_F(ReplicaTest, RowsComeInTheirOrder) {
  Join("0 go+1 rows go");
  EXPECT_EQ(Draw(), 0);
  const uint64_t rows[] = {7, 99, 7};
  float values[6] = {};
  ASSERT_EQ(monsoon_fetch_rows(replica_, 0, rows, 3, values, &event_), MONSOON_OK);
  EXPECT_EQ(event_.kind, MONSOON_GO);
  EXPECT_EQ(event_.discarded, 0);
  EXPECT_THAT(values, ::testing::ElementsAre(7.25f, 7.5f, 99.25f, 99.5f, 7.25f, 7.5f));
  // Of none nothing is asked.
  ASSERT_EQ(monsoon_fetch_rows(replica_, 0, nullptr, 0, nullptr, &event_), MONSOON_OK);
  ASSERT_EQ(Step(), MONSOON_OK);
}

TEST_F(ReplicaTest, RowsOfASidecarThatDiesComeFromTheNext) {
  Join("0 go+1 die again go rows go+1 go");
  EXPECT_EQ(Draw(), 0);
  const uint64_t row = 5;
  float values[2] = {};
  ASSERT_EQ(monsoon_fetch_rows(replica_, 0, &row, 1, values, &event_), MONSOON_OK)
      << monsoon_last_error();
  EXPECT_EQ(event_.discarded, 1);
  EXPECT_EQ(values[1], 5.5f);
  EXPECT_EQ(Draw(), 0);  // what was drawn before is another's
  ASSERT_EQ(Step(), MONSOON_OK);
}

TEST_F(ReplicaTest, GradientsOfRowsLeaveWithTheStep) {
  Join("0 go+3 go go! go+1 go");
  EXPECT_EQ(Draw(), 0);
  const uint64_t rows[] = {3, 4, 3};
  const float values[] = {1, 2, 3, 4, 5, 6};
  ASSERT_EQ(monsoon_push_rows(replica_, 0, rows, 3, values), MONSOON_OK);
  ASSERT_EQ(monsoon_push_rows(replica_, 0, rows, 1, values), MONSOON_OK);
  ASSERT_EQ(monsoon_push_rows(replica_, 0, nullptr, 0, nullptr), MONSOON_OK);
  ASSERT_EQ(Step(), MONSOON_OK);
  EXPECT_EQ(Stats().pushes, 2u);
  EXPECT_EQ(Stats().bytes_pushed, 24u);
  EXPECT_EQ(Draw(), 4);
  ASSERT_EQ(Step(), MONSOON_OK);  // brings none, and the session is lost
  EXPECT_EQ(event_.discarded, 1);
  EXPECT_EQ(Stats().pushes, 0u);
  EXPECT_EQ(Draw(), 12);
}

TEST_F(ReplicaTest, RowsThatAreNotThereAreRefusedHere) {
  Join("0 go+1 go");
  float values[4] = {};
  const uint64_t rows[] = {1, 100};
  EXPECT_EQ(monsoon_fetch_rows(replica_, 0, rows, 2, values, &event_), MONSOON_INVALID_ARGUMENT);
  EXPECT_THAT(monsoon_last_error(), HasSubstr("row 100 of 100"));
  EXPECT_EQ(monsoon_push_rows(replica_, 0, rows, 2, values), MONSOON_INVALID_ARGUMENT);
  EXPECT_EQ(monsoon_push_rows(replica_, 1, rows, 1, values), MONSOON_INVALID_ARGUMENT);
  EXPECT_THAT(monsoon_last_error(), HasSubstr("the model has 1 tables"));
  EXPECT_EQ(monsoon_fetch_rows(replica_, 0, rows, 1, nullptr, &event_), MONSOON_INVALID_ARGUMENT);
  const std::vector<uint64_t> many(5000000, 1);
  std::vector<float> large(2 * many.size());
  EXPECT_EQ(monsoon_fetch_rows(replica_, 0, many.data(), many.size(), large.data(), &event_),
            MONSOON_INVALID_ARGUMENT);
  EXPECT_THAT(monsoon_last_error(), HasSubstr("one call takes 64"));
  // It goes on.
  EXPECT_EQ(Draw(), 0);
  EXPECT_EQ(Step(), MONSOON_OK);
}

TEST_F(ReplicaTest, LocalStepsHaveNoGradientsOfRows) {
  Join("2 go+1");
  const uint64_t row = 1;
  const float values[2] = {};
  EXPECT_EQ(monsoon_push_rows(replica_, 0, &row, 1, values), MONSOON_FAILED_PRECONDITION);
  EXPECT_THAT(monsoon_last_error(), HasSubstr("local steps"));
}

}  // namespace
}  // namespace monsoon
