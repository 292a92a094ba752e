#include "ps_server/shard/session_table.h"

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(SessionTableTest, OneOpenSessionAWorker) {
  SessionTable table;
  EXPECT_FALSE(table.had_session());
  ASSERT_OK_AND_ASSIGN(SessionTable::Opening opening, table.PlanOpen({3, 1}));
  EXPECT_FALSE(opening.already_open);
  EXPECT_FALSE(opening.overtaken.has_value());
  table.RecordOpen({3, 1});
  EXPECT_TRUE(table.had_session());
  EXPECT_TRUE(table.IsOpen({3, 1}));
  EXPECT_FALSE(table.IsOpen({3, 2}));
  EXPECT_FALSE(table.IsOpen({2, 1}));
  ASSERT_OK_AND_ASSIGN(opening, table.PlanOpen({3, 1}));
  EXPECT_TRUE(opening.already_open);
  ASSERT_OK_AND_ASSIGN(opening, table.PlanOpen({3, 2}));
  ASSERT_TRUE(opening.overtaken.has_value());
  EXPECT_EQ(*opening.overtaken, (SessionId{3, 1}));
}

TEST(SessionTableTest, NoSessionIsWithoutAnIncarnation) {
  SessionTable table;
  EXPECT_EQ(table.PlanOpen({3, kNoIncarnation}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(NotOpen({3, 2}), "the session of worker/3#2 is not open");
  EXPECT_EQ(NotOpen({3, kNoIncarnation}), "this session of worker/3 is not open");
}

TEST(SessionTableTest, ClosedAndOvertakenSessionsNeverOpenAgain) {
  SessionTable table;
  table.RecordOpen({0, 5});
  EXPECT_EQ(table.PlanOpen({0, 4}).status().code(), absl::StatusCode::kFailedPrecondition);
  table.RecordClose({0, 5}, 42);
  EXPECT_FALSE(table.IsOpen({0, 5}));
  EXPECT_EQ(table.ClosedApplied({0, 5}), 42u);
  EXPECT_EQ(table.ClosedApplied({0, 4}), 0u);  // older than any that may open
  EXPECT_EQ(table.ClosedApplied({0, 6}), std::nullopt);
  EXPECT_EQ(table.PlanOpen({0, 5}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(table.PlanOpen({0, 4}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(table.PlanOpen({0, 6}));
  ASSERT_OK(table.PlanOpen({1, 1}));  // another worker
  EXPECT_TRUE(table.had_session());
}

TEST(SessionTableTest, OfEachWorkerTheHighestClosedIncarnationIsRemembered) {
  SessionTable table;
  EXPECT_FALSE(table.Knows(2));
  for (uint64_t incarnation = 1; incarnation <= 50; ++incarnation) {
    table.RecordOpen({2, incarnation});
    table.RecordClose({2, incarnation}, 10 * incarnation);
  }
  table.RecordClose({2, 7}, 1);  // late, again
  table.RecordClose({9, 3}, 0);
  ASSERT_EQ(table.closed().size(), 2u);
  EXPECT_EQ(table.closed().at(2).incarnation, 50u);
  EXPECT_EQ(table.closed().at(2).applied, 500u);
  EXPECT_EQ(table.ClosedApplied({2, 50}), 500u);
  EXPECT_TRUE(table.Knows(2));
  for (const uint64_t incarnation : {1u, 7u, 49u, 50u}) {
    EXPECT_EQ(table.PlanOpen({2, incarnation}).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_OK(table.PlanOpen({2, 51}));
}

TEST(SessionTableTest, ASessionClosedBeforeItOpenedStaysClosed) {
  SessionTable table;
  table.RecordClose({7, 1}, 0);
  EXPECT_EQ(table.PlanOpen({7, 1}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(table.had_session());
}

}  // namespace
}  // namespace monsoon
