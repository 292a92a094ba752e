#include "coordinator/downpour/push_clocks.h"

#include <map>
#include <optional>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

// Whose calls come in their order.
class PushClocksTest : public ::testing::Test {
 protected:
  ClockReply Tell(uint32_t worker, uint64_t clock, bool begins,
                  const std::set<uint32_t>& training) {
    return clocks_.Tell(worker, Request(++calls_, clock, begins), training);
  }
  static ClockRequest Request(uint64_t call, uint64_t clock, bool begins) {
    ClockRequest request;
    request.set_call(call);
    request.set_clock(clock);
    request.set_begins(begins);
    return request;
  }

  PushClocks clocks_;
  uint64_t calls_ = 0;
};

TEST_F(PushClocksTest, TheSlowestOfThoseThatTrainIsTold) {
  ClockReply reply = Tell(0, 0, true, {0});
  EXPECT_EQ(reply.clock(), 0u);
  EXPECT_EQ(reply.least(), 0u);
  EXPECT_EQ(reply.slowest(), 0u);
  // Nobody knows how far worker/1 is.
  reply = Tell(0, 2, false, {0, 1});
  EXPECT_FALSE(reply.has_least());
  EXPECT_EQ(reply.slowest(), 1u);
  reply = Tell(1, 0, false, {0, 1});
  EXPECT_EQ(reply.clock(), 0u);
  EXPECT_EQ(reply.least(), 0u);
  EXPECT_EQ(reply.slowest(), 1u);
  reply = Tell(0, 3, false, {0, 1});
  EXPECT_EQ(reply.least(), 0u);
  EXPECT_EQ(reply.slowest(), 1u);
  // One that has nothing to train on holds nobody up.
  reply = Tell(0, 4, false, {0});
  EXPECT_EQ(reply.least(), 4u);
  EXPECT_EQ(reply.slowest(), 0u);
  EXPECT_EQ(clocks_.of(0), 4u);
  EXPECT_EQ(clocks_.of(2), std::nullopt);
}

TEST_F(PushClocksTest, WhoBeginsGoesOnFromTheSlowest) {
  Tell(0, 100, true, {0});
  Tell(1, 97, false, {0, 1});
  ClockReply reply = Tell(2, 0, true, {0, 1, 2});
  EXPECT_EQ(reply.clock(), 97u);
  EXPECT_EQ(reply.least(), 97u);
  // Also whoever has come far in earlier company: else he would wait for all that.
  reply = Tell(3, 5000, true, {0, 1, 2, 3});
  EXPECT_EQ(reply.clock(), 97u);
  // Who has trained all the time stays where he is.
  reply = Tell(4, 90, false, {0, 1, 2, 3, 4});
  EXPECT_EQ(reply.clock(), 90u);
  EXPECT_EQ(reply.least(), 90u);
}

TEST_F(PushClocksTest, WhatComesLateChangesNothing) {
  Tell(0, 3, true, {0});
  clocks_.Tell(1, Request(7, 5, false), {0, 1});
  clocks_.Tell(1, Request(6, 4, false), {0, 1});
  EXPECT_EQ(clocks_.of(1), 5u);
  // Nor does it bring back what was true before a rest.
  clocks_.Rest(1);
  clocks_.Tell(1, Request(7, 5, false), {0, 1});
  EXPECT_EQ(clocks_.of(1), std::nullopt);
  EXPECT_EQ(clocks_.Tell(1, Request(8, 5, true), {0, 1}).clock(), 3u);
  clocks_.Remove(1);
  EXPECT_EQ(clocks_.Tell(1, Request(1, 0, false), {0, 1}).clock(), 0u);
}

TEST_F(PushClocksTest, WhoWaitsHoldsNobodyUpUntilHeBegins) {
  Tell(0, 50, true, {0});
  Tell(1, 43, false, {0, 1});
  clocks_.Rest(1);
  EXPECT_EQ(clocks_.of(1), std::nullopt);
  EXPECT_EQ(Tell(0, 55, false, {0, 1}).least(), 55u);
  EXPECT_EQ(Tell(2, 0, true, {0, 1, 2}).clock(), 55u) << "43 is no place to begin at";
  // What he told before he had to wait comes late.
  EXPECT_FALSE(Tell(1, 44, false, {0, 1, 2}).has_least());
  EXPECT_EQ(clocks_.of(1), std::nullopt);
  EXPECT_EQ(Tell(1, 44, true, {0, 1, 2}).clock(), 55u);
  EXPECT_EQ(clocks_.of(1), 55u);
}

