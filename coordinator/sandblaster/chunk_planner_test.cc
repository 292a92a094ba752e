#include "coordinator/sandblaster/chunk_planner.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The pieces cover the batch, in order, without a gap.
void ExpectCovers(const ChunkPlan& plan, uint64_t examples) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < plan.contributions(); ++i) {
    const ChunkPlan::Piece piece = plan.piece(i);
    EXPECT_EQ(piece.first, next);
    EXPECT_GT(piece.examples, 0u);
    next += piece.examples;
  }
  EXPECT_EQ(next, examples);
}

TEST(ChunkPlanTest, AnEmptyPlanHasNoContributions) { EXPECT_EQ(ChunkPlan().contributions(), 0u); }

TEST(ChunkPlanTest, AboutFiftyContributionsPerReplica) {
  // 600 chunks for 3 replicas: 4 chunks each make 150 contributions.
  const auto plan = ChunkPlan::Make({.examples = 60000, .chunk_examples = 100, .replicas = 3});
  ASSERT_OK(plan);
  EXPECT_EQ(plan->chunks_per_contribution(), 4u);
  EXPECT_EQ(plan->contribution_examples(), 400u);
  EXPECT_EQ(plan->contributions(), 150u);
  ExpectCovers(*plan, 60000);
}

TEST(ChunkPlanTest, NeverFewerThanFiftyWhereThereAreEnoughChunks) {
  const auto plan = ChunkPlan::Make({.examples = 9900, .chunk_examples = 100, .replicas = 1});
  ASSERT_OK(plan);
  EXPECT_EQ(plan->contributions(), 99u);
}

TEST(ChunkPlanTest, AtLeastOneChunkEach) {
  const auto plan = ChunkPlan::Make({.examples = 1001, .chunk_examples = 100, .replicas = 8});
  ASSERT_OK(plan);
  EXPECT_EQ(plan->chunks_per_contribution(), 1u);
  EXPECT_EQ(plan->contributions(), 11u);
  EXPECT_EQ(plan->piece(10).examples, 1u);
  ExpectCovers(*plan, 1001);
}

TEST(ChunkPlanTest, TheJobMayChoose) {
  const auto plan = ChunkPlan::Make(
      {.examples = 1050, .chunk_examples = 100, .chunks_per_contribution = 4, .replicas = 2});
  ASSERT_OK(plan);
  EXPECT_EQ(plan->contributions(), 3u);
  EXPECT_EQ(plan->piece(2).first, 800u);
  EXPECT_EQ(plan->piece(2).examples, 250u);
  ExpectCovers(*plan, 1050);
}

TEST(ChunkPlanTest, AChunkLargerThanTheBatchIsTheBatch) {
  const auto plan = ChunkPlan::Make({.examples = 7,
                                     .chunk_examples = 4000000000,
                                     .chunks_per_contribution = 4000000000,
                                     .replicas = 2});
  ASSERT_OK(plan);
  EXPECT_EQ(plan->contributions(), 1u);
  EXPECT_EQ(plan->piece(0).examples, 7u);
}

TEST(ChunkPlanTest, AtMost16384Contributions) {
  const auto plan = ChunkPlan::Make({.examples = 16384000, .chunk_examples = 10, .replicas = 1000});
  ASSERT_OK(plan);
  EXPECT_EQ(plan->chunks_per_contribution(), 100u);
  EXPECT_EQ(plan->contributions(), 16384u);
  ExpectCovers(*plan, 16384000);

  const auto one_more =
      ChunkPlan::Make({.examples = 16384010, .chunk_examples = 10, .replicas = 1000});
  ASSERT_OK(one_more);
  EXPECT_LE(one_more->contributions(), kMaxContributions);
  ExpectCovers(*one_more, 16384010);
}

TEST(ChunkPlanTest, RefusesMoreByName) {
  EXPECT_THAT(
      ChunkPlan::Make(
          {.examples = 60000, .chunk_examples = 1, .chunks_per_contribution = 2, .replicas = 1})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("chunks_per_contribution: 2"), HasSubstr("at least 4"))));
  EXPECT_THAT(
      ChunkPlan::Make(
          {.examples = uint64_t{1} << 60, .chunk_examples = uint64_t{1} << 32, .replicas = 1})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("smaller chunks")));
  EXPECT_THAT(ChunkPlan::Make({.examples = 0, .chunk_examples = 1, .replicas = 1}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 1")));
}

}  // namespace
}  // namespace monsoon
