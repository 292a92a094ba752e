#include "common/transport/frame/fault.h"

#include <set>
#include <string>

#include "common/testing/status_matchers.h"
#include "common/transport/frame/faulty_call.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FaultOptionsTest, ParsesEachPart) {
  ASSERT_OK_AND_ASSIGN(FaultOptions options, ParseFaultOptions("delay_ms=20,drop=0.01,seed=1"));
  EXPECT_EQ(options.delay_ms, 20u);
  EXPECT_EQ(options.drop, 0.01);
  EXPECT_EQ(options.seed, 1u);
  EXPECT_TRUE(options.enabled());
  EXPECT_EQ(options.compute_delay_ms, 0u);
  ASSERT_OK_AND_ASSIGN(options, ParseFaultOptions("compute_delay_ms=30"));
  EXPECT_EQ(options.compute_delay_ms, 30u);
  ASSERT_OK_AND_ASSIGN(options, ParseFaultOptions("break_device_after=7"));
  EXPECT_EQ(options.break_device_after, 7u);
  EXPECT_TRUE(options.enabled());
  EXPECT_EQ(options.delay_ms, 0u);
  EXPECT_TRUE(options.enabled());
  ASSERT_OK_AND_ASSIGN(options, ParseFaultOptions(""));
  EXPECT_FALSE(options.enabled());
}

TEST(FaultOptionsTest, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"delay=20", "delay_ms=-1", "delay_ms=1e9", "drop=1", "drop=nan", "drop=-0.1", "seed=x",
        "drop", "compute_delay_ms=60001", "break_device_after=soon"}) {
    EXPECT_THAT(ParseFaultOptions(text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

TEST(FaultInjectorTest, LosesTheShareAskedForTheSameWayEachTime) {
  FaultOptions options;
  options.delay_ms = 7;
  options.drop = 0.25;
  options.seed = 42;
  FaultInjector first(options), second(options);
  int requests = 0, replies = 0;
  constexpr int kCount = 10'000;
  for (int i = 0; i < kCount; ++i) {
    const Fault fault = first.Next();
    EXPECT_EQ(fault.loss, second.Next().loss);
    EXPECT_EQ(fault.delay, absl::Milliseconds(7));
    requests += fault.loss == Fault::Loss::kRequest;
    replies += fault.loss == Fault::Loss::kReply;
  }
  EXPECT_NEAR(requests, kCount / 8, 150);
  EXPECT_NEAR(replies, kCount / 8, 150);
}

TEST(CallWithFaultsTest, RunsTheCallUnlessItsRequestIsLost) {
  FaultOptions options;
  options.drop = 0.5;
  FaultInjector injector(options);
  int calls = 0, answers = 0;
  std::set<std::string> messages;
  constexpr int kCount = 1000;
  for (int i = 0; i < kCount; ++i) {
    const absl::StatusOr<int> result = CallWithFaults(&injector, [&]() -> absl::StatusOr<int> {
      ++calls;
      return 7;
    });
    if (result.ok()) {
      EXPECT_EQ(*result, 7);
      ++answers;
    } else {
      EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
      messages.insert(std::string(result.status().message()));
    }
  }
  EXPECT_NEAR(answers, kCount / 2, 60);
  EXPECT_NEAR(calls, kCount * 3 / 4, 60);
  EXPECT_THAT(messages, ElementsAre("answer lost by --fault", "request lost by --fault"));
}

TEST(CallWithFaultsTest, DoesNotWaitLongerThanAsked) {
  FaultOptions options;
  options.delay_ms = 60'000;
  FaultInjector injector(options);
  EXPECT_THAT(CallWithFaults(&injector, absl::ZeroDuration(),
                             [] { return absl::InternalError("the call's own"); }),
              StatusIs(absl::StatusCode::kInternal, "the call's own"));
  FaultInjector none{FaultOptions()};
  EXPECT_OK(CallWithFaults(&none, [] { return absl::OkStatus(); }));
}

}  // namespace
}  // namespace monsoon
