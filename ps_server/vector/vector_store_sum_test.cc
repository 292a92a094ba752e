// VectorStore: evaluations, from their opening to the vector that they become.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/vector/memory_budget.h"
#include "ps_server/vector/vector_store.h"
#include "ps_server/vector/vector_store_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;
using testing::kFloats;
using testing::kStripe;
using testing::kVectorBytes;
using testing::Shape;
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

// ---- the sum goes on in another store ----------------------------------------

// The largest value of each line is 1000, more than what nothing is known of, and small
// values are rounded by it.
Vector Gradient(uint32_t seed) {
  Vector values(kFloats);
  for (size_t i = 0; i < kFloats; ++i) {
    values[i] = i % 16 == 3 ? 1000.0f : 1e-6f * static_cast<float>(seed + i) / 7.0f;
  }
  return values;
}

class RestoredSumTest : public VectorStoreTest {
 protected:
  // A closed evaluation of two contributions.
  static void Evaluate(VectorStore* store, uint64_t first_operation, uint64_t evaluation,
                       const std::string& out) {
    VectorRequest open;
    open.set_op_id(first_operation);
    open.mutable_open_evaluation()->set_evaluation(evaluation);
    open.mutable_open_evaluation()->set_contributions(2);
    ASSERT_OK(store->Execute(open));
    for (const uint32_t contribution : {0u, 1u}) {
      const Vector values = Gradient(10 * static_cast<uint32_t>(evaluation) + contribution);
      for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
        const size_t begin = stripe * kStripe;
        ASSERT_EQ(
            store
                ->Contribute(evaluation, contribution, stripe,
                             std::span(values).subspan(begin, std::min(kStripe, kFloats - begin)))
                .verdict,
            APPLIED);
      }
    }
    VectorRequest close;
    close.set_op_id(first_operation + 1);
    close.mutable_close_evaluation()->set_evaluation(evaluation);
    close.mutable_close_evaluation()->set_out(out);
    close.mutable_close_evaluation()->set_factor(0.5);
    ASSERT_OK_AND_ASSIGN(const VectorReply reply, store->Execute(close));
    ASSERT_FALSE(reply.evaluate_again());
  }

  static Vector Read(const VectorStore& store, const std::string& name) {
    const auto vector = store.Find(name);
    EXPECT_OK(vector);
    return vector.ok() ? Vector((*vector)->data(), (*vector)->data() + (*vector)->size())
                       : Vector();
  }

  void Cut() {
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      cut_.push_back(store_.Maxima(stripe));
    }
  }

  static constexpr uint32_t kStripes = 4;
  std::vector<Vector> cut_;  // the maxima of each stripe
};

TEST_F(RestoredSumTest, NothingIsKnownBeforeTheFirstEvaluation) {
  EXPECT_THAT(store_.Maxima(0), ::testing::IsEmpty());
  ASSERT_OK(store_.RestoreMaxima(0, {}));
  EXPECT_EQ(budget_.used(), 0u);
}

TEST_F(RestoredSumTest, WithItsMaximaTheNextSumHasTheSameBits) {
  Evaluate(&store_, 1, 1, "g1");
  Cut();
  EXPECT_EQ(cut_[0], Vector(4, 1000.0f));
  EXPECT_EQ(cut_[3], Vector(2, 1000.0f));
  Evaluate(&store_, 3, 2, "g2");
  const Vector expected = Read(store_, "g2");

  MemoryBudget budget("ps/0", kBudget);
  VectorStore restored(Shape(), &parameters_, &budget);
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    ASSERT_OK(restored.RestoreMaxima(stripe, cut_[stripe]));
    EXPECT_EQ(restored.Maxima(stripe), cut_[stripe]);
  }
  Evaluate(&restored, 1, 2, "g2");
  EXPECT_EQ(Read(restored, "g2"), expected);

  VectorStore ignorant(Shape(), &parameters_, &budget);
  Evaluate(&ignorant, 1, 2, "g2");
  EXPECT_NE(Read(ignorant, "g2"), expected) << "these values do not notice the maxima";
}

// What an open sum takes is counted once, whether its maxima were restored or not.
TEST_F(RestoredSumTest, RestoredMaximaAreCounted) {
  Evaluate(&store_, 1, 1, "g1");
  Cut();
  MemoryBudget budget("ps/0", kBudget);
  uint64_t maxima = 0;
  {
    VectorStore restored(Shape(), &parameters_, &budget);
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      ASSERT_OK(restored.RestoreMaxima(stripe, cut_[stripe]));
      maxima += cut_[stripe].size() * sizeof(float);
    }
    EXPECT_EQ(budget.used(), maxima);
    EXPECT_EQ(restored.memory_bytes(), maxima);
    Evaluate(&restored, 1, 1, "g1");
    EXPECT_EQ(budget.used(), budget_.used());
    EXPECT_EQ(restored.memory_bytes(), store_.memory_bytes());
  }
  EXPECT_EQ(budget.used(), 0u);
  MemoryBudget small("ps/0", maxima - 1);
  VectorStore restored(Shape(), &parameters_, &small);
  for (uint32_t stripe = 0; stripe + 1 < kStripes; ++stripe) {
    ASSERT_OK(restored.RestoreMaxima(stripe, cut_[stripe]));
  }
  EXPECT_THAT(restored.RestoreMaxima(3, cut_[3]),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("largest values")));
  EXPECT_THAT(restored.Maxima(3), ::testing::IsEmpty());
}

}  // namespace
}  // namespace monsoon
