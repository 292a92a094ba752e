#include "worker/sidecar/program_network.h"

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/client/monsoon.h"
#include "worker/sidecar/program_network_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::Evaluate;
using ::monsoon::testing::Evaluated;
using ::monsoon::testing::FakeProgram;
using ::monsoon::testing::Finish;
using ::monsoon::testing::Flush;
using ::monsoon::testing::RowsOf;
using ::monsoon::testing::StatusIs;
using ::monsoon::testing::StepOf;
using ::monsoon::testing::Train;
using ::monsoon::testing::Wait;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ProgramNetworkTest = ::monsoon::testing::ProgramNetworkFixture;

TEST_F(ProgramNetworkTest, DrawsAheadStepsAndEvaluates) {
  Script({Train({0, 1}), Flush(), Evaluate(9), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    for (int step = 0; step < 3; ++step) {
      fake_.Call(MessageKind::kStep, StepOf(1));
      EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_GO);
    }
    fake_.Call(MessageKind::kStep, StepOf(1));
    EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -4.0f) << "each gradient is pushed once";
  ASSERT_EQ(coordinator_.evaluations().size(), 1u);
  EXPECT_EQ(coordinator_.evaluations()[0].metric(0).value(), 2.5);
  size_t reported = 0;
  for (const NextWorkRequest& request : coordinator_.requests()) {
    reported += static_cast<size_t>(request.done_size());
  }
  EXPECT_EQ(reported, 2u);
  ASSERT_NE(fake_.seen().call(), nullptr) << "the next session answers it";
}

TEST_F(ProgramNetworkTest, AStepMayCountSeveralBatches) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(3));
    fake_.AwaitEvent();
    fake_.Call(MessageKind::kStep, StepOf(1));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -2.0f);
}

TEST_F(ProgramNetworkTest, AStepTakesAsLongAsTheProgramBetweenItsCalls) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(1));  // 1 ms before the draw, and 1 ms after it
    fake_.AwaitEvent();
    fake_.Call(MessageKind::kStep, StepOf(3));  // 1 ms
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_DOUBLE_EQ(stats_.Snapshot().step_compute_ms(), 1.5);
}

TEST_F(ProgramNetworkTest, TheStepThatCountsTheLastBatchBringsTheNext) {
  Script({Train({0}), Train({1}), Finish()});
  fake_.Call(MessageKind::kBegin);
  ASSERT_OK(fake_.seen().AwaitCall(absl::Seconds(30)));
  const SessionEnd end = Run([this] {
    EXPECT_EQ(BatchesIn(fake_.AwaitEvent()), 2u);
    for (const uint32_t more : {0u, 2u, 0u}) {
      fake_.Call(MessageKind::kStep, StepOf(1));
      EXPECT_EQ(BatchesIn(fake_.AwaitEvent()), more);
    }
    fake_.Call(MessageKind::kStep, StepOf(1));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -4.0f);
  EXPECT_EQ(fake_.seen().memory().flags().gradients_taken, 4u);
}

TEST_F(ProgramNetworkTest, WhatIsTakenReachesTheProgramWithTheAnswerToAStep) {
  for (const bool computing : {true, false}) {
    std::vector<float> fetched(layout_.size(), computing ? 5.0f : 7.0f);
    const float before = fake_.seen().memory().parameters()[0];
    network_.SetParameters(fetched);
    if (!computing) {
      fake_.Call(MessageKind::kDraw);  // whose answer tells of no parameters
      ASSERT_OK(fake_.seen().AwaitCall(absl::Seconds(30)));
    }
    network_.CopyParameters();
    std::ranges::fill(fetched, 9.0f);  // by the next fetch
    EXPECT_EQ(fake_.seen().memory().parameters()[0], before);
    network_.CopyParameters();

    fake_.seen().Discard();  // so that any call is answered by a GO
    std::thread program([&] {
      if (computing) {
        fake_.Call(MessageKind::kStep, StepOf(1));
      }
      const FakeProgram::Event event = fake_.AwaitEvent();
      EXPECT_EQ(event.figures.parameters_changed, 1);
      EXPECT_EQ(fake_.seen().memory().parameters()[0], computing ? 5.0f : 7.0f);
      FieldWriter what;
      what.String("enough");
      fake_.Call(MessageKind::kDiverged, what.bytes());
    });
    EXPECT_THAT(StepAlone().message(), HasSubstr("enough"));
    program.join();
    fake_.seen().Refuse(absl::AbortedError("over"));
    EXPECT_EQ(fake_.AwaitAnswer().kind, MessageKind::kError);
  }
}

TEST_F(ProgramNetworkTest, WhileAStepWaitsTheProgramsVectorIsFreeToBeWritten) {
  std::vector<float> fetched(layout_.size(), 5.0f);
  network_.SetParameters(fetched);
  fake_.Call(MessageKind::kStep, StepOf(1));
  ASSERT_OK(fake_.seen().AwaitCall(absl::Seconds(30)));
  network_.CopyParameters();
  EXPECT_EQ(network_.own_parameters()[0], 5.0f);
}

TEST_F(ProgramNetworkTest, AStepOfASessionThatIsOverIsDiscarded) {
  Script({Train({0, 1}), Finish()});
  fake_.seen().Discard();
  const SessionEnd end = Run([this] {
    fake_.Call(MessageKind::kStep, StepOf(1));
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.discarded, 1);
    EXPECT_EQ(event.figures.parameters_changed, 1);
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], -1.0f) << "the first one is not pushed";
  EXPECT_DOUBLE_EQ(stats_.Snapshot().step_compute_ms(), 2.0) << "nor is its time counted";
}

