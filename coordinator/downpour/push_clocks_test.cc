#include "coordinator/downpour/push_clocks.h"

#include <map>
#include <optional>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(PushClocksTest, TheSlowestOfThoseThatTrainIsTold) {
  PushClocks clocks;
  ClockReply reply = clocks.Tell(0, 0, true, {0});
  EXPECT_EQ(reply.clock(), 0u);
  EXPECT_EQ(reply.least(), 0u);
  EXPECT_EQ(reply.slowest(), 0u);
  // Nobody knows how far worker/1 is.
  reply = clocks.Tell(0, 2, false, {0, 1});
  EXPECT_FALSE(reply.has_least());
  EXPECT_EQ(reply.slowest(), 1u);
  reply = clocks.Tell(1, 0, false, {0, 1});
  EXPECT_EQ(reply.clock(), 0u);
  EXPECT_EQ(reply.least(), 0u);
  EXPECT_EQ(reply.slowest(), 1u);
  reply = clocks.Tell(0, 3, false, {0, 1});
  EXPECT_EQ(reply.least(), 0u);
  EXPECT_EQ(reply.slowest(), 1u);
  // One that has nothing to train on holds nobody up.
  reply = clocks.Tell(0, 4, false, {0});
  EXPECT_EQ(reply.least(), 4u);
  EXPECT_EQ(reply.slowest(), 0u);
  EXPECT_EQ(clocks.of(0), 4u);
  EXPECT_EQ(clocks.of(2), std::nullopt);
}

TEST(PushClocksTest, WhoBeginsGoesOnFromTheSlowest) {
  PushClocks clocks;
  clocks.Tell(0, 100, true, {0});
  clocks.Tell(1, 97, false, {0, 1});
  ClockReply reply = clocks.Tell(2, 0, true, {0, 1, 2});
  EXPECT_EQ(reply.clock(), 97u);
  EXPECT_EQ(reply.least(), 97u);
  // Nobody is taken back, and who has trained all the time stays where he is.
  EXPECT_EQ(clocks.Tell(0, 100, true, {0, 1, 2}).clock(), 100u);
  reply = clocks.Tell(3, 90, false, {0, 1, 2, 3});
  EXPECT_EQ(reply.clock(), 90u);
  EXPECT_EQ(reply.least(), 90u);
}

TEST(PushClocksTest, ClocksDoNotGoBackWithinALifeOfAReplica) {
  PushClocks clocks;
  clocks.Tell(0, 5, true, {0});
  EXPECT_EQ(clocks.Tell(0, 4, false, {0}).clock(), 5u);
  clocks.Remove(0);
  EXPECT_EQ(clocks.Tell(0, 0, true, {0}).clock(), 0u);
}

TEST(PushClocksTest, AfterANewStartAllThatTrainHaveToTell) {
  PushClocks clocks;
  // A replica that joins now has nobody to go on from yet.
  EXPECT_FALSE(clocks.Tell(2, 0, true, {0, 1, 2}).has_least());
  EXPECT_FALSE(clocks.Tell(0, 50, false, {0, 1, 2}).has_least());
  ClockReply reply = clocks.Tell(1, 49, false, {0, 1, 2});
  EXPECT_EQ(reply.clock(), 49u);
  EXPECT_EQ(reply.least(), 0u);  // of the one that joins, until it tells again
  reply = clocks.Tell(2, 0, true, {0, 1, 2});
  EXPECT_EQ(reply.clock(), 49u);
  EXPECT_EQ(reply.least(), 49u);
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
        replicas_[worker] = Replica();
        training_.insert(worker);
        return;
      case 1:  // it has nothing to do for a while
        training_.erase(worker);
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
    const ClockReply reply =
        clocks_.Tell(worker, replica.clock, !replica.least.has_value(), training_);
    ASSERT_GE(reply.clock(), replica.clock);
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

TEST(PushClocksTest, TheBoundHoldsAndNobodyStandsStill) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    Race race(seed);
    for (int step = 0; step < 2000 && !HasFatalFailure(); ++step) {
      race.Step();
    }
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_GT(race.pushes(), 100u);
  }
}

}  // namespace
}  // namespace monsoon
