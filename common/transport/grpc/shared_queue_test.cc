#include "common/transport/grpc/shared_queue.h"

#include <thread>

#include "common/base/clock.h"
#include "grpcpp/alarm.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

// An operation that comes back at once.
struct Event {
  explicit Event(SharedQueue::Port* port) : operation{port} {}
  void Begin(SharedQueue* queue) {
    alarm.Set(queue->queue(), gpr_inf_past(GPR_CLOCK_MONOTONIC), &operation);
  }
  grpc::Alarm alarm;
  SharedQueue::Operation operation;
};

TEST(SharedQueueTest, GivesEachPortItsOwn) {
  SharedQueue queue;
  SharedQueue::Port a, b;
  Event of_a(&a), of_b(&b);
  of_a.Begin(&queue);
  of_b.Begin(&queue);
  const auto got_b = queue.Next(&b, kLong);
  ASSERT_TRUE(got_b.has_value());
  EXPECT_EQ(got_b->operation, &of_b.operation);
  const auto got_a = queue.Next(&a, kLong);
  ASSERT_TRUE(got_a.has_value());
  EXPECT_EQ(got_a->operation, &of_a.operation);
  EXPECT_FALSE(queue.Next(&a, absl::ZeroDuration()).has_value());
}

// What another thread's Start takes for the one that polls must not wait for the
// end of its patience.
TEST(SharedQueueTest, ThePollingThreadLearnsWhatOthersTook) {
  SharedQueue queue;
  SharedQueue::Port waiting;
  const absl::Duration began = Clock::Real()->Now();
  for (int round = 0; round < 200; ++round) {
    Event event(&waiting);
    std::jthread starter([&] { queue.Start([&] { event.Begin(&queue); }); });
    ASSERT_TRUE(queue.Next(&waiting, kLong).has_value()) << round;
  }
  EXPECT_LT(Clock::Real()->Now() - began, kLong);
}

TEST(SharedQueueTest, AThreadThatWaitsIsWokenByTheOneThatPolls) {
  SharedQueue queue;
  SharedQueue::Port ports[3];
  for (int round = 0; round < 50; ++round) {
    std::vector<std::jthread> waiters;
    for (SharedQueue::Port& port : ports) {
      waiters.emplace_back([&] {
        Event event(&port);
        queue.Start([&] { event.Begin(&queue); });
        const auto got = queue.Next(&port, kLong);
        ASSERT_TRUE(got.has_value());
        EXPECT_EQ(got->operation, &event.operation);
      });
    }
  }
}

TEST(SharedQueueTest, WhoIsWokenWaitsNoLonger) {
  SharedQueue queue;
  SharedQueue::Port ports[3];
  const absl::Duration began = Clock::Real()->Now();
  for (int round = 0; round < 50; ++round) {
    // One of them polls for all, the first one mostly.
    std::vector<std::jthread> waiters;
    for (SharedQueue::Port& port : ports) {
      waiters.emplace_back([&] { EXPECT_FALSE(queue.Next(&port, kLong).has_value()); });
    }
    for (const int woken : {1, 2, 0}) {
      queue.Wake(&ports[woken]);
      waiters[woken].join();
    }
  }
  queue.Wake(&ports[0]);  // before it waits
  EXPECT_FALSE(queue.Next(&ports[0], kLong).has_value());
  EXPECT_LT(Clock::Real()->Now() - began, kLong);
  // It counts once.
  Event event(&ports[0]);
  event.Begin(&queue);
  EXPECT_TRUE(queue.Next(&ports[0], kLong).has_value());
}

}  // namespace
}  // namespace monsoon