TEST_F(ProgramNetworkTest, AnEvaluationForASessionThatIsOverIsDiscarded) {
  Script({Train({0, 1}), Finish()});
  fake_.seen().Discard();
  const SessionEnd end = Run([this] {
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.kind, MONSOON_GO);
    EXPECT_EQ(event.figures.discarded, 1);
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
}

// The session listens before its first question, and hears of them.
TEST_F(ProgramNetworkTest, WhatCameBeforeTheFirstLeaseIsNoLastStep) {
  Script({Train({0, 1}), Finish()});
  fake_.seen().Discard();
  fake_.Call(MessageKind::kEvaluated, Evaluated(""));
  const SessionEnd end = Run([this] {
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.discarded, 1);
    EXPECT_EQ(BatchesIn(event), 0u);
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
}

TEST_F(ProgramNetworkTest, AnEndOfSamplesThatCameBeforeTheFirstLeaseIsOne) {
  Script({Train({0, 1}), Finish()});
  fake_.Call(MessageKind::kNoMoreSamples, StepOf(0));
  const SessionEnd end = Run([] {});
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_NE(fake_.seen().call(), nullptr) << "its answer is the end of the job";
  int done = 0;
  for (const NextWorkRequest& request : coordinator_.requests()) {
    done += request.done_size();
  }
  EXPECT_EQ(done, 2) << "nobody has samples for them";
}

TEST_F(ProgramNetworkTest, WithTheFirstBatchesOfASessionComeItsParameters) {
  Script({Train({0, 1}), Finish()});
  fake_.seen().Discard();
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(/*discarded=*/true), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
}

TEST_F(ProgramNetworkTest, MoreBatchesThanAreDrawnAreRefused) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(5));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFailed);
  EXPECT_THAT(end.message, HasSubstr("4 are"));
}

