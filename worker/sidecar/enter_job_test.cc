#include "worker/sidecar/enter_job.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::monsoon::testing::FakeCoordinator;
using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(30);

// Answers Enter by `reply`; remembers the requests.
class FakeEntrance : public FakeCoordinator {
 public:
  absl::StatusOr<EnterReply> Enter(const EnterRequest& request) override {
    requests.push_back(request);
    if (refusals_left > 0) {
      --refusals_left;
      return refusal;
    }
    return reply;
  }
  std::vector<EnterRequest> requests;
  int refusals_left = 0;
  absl::Status refusal;
  EnterReply reply;
};

class EnterJobTest : public ::testing::Test {
 protected:
  EnterJobTest() {
    coordinator_.reply.set_job("gpt-1");
    coordinator_.reply.set_retry_ms(100);
    Say(EnterReply::WAIT);
  }
  // Of one that writes as `write` does; it is told for the first time.
  void Begin(EnterJob::Write write = nullptr) {
    EnterJob::Options options;
    options.job.set_name("gpt");
    options.guest = 7001;
    options.pid = 201;
    options.clock = &clock_;
    options.write = write != nullptr ? std::move(write)
                                     : [](const EnterReply&, std::span<const float>, SilentPeer*) {
                                         return absl::OkStatus();
                                       };
    enter_ = std::make_unique<EnterJob>(std::move(options), &coordinator_);
    ASSERT_OK(enter_->Begin(absl::ZeroDuration()));
  }
  void Say(EnterReply::Part part, uint64_t writer = 0) {
    coordinator_.reply.set_part(part);
    coordinator_.reply.set_writer(writer);
    coordinator_.reply.set_reason(part == EnterReply::WAIT ? "waits for a program" : "");
  }
  // The next call is due.
  absl::Status Poll() {
    clock_.Advance(absl::Seconds(1));
    return enter_->Poll(initial_);
  }
  // Until what is being written has ended, and that is seen.
  void AwaitWritten() {
    const absl::Time end = absl::Now() + kLong;
    while (enter_->writing()) {
      ASSERT_LT(absl::Now(), end);
      ASSERT_OK(Poll());
      std::this_thread::yield();
    }
  }

  FakeEntrance coordinator_;
  ManualClock clock_;
  const std::vector<float> initial_ = {1, 2, 3};
  std::unique_ptr<EnterJob> enter_;  // last: it uses the others
};

TEST_F(EnterJobTest, WritesInItsTurnAndTellsThatItIsSealed) {
  std::atomic<int> writes = 0;
  Begin([&](const EnterReply& turn, std::span<const float> initial, SilentPeer*) {
    EXPECT_EQ(turn.writer(), 1u);
    EXPECT_THAT(std::vector<float>(initial.begin(), initial.end()), ElementsAre(1, 2, 3));
    ++writes;
    return absl::OkStatus();
  });
  ASSERT_OK(Poll());
  EXPECT_FALSE(enter_->writing());
  Say(EnterReply::INITIALIZE, 1);
  clock_.Advance(absl::Seconds(1));
  ASSERT_OK(enter_->Poll({}));
  EXPECT_FALSE(enter_->writing()) << "the program has not set them yet";
  ASSERT_OK(Poll());
  AwaitWritten();
  // What it was told while it wrote is its turn still.
  ASSERT_OK(Poll());
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(coordinator_.requests.back().sealed_by(), 1u);
  EXPECT_FALSE(enter_->may_train());
  Say(EnterReply::TRAIN);
  ASSERT_OK(Poll());
  EXPECT_TRUE(enter_->may_train());
  EXPECT_EQ(coordinator_.requests.front().sealed_by(), 0u);
  EXPECT_EQ(coordinator_.requests.front().guest(), 7001u);
}

TEST_F(EnterJobTest, KeepsTheJobThatItFoundFirst) {
  Begin();
  ASSERT_OK(Poll());
  EXPECT_EQ(coordinator_.requests[0].job().name(), "gpt");
  EXPECT_EQ(coordinator_.requests[1].job().name(), "gpt-1");
}

