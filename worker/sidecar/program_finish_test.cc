// A program that ends its job, as its session sees it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
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
using ::monsoon::testing::ProgramNetworkFixture;
using ::monsoon::testing::StepOf;
using ::monsoon::testing::Train;
using ::monsoon::testing::Wait;

class ProgramFinishTest : public ProgramNetworkFixture {
 protected:
  ProgramFinishTest() { options_.n_push = 3; }

  // The answers to the first requests; then to wait, until one ends the job: what is told from
  // then on, the last of it again and again.
  void Script(std::vector<NextWorkReply> first, std::vector<NextWorkReply> ending) {
    coordinator_.next_work = [this, first = std::move(first), ending = std::move(ending)](
                                 const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
      if (!request.end_job()) {
        EXPECT_LT(request.request(), kMostWaits) << "nobody ends the job";
        return request.request() <= first.size() ? first[request.request() - 1]
               : request.request() < kMostWaits  ? Wait()
                                                 : Finish();
      }
      if (ended_ == 0) {
        pushed_before_ = shards_.w()[0];
      }
      return ending[std::min(ended_++, ending.size() - 1)];
    };
  }
  // The session has asked for work: from then on it hears its program only in what it is given.
  void NotifyWhenItAsks(absl::Notification* asked) {
    coordinator_.next_work = [asked,
                              then = coordinator_.next_work](const NextWorkRequest& request) {
      if (request.request() == 1) {
        asked->Notify();
      }
      return then(request);
    };
  }
  // Of no batches and steps, or of those that were not told.
  void CallFinish(uint32_t batches = 0) {
    fake_.Call(MessageKind::kFinish, batches > 0 ? StepOf(batches) : FinishAlone());
  }
  std::vector<uint32_t> Reported() const {
    std::vector<uint32_t> blocks;
    for (const NextWorkRequest& request : coordinator_.requests()) {
      for (const BlockId& block : request.done()) {
        blocks.push_back(block.block());
      }
    }
    return blocks;
  }

  static constexpr uint64_t kMostWaits = 10000;
  size_t ended_ = 0;          // requests that have ended it
  float pushed_before_ = 99;  // what the shards had when the first one did

 private:
  static std::string FinishAlone() {
    FieldWriter fields;
    fields.Number(uint32_t{0});
    for (int i = 0; i < 4; ++i) {
      fields.Number(uint64_t{0});
    }
    fields.Number(uint8_t{0});
    fields.Number(0.0);
    fields.Number(uint32_t{0});
    fields.Number(uint32_t{0});
    fields.Number(uint32_t{0});  // positions
    return fields.bytes();
  }
};

TEST_F(ProgramFinishTest, WhatIsSummedUpIsPushedBeforeTheJobIsEnded) {
  Script({Train({0, 1})}, {Wait(), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    fake_.Call(MessageKind::kStep, StepOf(2));
    fake_.AwaitEvent();
    fake_.Call(MessageKind::kStep, StepOf(1));
    fake_.AwaitEvent();
    CallFinish();
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(pushed_before_, -2.0f) << "two steps, and n_push is 3";
  EXPECT_EQ(shards_.w()[0], -2.0f) << "the gradient that no step has counted is not pushed";
  EXPECT_THAT(Reported(), ::testing::ElementsAre(0)) << "the other block is not done";
  EXPECT_EQ(ended_, 2u) << "each request says it";
  ASSERT_NE(fake_.seen().call(), nullptr) << "how the job has ended answers it";
  EXPECT_EQ(fake_.seen().call()->kind, MessageKind::kFinish);
}

TEST_F(ProgramFinishTest, StepsThatWereNotToldComeWithIt) {
  Script({Train({0, 1})}, {Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    CallFinish(/*batches=*/2);
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(pushed_before_, -1.0f);
  EXPECT_THAT(Reported(), ::testing::ElementsAre(0));
}

TEST_F(ProgramFinishTest, BlocksThatWereAskedForBeforeAreNobodys) {
  options_.overlap = ASYNC;
  absl::Notification asked, pushed;
  shards_.after_push = [&pushed] { pushed.Notify(); };
  Script({Train({0}), Train({1})}, {Finish()});
  coordinator_.next_work = [&, then = coordinator_.next_work](
                               const NextWorkRequest& request) -> absl::StatusOr<NextWorkReply> {
    if (request.request() == 2) {  // it is asked ahead: answered once the program has ended the job
      EXPECT_FALSE(request.end_job());
      asked.Notify();
      pushed.WaitForNotification();
    }
    return then(request);
  };
  const SessionEnd end = Run([&] {
    EXPECT_EQ(Draw(), 2u);
    fake_.Call(MessageKind::kStep, StepOf(1));
    fake_.AwaitEvent();
    asked.WaitForNotification();  // by a thread of the session
    CallFinish();
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(pushed_before_, -1.0f);
  EXPECT_TRUE(Reported().empty());
}

TEST_F(ProgramFinishTest, ItMayTestWhatTheJobHasEndedWith) {
  Script({Train({0, 1})}, {Evaluate(9), Wait(), Finish()});
  const SessionEnd end = Run([this] {
    EXPECT_EQ(Draw(), 4u);
    CallFinish();
    EXPECT_EQ(fake_.AwaitEvent().figures.kind, MONSOON_EVALUATE);
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(coordinator_.evaluations().size(), 1u);
}

TEST_F(ProgramFinishTest, OfALostSessionItIsSaidAgain) {
  Script({Train({0, 1})}, {Finish()});
  absl::Notification asked;
  NotifyWhenItAsks(&asked);
  fake_.seen().Discard();
  const SessionEnd end = Run([&] {
    asked.WaitForNotification();
    CallFinish(/*batches=*/1);  // of the session before
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.kind, MONSOON_GO);
    EXPECT_EQ(event.figures.discarded, 1);
    CallFinish();
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(shards_.w()[0], 0.0f) << "its step was of the session before";
}

TEST_F(ProgramFinishTest, ANewSessionWithoutBlocksHearsIt) {
  Script({}, {Finish()});  // others have all there is
  fake_.seen().Discard();
  const SessionEnd end = Run([this] { CallFinish(); });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(ended_, 1u);
}

TEST_F(ProgramFinishTest, SoDoesOneThatIsAskedToEvaluate) {
  Script({Evaluate(9)}, {Finish()});
  absl::Notification asked;
  NotifyWhenItAsks(&asked);
  fake_.seen().Discard();
  const SessionEnd end = Run([&] {
    asked.WaitForNotification();
    CallFinish();
    const FakeProgram::Event event = fake_.AwaitEvent();
    EXPECT_EQ(event.figures.kind, MONSOON_EVALUATE);
    EXPECT_EQ(event.figures.discarded, 1);
    fake_.Call(MessageKind::kEvaluated, Evaluated(""));
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kFinished) << end.message;
  EXPECT_EQ(ended_, 1u);
}

TEST_F(ProgramFinishTest, AProgramThatIsGoneMeanwhileLeavesInGoodOrder) {
  Script({}, {Wait()});
  fake_.seen().Discard();
  const SessionEnd end = Run([this] {
    fake_.Leave();
    control_.Drain();
  });
  EXPECT_EQ(end.kind, SessionEnd::Kind::kDrained) << end.message;
}

}  // namespace
}  // namespace monsoon
