#include "coordinator/sandblaster/contribution_scheduler.h"

#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Outcome = ContributionScheduler::Outcome;
using ::testing::ElementsAre;
using ::testing::Optional;

constexpr absl::Duration kStart = absl::Seconds(500);

// A scheduler with replicas 0 .. n-1 and an open evaluation, 1.
ContributionScheduler Open(uint32_t replicas, uint32_t contributions, bool backup_copies = true) {
  ContributionScheduler scheduler(backup_copies);
  for (uint32_t worker = 0; worker < replicas; ++worker) {
    scheduler.AddReplica(worker);
  }
  scheduler.Begin(1, contributions);
  return scheduler;
}

// Lets the worker do what it is given, one at a time and `each` long, until it
// has done `count` or is given nothing.
std::vector<uint32_t> Work(ContributionScheduler* scheduler, uint32_t worker, int count,
                           absl::Duration each, absl::Duration* now) {
  std::vector<uint32_t> done;
  while (static_cast<int>(done.size()) < count) {
    const auto next = scheduler->Next(worker, *now);
    if (!next) {
      break;
    }
    *now += each;
    EXPECT_EQ(scheduler->Complete(worker, scheduler->evaluation(), *next, *now), Outcome::kFirst);
    done.push_back(*next);
  }
  return done;
}

