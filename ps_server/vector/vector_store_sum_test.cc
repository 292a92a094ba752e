// VectorStore: evaluations, from their opening to the vector that they become.
#include <algorithm>
#include <span>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/vector/vector_store.h"
#include "ps_server/vector/vector_store_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;
using testing::kFloats;
using testing::kStripe;
using testing::kVectorBytes;
using testing::Vector;
using testing::VectorStoreTest;

TEST_F(VectorStoreTest, AnEvaluationFromTheProbeToTheShiftedSum) {
  ASSERT_OK(Uniform("w", 1));
  const Vector gradient(kFloats, 3.0f);
  ASSERT_OK(Open(1, 1, /*probe=*/true));
  Contribute(1, 0, gradient);
  ASSERT_OK_AND_ASSIGN(const VectorReply probe, Run(CloseRequest(1, "g")));
  EXPECT_FALSE(probe.evaluate_again());
  EXPECT_EQ(store_.Find("g").status().code(), absl::StatusCode::kNotFound);
  ASSERT_OK(Open(2, 2, /*probe=*/false));
  Contribute(2, 1, gradient);
  VectorRequest close = CloseRequest(2, "g");
  close.mutable_close_evaluation()->set_shift(0.25);
  close.mutable_close_evaluation()->set_shift_vector("w");
  EXPECT_THAT(Run(close), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("contribution 0 is missing on stripe 0")));
  Contribute(2, 0, gradient);
  ASSERT_OK_AND_ASSIGN(const VectorReply reply, Run(close));
  EXPECT_GE(reply.memory_bytes(), 2 * kVectorBytes + kFloats * sizeof(int64_t));
  EXPECT_EQ(reply.memory_bytes() + 2 * (VectorCost(kVectorBytes) - kVectorBytes) + logged_,
            budget_.used());
  const Vector w = Get("w"), g = Get("g");
  for (size_t i = 0; i < kFloats; ++i) {
    const double expected = 0.5 * 6.0 + 0.25 * static_cast<double>(w[i]);
    EXPECT_EQ(g[i], i >= 60 && i < 64 ? 0.0f : static_cast<float>(expected));
  }
  // The answer of a close that was lost on its way.
  ASSERT_OK(store_.Execute(close));
  EXPECT_EQ(store_.Contribute(2, 0, 0, std::span(gradient).first(kStripe)).verdict, REFUSED_CLOSED);
}

TEST_F(VectorStoreTest, AnOverflowMakesNoVectorAndIsRepeated) {
  const Vector gradient(kFloats, 5000.0f);
  ASSERT_OK(Open(1, 1, /*probe=*/false));  // nothing is known: quanta for 1
  Contribute(1, 0, gradient);
  ASSERT_OK_AND_ASSIGN(const VectorReply reply, Run(CloseRequest(1, "g")));
  EXPECT_TRUE(reply.evaluate_again());
  EXPECT_EQ(store_.Find("g").status().code(), absl::StatusCode::kNotFound);
  ASSERT_OK(Open(2, 1, /*probe=*/false));
  Contribute(2, 0, gradient);
  ASSERT_OK_AND_ASSIGN(const VectorReply repeated, Run(CloseRequest(2, "g")));
  EXPECT_FALSE(repeated.evaluate_again());
  EXPECT_EQ(Get("g")[0], 2500.0f);
}

TEST_F(VectorStoreTest, AVectorThatFellBelowItsQuantaIsRepeated) {
  ASSERT_OK(Open(1, 1, /*probe=*/false));
  Contribute(1, 0, Vector(kFloats, 1.0f));
  ASSERT_OK(Run(CloseRequest(1, "g")));
  const Vector gradient(kFloats, 0x1p-45f);
  ASSERT_OK(Open(2, 1, /*probe=*/false));
  Contribute(2, 0, gradient);
  ASSERT_OK_AND_ASSIGN(const VectorReply reply, Run(CloseRequest(2, "h")));
  EXPECT_TRUE(reply.evaluate_again());
  EXPECT_EQ(store_.Find("h").status().code(), absl::StatusCode::kNotFound);
  ASSERT_OK(Open(3, 1, /*probe=*/false));
  Contribute(3, 0, gradient);
  ASSERT_OK_AND_ASSIGN(const VectorReply repeated, Run(CloseRequest(3, "h")));
  EXPECT_FALSE(repeated.evaluate_again());
  EXPECT_EQ(Get("h")[0], 0x1p-46f);
}

TEST_F(VectorStoreTest, ACloseAnswersTheProductsOfItsVector) {
  ASSERT_OK(Fill("w", 2.0));
  ASSERT_OK(Open(1, 1, /*probe=*/false));
  Contribute(1, 0, Vector(kFloats, 6.0f));
  VectorRequest close = CloseRequest(1, "g");
  close.mutable_close_evaluation()->mutable_gram()->add_row("g");
  close.mutable_close_evaluation()->mutable_gram()->add_column("w");
  close.mutable_close_evaluation()->mutable_gram()->add_column("nothing");
  EXPECT_THAT(Run(close), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothing")));
  EXPECT_EQ(store_.Find("g").status().code(), absl::StatusCode::kNotFound)
      << "an operation that fails changes nothing";
  close.mutable_close_evaluation()->mutable_gram()->set_column(1, "g");
  ASSERT_OK_AND_ASSIGN(const VectorReply reply, Run(close));
  EXPECT_THAT(reply.scalar(), ::testing::ElementsAre(6.0 * (kFloats - 4), 9.0 * (kFloats - 4)));
}

TEST_F(VectorStoreTest, ACloseThatFailsLeavesTheEvaluationOpen) {
  ASSERT_OK(Open(1, 1, /*probe=*/false));
  Contribute(1, 0, Vector(kFloats, 1.0f));
  VectorRequest close = CloseRequest(1, "g");
  close.mutable_close_evaluation()->set_shift(1.0);
  EXPECT_EQ(Run(close).status().code(), absl::StatusCode::kInvalidArgument);
  close.mutable_close_evaluation()->set_shift_vector("w");
  EXPECT_THAT(Run(close), StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"w\"")));
  ASSERT_OK(Run(CloseRequest(1, "g")));
  EXPECT_EQ(Get("g")[0], 0.5f);
  EXPECT_EQ(Run(CloseRequest(1, "h")).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(VectorStoreTest, AnAbandonedEvaluationTakesNothingMore) {
  const Vector gradient(kFloats, 1.0f);
  ASSERT_OK(Open(1, 2, /*probe=*/false));
  Contribute(1, 0, gradient);
  VectorRequest abandon = CloseRequest(1, "g");
  abandon.mutable_close_evaluation()->set_abandon(true);
  ASSERT_OK(Run(abandon));
  EXPECT_EQ(store_.Contribute(1, 1, 0, std::span(gradient).first(kStripe)).verdict, REFUSED_CLOSED);
  EXPECT_EQ(store_.Find("g").status().code(), absl::StatusCode::kNotFound);
  // An older one is gone anyway; the open one stays.
  ASSERT_OK(Open(2, 1, /*probe=*/false));
  VectorRequest again = CloseRequest(1, "g");
  again.mutable_close_evaluation()->set_abandon(true);
  ASSERT_OK(Run(again));
  Contribute(2, 0, gradient);
}

}  // namespace
}  // namespace monsoon