TEST_F(EnterJobTest, AsksWhenItIsDue) {
  Begin();
  EXPECT_EQ(enter_->pause(), absl::Milliseconds(100));
  ASSERT_OK(enter_->Poll(initial_));
  EXPECT_EQ(coordinator_.requests.size(), 1u);
  clock_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(enter_->pause(), absl::ZeroDuration());
  ASSERT_OK(enter_->Poll(initial_));
  EXPECT_EQ(coordinator_.requests.size(), 2u);
}

TEST_F(EnterJobTest, ATurnThatIsLostWhileItWritesCountsForNothing) {
  absl::Notification go_on;
  std::vector<uint64_t> writers;
  Begin([&](const EnterReply& turn, std::span<const float>, SilentPeer*) -> absl::Status {
    writers.push_back(turn.writer());
    if (turn.writer() > 1) {
      return absl::OkStatus();
    }
    EXPECT_TRUE(go_on.WaitForNotificationWithTimeout(kLong));
    return absl::FailedPreconditionError("another program writes: number 2");
  });
  Say(EnterReply::INITIALIZE, 1);
  ASSERT_OK(Poll());
  EXPECT_TRUE(enter_->writing());
  Say(EnterReply::WAIT);
  ASSERT_OK(Poll());
  // Its turn comes again before the first write has ended: one at a time.
  Say(EnterReply::INITIALIZE, 3);
  ASSERT_OK(Poll());
  EXPECT_TRUE(enter_->writing());
  Say(EnterReply::WAIT);
  ASSERT_OK(Poll());
  go_on.Notify();
  AwaitWritten();
  EXPECT_EQ(coordinator_.requests.back().sealed_by(), 0u);
  Say(EnterReply::INITIALIZE, 3);
  ASSERT_OK(Poll());
  AwaitWritten();
  ASSERT_OK(Poll());
  EXPECT_THAT(writers, ElementsAre(1, 3));
  EXPECT_EQ(coordinator_.requests.back().sealed_by(), 3u);
}

TEST_F(EnterJobTest, AWriteThatFailsIsRepeatedWhileItIsItsTurn) {
  std::atomic<int> writes = 0;
  Begin([&](const EnterReply&, std::span<const float>, SilentPeer*) -> absl::Status {
    return ++writes == 1 ? absl::UnavailableError("ps/0: gone") : absl::OkStatus();
  });
  Say(EnterReply::INITIALIZE, 1);
  ASSERT_OK(Poll());
  AwaitWritten();
  ASSERT_OK(Poll());
  EXPECT_EQ(writes, 2);
  EXPECT_EQ(coordinator_.requests.back().sealed_by(), 1u);
}

// That a write begins anew says nothing of the shard.
TEST_F(EnterJobTest, TellsWhichShardDoesNotAnswerUntilItDoes) {
  std::atomic<int> writes = 0;
  absl::Notification answers;
  Begin([&](const EnterReply&, std::span<const float>, SilentPeer* silent) -> absl::Status {
    if (++writes == 1) {
      silent->Note(1);
      return absl::DeadlineExceededError("ps/1: no answer");
    }
    EXPECT_TRUE(answers.WaitForNotificationWithTimeout(kLong));
    silent->Answers(1);
    return absl::OkStatus();
  });
  Say(EnterReply::INITIALIZE, 1);
  ASSERT_OK(Poll());
  EXPECT_FALSE(coordinator_.requests.front().has_silent_shard());
  const absl::Time end = absl::Now() + kLong;
  while (writes < 2) {
    ASSERT_LT(absl::Now(), end);
    ASSERT_OK(Poll());
    std::this_thread::yield();
  }
  ASSERT_OK(Poll());
  ASSERT_TRUE(coordinator_.requests.back().has_silent_shard());
  EXPECT_EQ(coordinator_.requests.back().silent_shard(), 1u);
  answers.Notify();
  AwaitWritten();
  ASSERT_OK(Poll());
  EXPECT_FALSE(coordinator_.requests.back().has_silent_shard());
  EXPECT_EQ(coordinator_.requests.back().sealed_by(), 1u);
}