TEST(ChunkSchedulerTest, AReplicaTakesItsRunInOrder) {
  ContributionScheduler scheduler = Open(2, 8);
  absl::Duration now = kStart;
  EXPECT_THAT(Work(&scheduler, 1, 3, absl::Seconds(1), &now), ElementsAre(4, 5, 6));
  EXPECT_THAT(Work(&scheduler, 0, 4, absl::Seconds(1), &now), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(scheduler.progress().done, 7u);
  EXPECT_EQ(scheduler.statistics().leases, 7u);
  EXPECT_EQ(scheduler.statistics().continuing_leases, 5u);
  EXPECT_FALSE(scheduler.complete());
  EXPECT_THAT(Work(&scheduler, 0, 4, absl::Seconds(1), &now), ElementsAre(7));
  EXPECT_TRUE(scheduler.complete());
  EXPECT_EQ(scheduler.counted_by(0), 5u);
  EXPECT_EQ(scheduler.counted_by(1), 3u);
}

TEST(ChunkSchedulerTest, HoldsAtMostTwo) {
  ContributionScheduler scheduler = Open(1, 8);
  EXPECT_THAT(scheduler.Next(0, kStart), Optional(0u));
  EXPECT_THAT(scheduler.Next(0, kStart), Optional(1u));
  EXPECT_EQ(scheduler.Next(0, kStart), std::nullopt);
  EXPECT_EQ(scheduler.held(0), 2u);
  EXPECT_EQ(scheduler.progress().outstanding, 2u);
  EXPECT_EQ(scheduler.Complete(0, 1, 0, kStart), Outcome::kFirst);
  EXPECT_THAT(scheduler.Next(0, kStart), Optional(2u));
}

TEST(ChunkSchedulerTest, AtTheEndOfItsRunItTakesTheBackHalfOfTheLongest) {
  ContributionScheduler scheduler = Open(3, 30);
  absl::Duration now = kStart;
  Work(&scheduler, 0, 10, absl::Seconds(1), &now);
  Work(&scheduler, 1, 4, absl::Seconds(1), &now);  // 14 .. 19 are left, and 20 .. 29.
  EXPECT_THAT(Work(&scheduler, 0, 5, absl::Seconds(1), &now), ElementsAre(25, 26, 27, 28, 29));
  EXPECT_THAT(Work(&scheduler, 0, 3, absl::Seconds(1), &now), ElementsAre(17, 18, 19));
  EXPECT_THAT(Work(&scheduler, 1, 9, absl::Seconds(1), &now),
              ElementsAre(14, 15, 16, 22, 23, 24, 21, 20));
  EXPECT_TRUE(scheduler.complete());
}

TEST(ChunkSchedulerTest, RunsAreAsLongAsReplicasAreFast) {
  ContributionScheduler scheduler = Open(2, 20);
  absl::Duration now = kStart;
  Work(&scheduler, 0, 10, absl::Seconds(1), &now);
  Work(&scheduler, 1, 10, absl::Seconds(4), &now);
  ASSERT_TRUE(scheduler.complete());
  scheduler.End();
  scheduler.Begin(2, 20);
  EXPECT_THAT(scheduler.Next(0, now), Optional(0u));
  EXPECT_THAT(scheduler.Next(1, now), Optional(16u));
}

TEST(ChunkSchedulerTest, AReplicaThatComesBackIsAsFastAsBefore) {
  ContributionScheduler scheduler = Open(2, 20);
  absl::Duration now = kStart;
  Work(&scheduler, 0, 10, absl::Seconds(1), &now);
  Work(&scheduler, 1, 10, absl::Seconds(4), &now);
  scheduler.End();
  EXPECT_EQ(scheduler.RemoveReplica(0, now), 0u);
  scheduler.AddReplica(0);
  scheduler.Begin(2, 20);
  EXPECT_THAT(scheduler.Next(1, now), Optional(16u));
}

TEST(ChunkSchedulerTest, AJoiningReplicaTakesHalfOfARun) {
  ContributionScheduler scheduler = Open(1, 10);
  EXPECT_THAT(scheduler.Next(0, kStart), Optional(0u));
  scheduler.AddReplica(7);
  EXPECT_THAT(scheduler.Next(7, kStart), Optional(5u));
  EXPECT_THAT(scheduler.Next(7, kStart), Optional(6u));
}

TEST(ChunkSchedulerTest, WhatARemovedReplicaHeldIsLeasedAgainFirst) {
  ContributionScheduler scheduler = Open(2, 8);
  scheduler.Next(0, kStart);
  scheduler.Next(0, kStart);
  EXPECT_EQ(scheduler.RemoveReplica(0, kStart), 2u);
  EXPECT_EQ(scheduler.progress().outstanding, 0u);
  absl::Duration now = kStart;
  // Then its own run, then the rest of the removed replica's run by halves.
  EXPECT_THAT(Work(&scheduler, 1, 10, absl::Seconds(1), &now), ElementsAre(0, 1, 4, 5, 6, 7, 3, 2));
  EXPECT_TRUE(scheduler.complete());
  EXPECT_EQ(scheduler.statistics().leased_again, 2u);
  EXPECT_EQ(scheduler.statistics().backup_copies, 0u);
}

TEST(ChunkSchedulerTest, AResultOfARemovedReplicaIsLate) {
  ContributionScheduler scheduler = Open(2, 8);
  ASSERT_THAT(scheduler.Next(0, kStart), Optional(0u));
  scheduler.RemoveReplica(0, kStart);
  EXPECT_EQ(scheduler.Complete(0, 1, 0, kStart), Outcome::kLate);
  scheduler.AddReplica(0);  // Another incarnation.
  EXPECT_EQ(scheduler.Complete(0, 1, 0, kStart), Outcome::kLate);
  EXPECT_EQ(scheduler.progress().done, 0u);
  EXPECT_EQ(scheduler.statistics().late_results, 2u);
}

TEST(ChunkSchedulerTest, AResultOfAClosedEvaluationIsLate) {
  ContributionScheduler scheduler = Open(1, 2);
  ASSERT_THAT(scheduler.Next(0, kStart), Optional(0u));
  scheduler.End();
  EXPECT_EQ(scheduler.held(0), 0u);
  EXPECT_EQ(scheduler.Complete(0, 1, 0, kStart), Outcome::kLate);
  scheduler.Begin(2, 2);
  ASSERT_THAT(scheduler.Next(0, kStart), Optional(0u));
  EXPECT_EQ(scheduler.Complete(0, 1, 0, kStart), Outcome::kLate);
  EXPECT_EQ(scheduler.progress().done, 0u);
  EXPECT_EQ(scheduler.held(0), 1u);
  EXPECT_EQ(scheduler.Complete(0, 2, 0, kStart), Outcome::kFirst);
  EXPECT_EQ(scheduler.Complete(0, 2, 0, kStart), Outcome::kLate);  // Repeated.
  EXPECT_EQ(scheduler.progress().done, 1u);
}

// Replicas 0 and 1 with a usual duration of 1 s; 0 holds contributions 8 and 9
// since `now`, nothing is fresh, and 1 is idle.
ContributionScheduler NearTheEnd(absl::Duration* now, bool backup_copies = true) {
  ContributionScheduler scheduler = Open(2, 10, backup_copies);
  *now = kStart;
  Work(&scheduler, 0, 5, absl::Seconds(1), now);  // 0 .. 4
  Work(&scheduler, 1, 3, absl::Seconds(1), now);  // 5 .. 7
  EXPECT_THAT(scheduler.Next(0, *now), Optional(9u));
  EXPECT_THAT(scheduler.Next(0, *now), Optional(8u));
  return scheduler;
}

TEST(ChunkSchedulerTest, ABackupCopyWhereItIsExpectedBeforeTheOriginal) {
  absl::Duration now;
  ContributionScheduler scheduler = NearTheEnd(&now);
  // 8 is prefetched, not begun: expected 1 s later than a copy.
  EXPECT_THAT(scheduler.Next(1, now), Optional(8u));
  EXPECT_EQ(scheduler.statistics().backup_copies, 1u);
  // No copy of 9 yet, which is expected at the same time as a copy would be.
  scheduler.AddReplica(2);
  EXPECT_EQ(scheduler.Next(2, now), std::nullopt);
  EXPECT_EQ(scheduler.Next(2, now + absl::Seconds(1.2)), std::nullopt);
  EXPECT_THAT(scheduler.Next(2, now + absl::Seconds(1.25)), Optional(9u));
  // One backup each.
  scheduler.AddReplica(3);
  EXPECT_EQ(scheduler.Next(3, now + absl::Seconds(2)), std::nullopt);
  EXPECT_EQ(scheduler.progress().outstanding, 2u);

  // The first result counts.
  EXPECT_EQ(scheduler.Complete(2, 1, 9, now + absl::Seconds(2)), Outcome::kFirst);
  EXPECT_EQ(scheduler.Complete(0, 1, 9, now + absl::Seconds(2)), Outcome::kSecondCopy);
  EXPECT_EQ(scheduler.progress().done, 9u);
  EXPECT_EQ(scheduler.Complete(0, 1, 8, now + absl::Seconds(2)), Outcome::kFirst);
  EXPECT_TRUE(scheduler.complete());
  EXPECT_EQ(scheduler.held(1), 1u);
  EXPECT_EQ(scheduler.Complete(1, 1, 8, now + absl::Seconds(2)), Outcome::kSecondCopy);
  EXPECT_EQ(scheduler.held(1), 0u);
  EXPECT_EQ(scheduler.statistics().second_results, 2u);
}

TEST(ChunkSchedulerTest, AReplicaNeverCopiesItsOwn) {
  absl::Duration now;
  ContributionScheduler scheduler = NearTheEnd(&now);
  EXPECT_EQ(scheduler.Complete(0, 1, 9, now), Outcome::kFirst);
  EXPECT_EQ(scheduler.Next(0, now + absl::Seconds(100)), std::nullopt);
}

TEST(ChunkSchedulerTest, TheLongestOverdueIsCopiedFirst) {
  absl::Duration now;
  ContributionScheduler scheduler = NearTheEnd(&now);
  EXPECT_THAT(scheduler.Next(1, now + absl::Seconds(5)), Optional(9u));
  scheduler.AddReplica(2);
  EXPECT_THAT(scheduler.Next(2, now + absl::Seconds(5)), Optional(8u));
}

TEST(ChunkSchedulerTest, AnotherBackupWhenAHolderIsLost) {
  absl::Duration now;
  ContributionScheduler scheduler = NearTheEnd(&now);
  ASSERT_THAT(scheduler.Next(1, now + absl::Seconds(5)), Optional(9u));
  scheduler.AddReplica(2);
  scheduler.AddReplica(3);
  ASSERT_THAT(scheduler.Next(2, now + absl::Seconds(5)), Optional(8u));
  ASSERT_EQ(scheduler.Next(3, now + absl::Seconds(5)), std::nullopt);
  // Both have a copy elsewhere, so nothing is lost; 2's is expected at 6.25.
  EXPECT_EQ(scheduler.RemoveReplica(0, now + absl::Seconds(5)), 0u);
  EXPECT_EQ(scheduler.Next(3, now + absl::Seconds(6)), std::nullopt);
  EXPECT_THAT(scheduler.Next(3, now + absl::Seconds(6.25)), Optional(8u));
  // The copies are lost as well: all that is left begins again.
  EXPECT_EQ(scheduler.RemoveReplica(2, now + absl::Seconds(7)), 0u);
  EXPECT_EQ(scheduler.RemoveReplica(3, now + absl::Seconds(7)), 1u);
  EXPECT_EQ(scheduler.RemoveReplica(1, now + absl::Seconds(7)), 1u);
  EXPECT_EQ(scheduler.progress().outstanding, 0u);
  scheduler.AddReplica(0);
  now += absl::Seconds(8);
  EXPECT_THAT(Work(&scheduler, 0, 5, absl::Seconds(1), &now), ElementsAre(8, 9));
  EXPECT_TRUE(scheduler.complete());
}

TEST(ChunkSchedulerTest, AnExpiredLeaseIsCopiedEvenWithoutBackupCopies) {
  absl::Duration now;
  ContributionScheduler scheduler = NearTheEnd(&now, false);
  EXPECT_EQ(scheduler.Next(1, now + absl::Seconds(3.9)), std::nullopt);
  EXPECT_THAT(scheduler.Next(1, now + absl::Seconds(4)), Optional(9u));
  // 8 began at 1.25 if 9 took as long as may be.
  scheduler.AddReplica(2);
  EXPECT_EQ(scheduler.Next(2, now + absl::Seconds(5)), std::nullopt);
  EXPECT_THAT(scheduler.Next(2, now + absl::Seconds(5.25)), Optional(8u));
}

TEST(ChunkSchedulerTest, CopiesExpireToo) {
  absl::Duration now;
  ContributionScheduler scheduler = NearTheEnd(&now);
  now += absl::Seconds(10);
  ASSERT_THAT(scheduler.Next(1, now), Optional(9u));
  scheduler.AddReplica(2);
  ASSERT_THAT(scheduler.Next(2, now), Optional(8u));
  scheduler.AddReplica(3);
  EXPECT_EQ(scheduler.Next(3, now + absl::Seconds(3.9)), std::nullopt);
  EXPECT_TRUE(scheduler.Next(3, now + absl::Seconds(4)).has_value());
  EXPECT_EQ(scheduler.statistics().backup_copies, 3u);
}

TEST(ChunkSchedulerTest, ShortLeasesLastASecond) {
  ContributionScheduler scheduler = Open(2, 10, false);
  absl::Duration now = kStart;
  Work(&scheduler, 0, 5, absl::Milliseconds(10), &now);
  Work(&scheduler, 1, 4, absl::Milliseconds(10), &now);
  ASSERT_THAT(scheduler.Next(1, now), Optional(9u));
  EXPECT_EQ(scheduler.Next(0, now + absl::Milliseconds(999)), std::nullopt);
  EXPECT_THAT(scheduler.Next(0, now + absl::Milliseconds(1000)), Optional(9u));
}

TEST(ChunkSchedulerTest, AReturnedContributionIsLeasedAgain) {
  ContributionScheduler scheduler = Open(1, 2);
  ASSERT_THAT(scheduler.Next(0, kStart), Optional(0u));
  EXPECT_EQ(scheduler.Return(0, 1, 0, kStart), Outcome::kFirst);
  EXPECT_EQ(scheduler.Return(0, 1, 0, kStart), Outcome::kLate);
  EXPECT_THAT(scheduler.Next(0, kStart), Optional(0u));
}

TEST(ChunkSchedulerTest, OnePauseDoesNotMakeASlowReplica) {
  ContributionScheduler scheduler = Open(2, 40);
  absl::Duration now = kStart;
  Work(&scheduler, 0, 19, absl::Seconds(1), &now);
  Work(&scheduler, 1, 20, absl::Seconds(1), &now);
  Work(&scheduler, 0, 1, absl::Hours(1), &now);
  scheduler.End();
  scheduler.Begin(2, 40);
  // 1 / 1.6 against 1.
  EXPECT_THAT(scheduler.Next(1, now), Optional(15u));
}

TEST(ChunkSchedulerTest, FewerContributionsThanReplicas) {
  ContributionScheduler scheduler = Open(8, 1);
  std::set<uint32_t> given;
  for (uint32_t worker = 0; worker < 8; ++worker) {
    if (const auto next = scheduler.Next(worker, kStart)) {
      given.insert(worker);
      EXPECT_EQ(*next, 0u);
    }
  }
  EXPECT_EQ(given.size(), 2u);  // It and one backup: nothing is known of its duration.
  EXPECT_EQ(scheduler.Complete(*given.rbegin(), 1, 0, kStart), Outcome::kFirst);
  EXPECT_TRUE(scheduler.complete());
}

TEST(ChunkSchedulerTest, OpensWithoutReplicas) {
  ContributionScheduler scheduler(true);
  scheduler.Begin(1, 3);
  scheduler.AddReplica(4);
  absl::Duration now = kStart;
  EXPECT_THAT(Work(&scheduler, 4, 5, absl::Seconds(1), &now), ElementsAre(1, 2, 0));
  EXPECT_TRUE(scheduler.complete());
}

}  // namespace
}  // namespace monsoon
