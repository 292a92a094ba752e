#include "coordinator/job/replica_set.h"

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "coordinator/state/replayed_state.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

NextWorkReply Reply(uint64_t number) {
  NextWorkReply reply;
  reply.set_request(number);
  reply.mutable_wait()->set_retry_ms(1);
  return reply;
}

NextWorkReply Finish(uint64_t number) {
  NextWorkReply reply;
  reply.set_request(number);
  reply.mutable_finish();
  return reply;
}

TEST(ReplicaSetTest, ARepeatedRequestGetsTheSameReply) {
  testing::ReplayedState state;
  ReplicaSet replicas(state.Begun());
  replicas.Add(3);
  // The first request may have any number.
  ASSERT_OK_AND_ASSIGN(const auto nothing, replicas.KnownReply(3, 17));
  EXPECT_FALSE(nothing.has_value());
  EXPECT_EQ(replicas.last_reply(3), nullptr);
  NextWorkReply reply = Reply(17);
  reply.mutable_evaluate()->set_evaluation(9);
  replicas.Replied(3, reply);
  ASSERT_OK_AND_ASSIGN(const auto same, replicas.KnownReply(3, 17));
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->evaluate().evaluation(), 9u);
  ASSERT_OK_AND_ASSIGN(const auto next, replicas.KnownReply(3, 18));
  EXPECT_FALSE(next.has_value());
}

// Else a copy of the question that comes late is given work that nobody hears of.
TEST(ReplicaSetTest, WhoWasToldToWaitIsToldSoAgain) {
  testing::ReplayedState state;
  ReplicaSet replicas(state.Begun());
  replicas.Add(3);
  NextWorkReply reply = Reply(17);
  reply.mutable_wait()->set_retry_ms(50);
  replicas.Replied(3, reply);
  ASSERT_OK_AND_ASSIGN(const auto same, replicas.KnownReply(3, 17));
  ASSERT_TRUE(same.has_value());
  EXPECT_TRUE(same->has_wait());
}

TEST(ReplicaSetTest, RefusesStrangersAndNumbersOutOfOrder) {
  testing::ReplayedState state;
  ReplicaSet replicas(state.Begun());
  replicas.Add(3);
  replicas.Replied(3, Reply(17));
  for (const uint64_t number : {0u, 16u}) {
    EXPECT_THAT(
        replicas.KnownReply(3, number),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr(absl::StrCat("request ", number, " of worker/3 came after 17"))));
  }
  // A coordinator that was started anew may not know what it was told last.
  ASSERT_OK_AND_ASSIGN(const auto later, replicas.KnownReply(3, 19));
  EXPECT_FALSE(later.has_value());
  EXPECT_THAT(replicas.KnownReply(4, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/4 has no open")));
}

TEST(ReplicaSetTest, AReplicaThatComesBackBeginsAnew) {
  testing::ReplayedState state;
  ReplicaSet replicas(state.Begun());
  replicas.Add(3);
  replicas.Replied(3, Finish(17));
  EXPECT_TRUE(replicas.left(3));
  EXPECT_TRUE(replicas.Remove(3));
  EXPECT_FALSE(replicas.Remove(3));
  EXPECT_FALSE(replicas.contains(3));
  EXPECT_FALSE(replicas.left(3));
  replicas.Add(3);
  EXPECT_FALSE(replicas.left(3));
  ASSERT_OK_AND_ASSIGN(const auto nothing, replicas.KnownReply(3, 1));
  EXPECT_FALSE(nothing.has_value());
}

TEST(ReplicaSetTest, GoneWhenAllWereToldOrTheTimeIsOver) {
  testing::ReplayedState state;
  ReplicaSet replicas(state.Begun());
  replicas.Add(1);
  replicas.Add(5);
  EXPECT_THAT(replicas.live(), ElementsAre(1, 5));
  const absl::Duration began = absl::Seconds(100);
  replicas.BeginLeaving(began);
  EXPECT_FALSE(replicas.Gone(began));
  replicas.Replied(5, Finish(2));
  EXPECT_FALSE(replicas.Gone(began + kLeaveTimeout - absl::Nanoseconds(1)));
  EXPECT_TRUE(replicas.Gone(began + kLeaveTimeout));
  replicas.Replied(1, Finish(8));
  EXPECT_TRUE(replicas.Gone(began));
  EXPECT_TRUE(ReplicaSet(testing::ReplayedState().Begun()).Gone(began));  // nobody to wait for
}

}  // namespace
}  // namespace monsoon