TEST_F(EnterJobTest, WhatWasLostIsWrittenAgainByALaterWriter) {
  std::vector<uint64_t> writers;
  Begin([&](const EnterReply& turn, std::span<const float>, SilentPeer*) -> absl::Status {
    writers.push_back(turn.writer());
    return absl::OkStatus();
  });
  Say(EnterReply::INITIALIZE, 1);
  ASSERT_OK(Poll());
  AwaitWritten();
  Say(EnterReply::TRAIN);
  ASSERT_OK(Poll());
  ASSERT_TRUE(enter_->may_train());

  enter_->Again();
  EXPECT_FALSE(enter_->may_train());
  Say(EnterReply::INITIALIZE, 2);
  ASSERT_OK(Poll());
  EXPECT_TRUE(coordinator_.requests.back().again());
  EXPECT_EQ(coordinator_.requests.back().sealed_by(), 0u);
  AwaitWritten();
  ASSERT_OK(Poll());
  EXPECT_THAT(writers, ElementsAre(1, 2));
  EXPECT_EQ(coordinator_.requests.back().sealed_by(), 2u);
}

TEST_F(EnterJobTest, ACoordinatorThatIsAwayIsAskedAgain) {
  coordinator_.refusal = absl::UnavailableError("unix:c: connection refused");
  coordinator_.refusals_left = 1;
  EnterJob::Options options;
  EnterJob one(options, &coordinator_);
  EXPECT_OK(one.Begin(kLong));
  EXPECT_EQ(coordinator_.requests.size(), 2u);

  coordinator_.refusals_left = 1;
  EnterJob impatient(options, &coordinator_);
  EXPECT_THAT(impatient.Begin(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("connection refused; is `coordinator up` running?")));

  Begin();
  coordinator_.refusals_left = 3;
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(Poll());
    EXPECT_EQ(enter_->reply().job(), "gpt-1") << "the newest answer stays";
  }
  Say(EnterReply::TRAIN);
  EXPECT_OK(Poll());
  EXPECT_TRUE(enter_->may_train());
}

TEST_F(EnterJobTest, WhatIsRefusedIsFinal) {
  Begin();
  coordinator_.refusal = absl::FailedPreconditionError("job gpt-1 has ended: CANCELLED");
  coordinator_.refusals_left = 2;
  EXPECT_THAT(Poll(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has ended")));
  EnterJob::Options options;
  EnterJob other(options, &coordinator_);
  EXPECT_THAT(other.Begin(kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has ended")));
}

TEST(MakeProgramJobTest, NamesTheLineOrTheTensor) {
  Model model;
  model.add_tensor()->set_name("wte");
  model.mutable_tensor(0)->add_shape(4);
  EXPECT_THAT(MakeProgramJob("name: \"gpt\"\nbatch_sise: 4\n", model),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("job settings:2")));
}

TEST(MakeProgramJobTest, TellsWhatTrainsBadly) {
  Model model;
  model.add_tensor()->set_name("wte");
  model.mutable_tensor(0)->add_shape(4);
  const std::string settings =
      "name: \"gpt\" batch_size: 4 train { joiners { examples: 400 } } stop { epochs: 1 } downpour "
      "{ "
      "n_push: 4 optimizer { momentum { rate: 0.1 momentum: 0.9 } } }";
  std::vector<std::string> advice;
  ASSERT_OK(MakeProgramJob(settings, model, &advice));
  EXPECT_THAT(advice,
              ElementsAre(AllOf(StartsWith("downpour.n_push: a push is the sum of 4 gradients"),
                                HasSubstr("; divide the rate by n_push"))));
}

}  // namespace
}  // namespace monsoon
