#include "worker/session/push_bound.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/synchronization/notification.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kBound = 2;

class PushBoundTest : public ::testing::Test {
 protected:
  PushBoundTest() {
    coordinator_.tell_clock = [this](const ClockRequest& request) -> absl::StatusOr<ClockReply> {
      if (request.clock() == 1 && !request.begins() && holds_.exchange(false)) {
        asked_.Notify();
        answered_.WaitForNotification();
      }
      MutexLock lock(&mutex_);
      told_.push_back(request.clock());
      begins_.push_back(request.begins());
      changed_.NotifyAll();
      if (away_) {
        return absl::UnavailableError("away");
      }
      ClockReply reply;
      reply.set_clock(request.clock() + raise_);
      raise_ = 0;
      if (least_) {
        reply.set_least(*least_);
      }
      reply.set_slowest(7);
      return reply;
    };
  }
  void SetLeast(std::optional<uint64_t> least) {
    MutexLock lock(&mutex_);
    least_ = least;
  }
  // The clocks that were told, once there are so many.
  std::vector<uint64_t> AwaitTold(size_t count) {
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, absl::Seconds(30), [this, count] {
      mutex_.AssertHeld();
      return told_.size() >= count;
    });
    return told_;
  }
  static absl::Status Nothing() { return absl::OkStatus(); }
  // Calls that have said that it begins.
  int64_t Beginnings() {
    MutexLock lock(&mutex_);
    return std::ranges::count(begins_, true);
  }
  bool Waits(uint64_t pushes, absl::FunctionRef<absl::Status()> meanwhile) {
    const absl::StatusOr<bool> waited = bound_.Await(pushes, meanwhile);
    EXPECT_OK(waited);
    return waited.value_or(false);
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<uint64_t> told_;
  std::vector<bool> begins_;
  std::optional<uint64_t> least_ = 0;
  uint64_t raise_ = 0;
  bool away_ = false;
  std::atomic<bool> holds_ = false;  // the next call that tells of one push
  absl::Notification asked_, answered_;
  testing::FakeCoordinator coordinator_;
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), absl::Seconds(30)};
  PushBound bound_{kBound, SessionKey(), &coordinator_, &stats_, &control_, Clock::Real()};
};

TEST_F(PushBoundTest, GoesOnUntilItIsTooFarAhead) {
  EXPECT_TRUE(Waits(0, Nothing)) << "it asks first";
  EXPECT_EQ(AwaitTold(1).size(), 1u);
  EXPECT_FALSE(Waits(1, Nothing));
  EXPECT_FALSE(Waits(kBound, Nothing));
  int looks = 0;
  const auto slower = [&]() -> absl::Status {
    EXPECT_EQ(stats_.Snapshot().waits_for(),
              "worker/7, which is 3 pushes behind (staleness_bound 2)");
    if (++looks == 3) {
      SetLeast(1);
    }
    return absl::OkStatus();
  };
  EXPECT_TRUE(Waits(kBound + 1, slower));
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(stats_.Snapshot().waits_for(), "");
}

TEST_F(PushBoundTest, EachPushIsTold) {
  for (uint64_t pushes = 1; pushes <= 3; ++pushes) {
    bound_.Acknowledged(pushes);
    EXPECT_EQ(AwaitTold(pushes).back(), pushes);
  }
  bound_.Acknowledged(2);  // it is known
  bound_.Acknowledged(4);
  EXPECT_EQ(AwaitTold(4), (std::vector<uint64_t>{1, 2, 3, 4}));
}

TEST_F(PushBoundTest, OneThatComesLaterGoesOnFromTheSlowest) {
  SetLeast(100);
  {
    MutexLock lock(&mutex_);
    raise_ = 100;
  }
  EXPECT_TRUE(Waits(0, Nothing));
  EXPECT_FALSE(Waits(kBound, Nothing));
  bound_.Acknowledged(1);
  EXPECT_EQ(AwaitTold(2).back(), 101u);
  SetLeast(101);
  EXPECT_TRUE(Waits(kBound + 1, Nothing));
}

TEST_F(PushBoundTest, AfterARestItAsksAnew) {
  EXPECT_TRUE(Waits(0, Nothing));
  SetLeast(std::nullopt);  // the coordinator was started anew: what it said before stands
  bound_.Acknowledged(1);
  AwaitTold(2);
  EXPECT_FALSE(Waits(1, Nothing));
  bound_.Rest();
  int looks = 0;
  const auto unknown = [&]() -> absl::Status {
    EXPECT_EQ(stats_.Snapshot().waits_for(), "worker/7 to say how far it is");
    if (++looks == 2) {
      SetLeast(0);
    }
    return absl::OkStatus();
  };
  EXPECT_TRUE(Waits(1, unknown));
  EXPECT_EQ(looks, 2);
  EXPECT_GE(Beginnings(), 2) << "each time that it asks, until it is told";
}

TEST_F(PushBoundTest, AnAnswerFromBeforeARestIsNoBeginning) {
  EXPECT_TRUE(Waits(0, Nothing));
  holds_ = true;
  bound_.Acknowledged(1);
  asked_.WaitForNotification();
  bound_.Rest();
  answered_.Notify();
  EXPECT_TRUE(Waits(1, Nothing));
  EXPECT_GE(Beginnings(), 2);
}

TEST_F(PushBoundTest, ACoordinatorThatIsAwayIsAskedAgain) {
  {
    MutexLock lock(&mutex_);
    away_ = true;
  }
  int looks = 0;
  const auto back = [&]() -> absl::Status {
    if (++looks == 2) {
      MutexLock lock(&mutex_);
      away_ = false;
    }
    return absl::OkStatus();
  };
  EXPECT_TRUE(Waits(0, back));
}

TEST_F(PushBoundTest, AWaitEndsWithItsSession) {
  SetLeast(0);
  const auto drains = [this]() -> absl::Status {
    control_.Drain();
    return absl::OkStatus();
  };
  EXPECT_THAT(bound_.Await(9, drains),
              StatusIs(absl::StatusCode::kCancelled,
                       AllOf(HasSubstr("the session ends"), HasSubstr("worker/7"))));
  EXPECT_THAT(bound_.Await(9, [] { return absl::DataLossError("gone"); }),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("gone")));
}

TEST_F(PushBoundTest, AnyMayTellWhileItWaits) {
  std::atomic<bool> ends = false;
  Thread pusher([&] {
    for (uint64_t pushes = 1; !ends; ++pushes) {
      bound_.Acknowledged(pushes);
      SetLeast(pushes);
    }
  });
  for (uint64_t pushes = 0; pushes < 20; ++pushes) {
    EXPECT_OK(bound_.Await(pushes, Nothing));
  }
  ends = true;
  pusher.Join();
}

TEST_F(PushBoundTest, AnotherBoundFreesWhoeverWaits) {
  EXPECT_FALSE(Waits(kBound, Nothing) && Waits(kBound, Nothing));
  bool raised = false;
  EXPECT_TRUE(Waits(kBound + 1, [&] {
    if (!std::exchange(raised, true)) {
      bound_.SetBound(kBound + 1);
    }
    return absl::OkStatus();
  }));
  EXPECT_TRUE(raised);
  bound_.SetBound(0);
  SetLeast(1);
  int asked = 0;
  EXPECT_TRUE(Waits(2, [&] {
    if (++asked == 3) {
      SetLeast(2);
    }
    return absl::OkStatus();
  }));
  EXPECT_GE(asked, 3);
}

}  // namespace
}  // namespace monsoon