TEST_F(ProgramNetworkTest, AStepEndsWithTheProgramOrTheSession) {
  fake_.Leave();
  // Not before the session is told: it would end without its pushes being durable.
  std::thread step([this] {
    EXPECT_THAT(StepAlone(), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
    EXPECT_EQ(control_.state(), SessionControl::State::kDrain);
  });
  control_.Drain();
  step.join();
  EXPECT_THAT(StepAlone(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("session ends")));
}

TEST_F(ProgramNetworkTest, AProgramThatIsGoneLeavesTheSessionInGoodOrder) {
  Script({Train({0, 1}), Finish()});
  const absl::Duration begin = Clock::Real()->Now();
  const SessionEnd end = Run([&] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Leave();
    control_.Drain();  // as who watches the program does, a little later
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kDrained) << end.message;
  // Others may wait for a round of this one, until it has left.
  EXPECT_LT(Clock::Real()->Now() - begin, absl::Seconds(4)) << "of a patience of 5";
}

TEST_F(ProgramNetworkTest, SoDoesOneThatIsToEvaluate) {
  Script({Evaluate(9)});
  const SessionEnd end = Run([&] {
    fake_.Call(MessageKind::kStep, StepOf(1));
    EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
    fake_.Leave();
    control_.Drain();
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kDrained) << end.message;
}

TEST_F(ProgramNetworkTest, ACallOutOfPlaceIsRefused) {
  fake_.Call(MessageKind::kBegin);
  EXPECT_THAT(StepAlone(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("call 2 has no place")));
}

TEST_F(ProgramNetworkTest, AProgramThatHasDivergedEndsItsSessionWithWhatItHasPushed) {
  Script({Train({0, 1}), Wait()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    for (int step = 0; step < 3; ++step) {
      fake_.Call(MessageKind::kStep, StepOf(1));
      EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_GO);
    }
    FieldWriter fields;
    fields.String("step 3: exp_avg of w");
    fake_.Call(MessageKind::kDiverged, fields.bytes());
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFailed);
  EXPECT_EQ(end.failure, ReportFailureRequest::PROGRAM_DIVERGED);
  EXPECT_EQ(end.message, "step 3: exp_avg of w");
  EXPECT_EQ(shards_.w()[0], -3.0f);
  ASSERT_EQ(coordinator_.requests().back().done_size(), 1) << "the block that is not whole is not";
  EXPECT_EQ(coordinator_.requests().back().done(0).block(), 0u);
  ASSERT_NE(fake_.seen().call(), nullptr) << "who ends its part answers it";
}

TEST_F(ProgramNetworkTest, AStepWithoutItsFieldsIsRefused) {
  fake_.Call(MessageKind::kStep, "abc");
  EXPECT_THAT(StepAlone(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed")));
}

TEST_F(ProgramNetworkTest, AProgramThatCannotEvaluateSaysWhy) {
  const std::pair<std::string, const char*> cases[] = {
      {Evaluated("no test data"), "cannot evaluate: no test data"}, {"abc", "malformed"}};
  for (const auto& [fields, says] : cases) {
    fake_.Call(MessageKind::kStep, StepOf(1));
    std::thread program([this, &fields] {
      EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
      fake_.Call(MessageKind::kEvaluated, fields);
    });
    EXPECT_THAT(network_.AskToEvaluate().status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says)));
    program.join();
    fake_.seen().Answer(MONSOON_GO);
    fake_.AwaitEvent();
  }
}

// ---- streams ----

TEST_F(ProgramNetworkTest, AStreamIsTakenAndToldWithTheBlocksOfItsPushes) {
  std::vector<std::string> asked;
  network_.SetStreamTaker([&](const std::string& stream) -> absl::StatusOr<StreamPosition> {
    asked.push_back(stream);
    StreamPosition position;
    position.set_state("12");
    position.set_worker(4);
    return position;
  });
  Script({Train({0, 1}), Finish(), Finish()});
  const SessionEnd end = Run([this] {
    const Message answer = TakeStream("part-0");
    EXPECT_EQ(answer.kind, MessageKind::kStream);
    FieldReader fields(answer.fields);
    EXPECT_EQ(fields.Number<uint8_t>(), 1);
    EXPECT_EQ(fields.String(), "12");
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(1, {}, {}, "13"));
    fake_.AwaitEvent();
    fake_.Call(MessageKind::kStep, StepOf(1, {}, {}, "14"));
    fake_.AwaitEvent();
    fake_.Call(MessageKind::kStep, StepOf(2));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(asked, ElementsAre("part-0"));
  // Of the two that were pushed since the last question, the newest; with its push.
  const std::vector<NextWorkRequest> requests = coordinator_.requests();
  ASSERT_GE(requests.size(), 2u);
  EXPECT_EQ(requests[0].stream_size(), 0);
  ASSERT_EQ(requests[1].stream_size(), 1);
  EXPECT_EQ(requests[1].stream(0).name(), "part-0");
  EXPECT_EQ(requests[1].stream(0).state(), "14");
  EXPECT_EQ(requests[1].stream(0).push(), 2u);
  EXPECT_EQ(requests[1].done_size(), 2);
}

TEST_F(ProgramNetworkTest, AProgramAloneIsToldThatItsStreamIsAnothers) {
  network_.SetStreamTaker([](const std::string&) -> absl::StatusOr<StreamPosition> {
    return absl::InvalidArgumentError("stream part-0 is being read by worker/3");
  });
  Script({Train({0, 1}), Finish(), Finish()});
  const SessionEnd end = Run([this] {
    const Message answer = TakeStream("part-0");
    EXPECT_EQ(answer.kind, MessageKind::kError);
    EXPECT_THAT(answer.fields, HasSubstr("is being read by worker/3"));
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(4));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
}

// ---- rows of tables ----

TEST_F(ProgramNetworkTest, RowsAreReadWithinAStepAndAnEvaluation) {
  Script({Train({0, 1}), Flush(), Evaluate(9), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kFetchRows, RowsOf({7, 3}));
    EXPECT_THAT(AwaitRows(), ElementsAre(7, -7, 3, -3));
    fake_.Call(MessageKind::kStep, StepOf(4, {7, 3, 7}));
    EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
    fake_.Call(MessageKind::kFetchRows, RowsOf({1}));
    EXPECT_THAT(AwaitRows(), ElementsAre(1, -1));
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(shards_.pushed_rows, ElementsAre(3, 7));
  EXPECT_THAT(shards_.pushed_values, ElementsAre(1, 2, 2, 4));
}

TEST_F(ProgramNetworkTest, RowsOfSeveralStepsLeaveWithTheirPush) {
  options_.n_push = 2;
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    for (const uint64_t row : {9, 2, 9, 5}) {
      fake_.Call(MessageKind::kStep, StepOf(1, {row}));
      if (row != 5) fake_.AwaitEvent();
    }
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(shards_.pushed_rows, ElementsAre(2, 9, 5, 9));
}

TEST_F(ProgramNetworkTest, TensorsWithoutGradientAreNamedByThePush) {
  Script({Train({0, 1}), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    for (const std::vector<uint32_t>& absent :
         std::vector<std::vector<uint32_t>>{{1}, {}, {0, 1}, {0}}) {
      fake_.Call(MessageKind::kStep, StepOf(1, {}, absent));
      if (absent != std::vector<uint32_t>{0}) fake_.AwaitEvent();
    }
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_THAT(shards_.pushed_absent,
              ElementsAre(ElementsAre(1), ElementsAre(), ElementsAre(0, 1), ElementsAre(0)));
  // The program's vector is all 1.
  EXPECT_EQ(shards_.pushed_floats[7], 0.0f) << "whatever the program has left there";
  EXPECT_EQ(shards_.pushed_floats[8], 1.0f);
}

TEST_F(ProgramNetworkTest, AbsentTensorsThatTheModelHasNotAreRefused) {
  for (const std::vector<uint32_t>& absent :
       std::vector<std::vector<uint32_t>>{{1000}, {1, 0}, {1, 1}}) {
    fake_.Call(MessageKind::kStep, StepOf(0, {}, absent));
    EXPECT_THAT(StepAlone(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no gradient")));
    fake_.seen().Refuse(absl::InternalError("done"));
    EXPECT_EQ(fake_.AwaitAnswer().kind, MessageKind::kError);
  }
}

// A shard that is away while rows are fetched, and the session that is lost meanwhile: the call
// stays, and the next session answers it.
TEST_F(ProgramNetworkTest, AFetchThatASessionLeavesIsAnsweredByTheNext) {
  int tries = 0;
  shards_.before_rows = [&] {
    if (++tries == 3) control_.Stop();
    return absl::UnavailableError("ps/0: away");
  };
  Script({Train({0, 1}), Finish()});
  SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kFetchRows, RowsOf({7}));
  });
  EXPECT_NE(end.kind, SessionEnd::Kind::kFinished);
  EXPECT_EQ(tries, 3);
  ASSERT_NE(fake_.seen().call(), nullptr);
  shards_.before_rows = nullptr;
  fake_.seen().Discard();
  SessionControl control(&clock_, absl::Seconds(3));
  LeasedBatches batches(DataJob(), 16);
  ProgramNetwork network(&fake_.seen(), &batches, &control, &programs_time_,
                         {TableInfo{"words", 100, 2, {}, {}}});
  ReplicaGroup group({}, &network);
  DownpourRunner runner(options_, &layout_, &shards_, &group, nullptr, &stats_, &control, &clock_);
  network.Connect(&runner, nullptr);
  std::thread program([this] {
    EXPECT_THAT(AwaitRows(), ElementsAre(7, -7));
    // What it computed on is of the session before.
    fake_.Call(MessageKind::kStep, StepOf(4, {7}));
    EXPECT_EQ(fake_.AwaitEvent().figures.discarded, 1);
    fake_.Call(MessageKind::kBegin);  // has no place, and ends this
  });
  std::vector<float> gradient(layout_.size());
  EXPECT_THAT(network.LossAndGradient(Batch(), StepKey(), gradient),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no place")));
  program.join();
  EXPECT_TRUE(shards_.pushed_rows.empty());
}

TEST_F(ProgramNetworkTest, RowsThatAreMalformedAreRefused) {
  const std::pair<MessageKind, std::string> calls[] = {
      {MessageKind::kFetchRows, "abc"},
      {MessageKind::kFetchRows, RowsOf({1}, /*table=*/1)},
      {MessageKind::kFetchRows, RowsOf({1}) + "x"},
      {MessageKind::kStep, StepOf(0, {100})},
      {MessageKind::kStep, StepOf(0, {1}) + "x"},
      {MessageKind::kStep, StepOf(0, {1}).substr(0, 60)},
      {MessageKind::kTakeStream, "abc"}};
  for (const auto& [kind, fields] : calls) {
    fake_.Call(kind, fields);
    EXPECT_EQ(StepAlone().code(), absl::StatusCode::kInvalidArgument) << fields.size();
    fake_.seen().Refuse(absl::InternalError("done"));
    EXPECT_EQ(fake_.AwaitAnswer().kind, MessageKind::kError);
  }
}

}  // namespace
}  // namespace monsoon