TEST_F(PushClocksTest, AllMayBeginAtOnce) {
  for (const uint32_t worker : {0, 1, 2}) {
    clocks_.Rest(worker);
  }
  EXPECT_EQ(Tell(1, 0, true, {0, 1, 2}).least(), 0u);
  EXPECT_EQ(Tell(1, 3, false, {0, 1, 2}).least(), 3u);
  EXPECT_EQ(Tell(0, 0, true, {0, 1, 2}).clock(), 3u);
}

TEST_F(PushClocksTest, AfterANewStartAllThatTrainHaveToTell) {
  // A replica that joins now has nobody to go on from yet, and is no place to begin at.
  EXPECT_FALSE(Tell(2, 0, true, {0, 1, 2}).has_least());
  EXPECT_FALSE(Tell(3, 0, true, {0, 1, 2, 3}).has_least());
  EXPECT_FALSE(Tell(0, 50, false, {0, 1, 2, 3}).has_least());
  EXPECT_EQ(Tell(1, 49, false, {0, 1, 2, 3}).least(), 49u);
  EXPECT_EQ(Tell(2, 0, true, {0, 1, 2, 3}).clock(), 49u);
}

// Replicas, the last one ten times slower, that come and go by the rule that each follows: none is
// ever more than bound + 1 pushes ahead of one that trains, and some can always go on.
class Race {
 public:
  explicit Race(uint32_t seed) : random_(seed), bound_(random_() % 5) {}

  void Step() {
    const uint32_t worker = random_() % 4;
    switch (random_() % 100) {
      case 0:  // a new life of the replica
        clocks_.Remove(worker);
        clocks_.Rest(worker);
        replicas_[worker] = Replica();
        training_.insert(worker);
        return;
      case 1:  // it has nothing to do for a while
        training_.erase(worker);
        clocks_.Rest(worker);
        replicas_[worker].least.reset();
        return;
      case 2:  // the coordinator is started anew
        clocks_ = PushClocks();
        return;
      case 3:
        training_.insert(worker);
        return;
      default:
        break;
    }
    if (training_.contains(worker) && (worker != 3 || random_() % 10 == 0)) {
      Push(worker);
    }
  }
  uint64_t pushes() const { return pushes_; }

 private:
  struct Replica {
    uint64_t clock = 0;
    uint64_t calls = 0;
    std::optional<uint64_t> least;
  };

  void Push(uint32_t worker) {
    Replica& replica = replicas_[worker];
    // The answer to an earlier call may be all that it knows.
    if (!replica.least || random_() % 2 == 0) {
      Tell(worker);
    }
    if (!replica.least || replica.clock > *replica.least + bound_) {
      Tell(worker);
      return;
    }
    ++replica.clock;
    ++pushes_;
    for (const uint32_t other : training_) {
      if (replicas_[other].least.has_value()) {
        ASSERT_LE(replica.clock, replicas_[other].clock + bound_ + 1) << "of worker/" << other;
      }
    }
  }
  void Tell(uint32_t worker) {
    Replica& replica = replicas_[worker];
    ClockRequest request;
    request.set_call(++replica.calls);
    request.set_clock(replica.clock);
    request.set_begins(!replica.least.has_value());
    const ClockReply reply = clocks_.Tell(worker, request, training_);
    if (random_() % 10 == 0) {
      return;  // the answer is lost
    }
    ASSERT_TRUE(reply.clock() == replica.clock || request.begins());
    replica.clock = reply.clock();
    if (reply.has_least()) {
      replica.least = reply.least();
    }
  }

  std::mt19937 random_;
  const uint32_t bound_;
  PushClocks clocks_;
  std::map<uint32_t, Replica> replicas_;
  std::set<uint32_t> training_;
  uint64_t pushes_ = 0;
};

TEST_F(PushClocksTest, TheBoundHoldsAndNobodyStandsStill) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Race race(seed);
    for (int step = 0; step < 2000 && !HasFatalFailure(); ++step) {
      race.Step();
    }
    ASSERT_FALSE(HasFatalFailure());
    // The slow one makes some 45 at most, and with a bound of 0 nobody makes more.
    ASSERT_GT(race.pushes(), 60u);
  }
}

}  // namespace
}  // namespace monsoon
