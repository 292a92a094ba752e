#include "ps_server/vector/contribution_sum.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/vector/fixed_point.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Vector = std::vector<float>;
using Outcome = ContributionSum::Outcome;

constexpr size_t kStripe = 64;
constexpr uint32_t kStripes = 3;
constexpr size_t kFloats = 2 * kStripe + 21;  // the last stripe and line are short
constexpr uint32_t kContributions = 24;

std::span<const float> StripeOf(const Vector& values, uint32_t stripe) {
  return std::span(values).subspan(stripe * kStripe,
                                   std::min(kStripe, values.size() - stripe * kStripe));
}

// Each line has a size of its own, over sixteen decades.
std::vector<Vector> RandomGradients(uint32_t count, uint32_t stream, float scale = 1.0f) {
  const PhiloxStream random(11, StreamKind::kTest, stream);
  std::vector<Vector> gradients(count, Vector(kFloats));
  for (uint32_t c = 0; c < count; ++c) {
    for (size_t i = 0; i < kFloats; ++i) {
      const float decade = std::pow(10.0f, static_cast<float>(i / kLineFloats % 9) * 2.0f - 8.0f);
      gradients[c][i] = scale * decade * random.Normal(c * kFloats + i);
    }
  }
  return gradients;
}

Verdict Add(ContributionSum* sum, uint64_t evaluation, uint32_t contribution, uint32_t stripe,
            const Vector& gradient) {
  return sum->Add(evaluation, contribution, stripe, StripeOf(gradient, stripe)).verdict;
}

void AddAll(ContributionSum* sum, uint64_t evaluation, const std::vector<Vector>& gradients) {
  for (uint32_t c = 0; c < gradients.size(); ++c) {
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      ASSERT_EQ(Add(sum, evaluation, c, stripe, gradients[c]), APPLIED);
    }
  }
}

// The sum's bits; closes the evaluation.
Vector Take(ContributionSum* sum, uint64_t evaluation) {
  const absl::StatusOr<Outcome> outcome = sum->CheckClose(evaluation);
  EXPECT_OK(outcome);
  EXPECT_TRUE(outcome.ok() && *outcome == Outcome::kSum);
  Vector result(kFloats);
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    const size_t begin = stripe * kStripe;
    sum->Round(stripe, 1.0, 0.0, {},
               std::span(result).subspan(begin, std::min(kStripe, kFloats - begin)));
  }
  sum->Close();
  return result;
}

// Notes the maxima of `gradients` in evaluation 1.
void Probe(ContributionSum* sum, const std::vector<Vector>& gradients) {
  sum->Open(1, static_cast<uint32_t>(gradients.size()), /*probe=*/true);
  AddAll(sum, 1, gradients);
  ASSERT_OK_AND_ASSIGN(const Outcome outcome, sum->CheckClose(1));
  ASSERT_TRUE(outcome == Outcome::kProbe);
  sum->Close();
}

TEST(ContributionSumTest, IsTheExactSumToWithinHalfAQuantumEach) {
  const std::vector<Vector> gradients = RandomGradients(kContributions, 1);
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, gradients);
  sum.Open(2, kContributions, /*probe=*/false);
  AddAll(&sum, 2, gradients);
  const Vector result = Take(&sum, 2);
  Vector maxima(kFloats / kLineFloats + 1, 0.0f);
  for (const Vector& gradient : gradients) {
    RaiseMaxima(gradient, maxima);
  }
  for (size_t i = 0; i < kFloats; ++i) {
    long double exact = 0.0L;
    for (const Vector& gradient : gradients) {
      exact += gradient[i];
    }
    const float maximum = maxima[i / kLineFloats];
    const double quantum = std::ldexp(1.0, QuantumExponent(maximum, ValueBits(kContributions)));
    EXPECT_LE(quantum, maximum * 0x1p-38);
    const double rounding = std::abs(static_cast<double>(exact)) * 0x1p-24;
    EXPECT_NEAR(result[i], static_cast<double>(exact), kContributions * 0.5 * quantum + rounding);
  }
}

TEST(ContributionSumTest, TensorsTenToTheEighthApartKeepTheirPrecision) {
  // A stripe with a line of 1e8 beside one of 1.
  std::vector<Vector> gradients(100, Vector(kFloats, 0.1f));
  for (size_t c = 0; c < gradients.size(); ++c) {
    for (size_t i = 0; i < kLineFloats; ++i) {
      gradients[c][i] = 1.23456789e8f * static_cast<float>(c);
    }
    gradients[c][kLineFloats] = 1.0f + 0x1p-23f * static_cast<float>(c);
  }
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, gradients);
  sum.Open(2, 100, /*probe=*/false);
  AddAll(&sum, 2, gradients);
  const Vector result = Take(&sum, 2);
  EXPECT_EQ(result[0], static_cast<float>(1.23456789e8f * 4950.0));
  EXPECT_EQ(result[kLineFloats], static_cast<float>(100.0 + 4950 * 0x1p-23));
  EXPECT_EQ(result[kLineFloats + 1], static_cast<float>(100 * static_cast<double>(0.1f)));
}

TEST(ContributionSumTest, AHundredOrdersWithDuplicatesGiveTheSameBits) {
  const std::vector<Vector> gradients = RandomGradients(kContributions, 2);
  const std::vector<Vector> others = RandomGradients(kContributions, 3);
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, gradients);
  Vector first;
  for (uint32_t order = 0; order < 100; ++order) {
    const uint64_t evaluation = 2 + order;
    sum.Open(evaluation, kContributions, /*probe=*/false);
    std::vector<uint32_t> ids(kContributions * kStripes);
    std::iota(ids.begin(), ids.end(), 0u);
    const PhiloxStream random(order, StreamKind::kTest);
    for (uint32_t i = static_cast<uint32_t>(ids.size()) - 1; i > 0; --i) {
      std::swap(ids[i], ids[random.Below(i, i + 1)]);
    }
    for (const uint32_t id : ids) {
      const uint32_t contribution = id / kStripes, stripe = id % kStripes;
      EXPECT_EQ(Add(&sum, evaluation, contribution, stripe, gradients[contribution]), APPLIED);
      // The first wins, whatever the second brings.
      EXPECT_EQ(Add(&sum, evaluation, contribution, stripe, others[contribution]), DUPLICATE);
    }
    const Vector result = Take(&sum, evaluation);
    if (first.empty()) {
      first = result;
    }
    ASSERT_EQ(result, first) << order;
  }
}

TEST(ContributionSumTest, EightThreadsCountEachContributionOnceWithTheSameBits) {
  const std::vector<Vector> gradients = RandomGradients(kContributions, 4);
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, gradients);
  sum.Open(2, kContributions, /*probe=*/false);
  AddAll(&sum, 2, gradients);
  const Vector expected = Take(&sum, 2);
  for (uint64_t evaluation = 3; evaluation < 13; ++evaluation) {
    sum.Open(evaluation, kContributions, /*probe=*/false);
    std::atomic<uint32_t> applied{0}, duplicates{0};
    std::vector<std::jthread> threads;
    for (uint32_t thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (uint32_t c = 0; c < kContributions; ++c) {
          const uint32_t id = (c * 5 + thread * 3) % kContributions;
          for (uint32_t s = 0; s < kStripes; ++s) {
            const Verdict verdict =
                Add(&sum, evaluation, id, (s + thread) % kStripes, gradients[id]);
            applied += verdict == APPLIED ? 1 : 0;
            duplicates += verdict == DUPLICATE ? 1 : 0;
          }
        }
      });
    }
    threads.clear();
    EXPECT_EQ(applied, kContributions * kStripes);
    EXPECT_EQ(duplicates, 7 * kContributions * kStripes);
    ASSERT_EQ(Take(&sum, evaluation), expected);
  }
}

TEST(ContributionSumTest, AnOverflowIsToldAtTheCloseAndItsMaximaServeTheNextEvaluation) {
  const std::vector<Vector> small = RandomGradients(kContributions, 5);
  std::vector<Vector> large = RandomGradients(kContributions, 5, 5000.0f);
  Vector first;
  for (const bool reversed : {false, true}) {
    ContributionSum sum(kFloats, kStripe);
    Probe(&sum, small);
    for (const uint64_t evaluation : {2, 3}) {
      sum.Open(evaluation, kContributions, /*probe=*/false);
      for (uint32_t i = 0; i < kContributions; ++i) {
        const uint32_t c = reversed ? kContributions - 1 - i : i;
        for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
          EXPECT_EQ(Add(&sum, evaluation, c, stripe, large[c]), APPLIED);
        }
      }
      if (evaluation == 2) {
        ASSERT_OK_AND_ASSIGN(const Outcome outcome, sum.CheckClose(2));
        EXPECT_TRUE(outcome == Outcome::kOverflow);
        sum.Close();
      }
    }
    const Vector result = Take(&sum, 3);
    if (!reversed) {
      first = result;
    }
    EXPECT_EQ(result, first);
  }
}

TEST(ContributionSumTest, OneLargeValueOverflowsWhereverItComes) {
  for (const uint32_t position : {0u, 7u, kContributions - 1}) {
    std::vector<Vector> gradients(kContributions, Vector(kFloats, 1.0f));
    ContributionSum sum(kFloats, kStripe);
    Probe(&sum, gradients);
    gradients[position][kFloats - 1] = 1025.0f;
    sum.Open(2, kContributions, /*probe=*/false);
    AddAll(&sum, 2, gradients);
    EXPECT_TRUE(*sum.CheckClose(2) == Outcome::kOverflow);
    gradients[position][kFloats - 1] = 1024.0f;
    sum.Open(3, kContributions, /*probe=*/false);
    AddAll(&sum, 3, gradients);
    EXPECT_TRUE(*sum.CheckClose(3) == Outcome::kSum);
  }
}

TEST(ContributionSumTest, ALineOfZerosGetsTheMaximumOfItsStripeOrOne) {
  std::vector<Vector> gradients(2, Vector(kFloats, 0.0f));
  gradients[0][0] = 8.0f;  // of the first line of the first stripe
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, gradients);
  gradients[1][kLineFloats] = 8.0f * 1024.0f;
  gradients[1][kStripe] = 1024.0f;
  sum.Open(2, 2, /*probe=*/false);
  AddAll(&sum, 2, gradients);
  const Vector result = Take(&sum, 2);
  EXPECT_EQ(result[0], 8.0f);
  EXPECT_EQ(result[kLineFloats], 8192.0f);
  EXPECT_EQ(result[kStripe], 1024.0f);
  gradients[1][kStripe] = 1024.0f * 2048.0f;
  sum.Open(3, 2, /*probe=*/false);
  AddAll(&sum, 3, gradients);
  EXPECT_TRUE(*sum.CheckClose(3) == Outcome::kOverflow);
}

TEST(ContributionSumTest, ValuesFarBelowTheirQuantumAreRepeatedAndNotTakenForZero) {
  std::vector<Vector> gradients = RandomGradients(kContributions, 6);
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, gradients);
  sum.Open(2, kContributions, /*probe=*/false);
  AddAll(&sum, 2, gradients);
  Vector expected = Take(&sum, 2);
  for (Vector& gradient : gradients) {
    for (float& value : gradient) {
      value *= 0x1p-60f;  // each sum would be 0
    }
  }
  for (float& value : expected) {
    value *= 0x1p-60f;
  }
  sum.Open(3, kContributions, /*probe=*/false);
  AddAll(&sum, 3, gradients);
  EXPECT_TRUE(*sum.CheckClose(3) == Outcome::kTooCoarse);
  sum.Close();
  sum.Open(4, kContributions, /*probe=*/false);
  AddAll(&sum, 4, gradients);
  EXPECT_EQ(Take(&sum, 4), expected);
}

TEST(ContributionSumTest, ALineMayFallByTwelveBitsButNotByMore) {
  for (const bool more : {false, true}) {
    std::vector<Vector> gradients(2, Vector(kFloats, 1.0f));
    ContributionSum sum(kFloats, kStripe);
    Probe(&sum, gradients);
    for (Vector& gradient : gradients) {
      std::fill_n(gradient.begin() + kStripe, kLineFloats, more ? 0x1p-13f : 0x1p-12f);
    }
    sum.Open(2, 2, /*probe=*/false);
    AddAll(&sum, 2, gradients);
    EXPECT_TRUE(*sum.CheckClose(2) == (more ? Outcome::kTooCoarse : Outcome::kSum));
  }
}

TEST(ContributionSumTest, ALineThatIsZeroForOnceKeepsItsQuantum) {
  std::vector<Vector> gradients(2, Vector(kFloats, 1.0f));
  std::fill_n(gradients[0].begin(), kLineFloats, 0x1p-40f);
  std::fill_n(gradients[1].begin(), kLineFloats, 0x1p-40f);
  const std::vector<Vector> usual = gradients;
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, gradients);
  std::fill_n(gradients[0].begin(), kLineFloats, 0.0f);
  std::fill_n(gradients[1].begin(), kLineFloats, 0.0f);
  sum.Open(2, 2, /*probe=*/false);
  AddAll(&sum, 2, gradients);
  EXPECT_EQ(Take(&sum, 2)[0], 0.0f) << "zeros are exact";
  sum.Open(3, 2, /*probe=*/false);
  AddAll(&sum, 3, usual);
  EXPECT_EQ(Take(&sum, 3)[0], 0x1p-39f);
}

TEST(ContributionSumTest, RefusesWhatIsLateEarlyOrUnknown) {
  const Vector gradient(kFloats, 1.0f);
  ContributionSum sum(kFloats, kStripe);
  EXPECT_EQ(Add(&sum, 0, 0, 0, gradient), REFUSED_CLOSED);
  EXPECT_EQ(Add(&sum, 4, 0, 0, gradient), REFUSED_CLOSED);
  sum.Open(4, 1, /*probe=*/false);
  EXPECT_EQ(Add(&sum, 3, 0, 0, gradient), REFUSED_CLOSED);
  EXPECT_EQ(Add(&sum, 5, 0, 0, gradient), REFUSED_CLOSED);
  EXPECT_EQ(Add(&sum, 4, 1, 0, gradient), REFUSED_REQUEST);
  AddAll(&sum, 4, {gradient});
  EXPECT_EQ(Take(&sum, 4), gradient);
  EXPECT_EQ(Add(&sum, 4, 0, 0, gradient), REFUSED_CLOSED);
  EXPECT_THAT(sum.CheckClose(4),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("none")));
  EXPECT_EQ(sum.CheckOpen(4, 1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(sum.CheckOpen(5, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(sum.CheckOpen(5, ContributionSum::kMostContributions + 1).code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_OK(sum.CheckOpen(5, ContributionSum::kMostContributions));
}

TEST(ContributionSumTest, AnIncompleteEvaluationStaysOpenAndNamesWhatIsMissing) {
  const std::vector<Vector> gradients(130, Vector(kFloats, 1.0f));
  ContributionSum sum(kFloats, kStripe);
  sum.Open(1, 130, /*probe=*/false);
  for (uint32_t c = 0; c < 130; ++c) {
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      if (c != 128 || stripe != 1) {
        EXPECT_EQ(Add(&sum, 1, c, stripe, gradients[c]), APPLIED);
      }
    }
  }
  EXPECT_THAT(sum.CheckClose(1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("contribution 128 is missing on stripe 1"),
                             HasSubstr("129 of 130"))));
  EXPECT_EQ(Add(&sum, 1, 128, 1, gradients[128]), APPLIED);
  EXPECT_EQ(Take(&sum, 1), Vector(kFloats, 130.0f));
}

TEST(ContributionSumTest, OpeningAbandonsTheOlderEvaluationWithoutATrace) {
  const Vector ones(kFloats, 1.0f), huge(kFloats, 1e30f);
  ContributionSum sum(kFloats, kStripe);
  Probe(&sum, {ones, ones});
  sum.Open(2, 2, /*probe=*/false);
  EXPECT_EQ(Add(&sum, 2, 0, 0, huge), APPLIED);
  sum.Open(3, 2, /*probe=*/false);
  EXPECT_EQ(Add(&sum, 2, 1, 0, huge), REFUSED_CLOSED);
  AddAll(&sum, 3, {ones, ones});
  EXPECT_EQ(Take(&sum, 3), Vector(kFloats, 2.0f));
  sum.Open(4, 2, /*probe=*/false);
  EXPECT_EQ(Add(&sum, 4, 0, 0, huge), APPLIED);
  sum.Abandon();
  EXPECT_EQ(sum.open(), 0u);
  EXPECT_EQ(Add(&sum, 4, 1, 0, huge), REFUSED_CLOSED);
  sum.Open(5, 1, /*probe=*/false);
  AddAll(&sum, 5, {huge});  // the maxima are still those of evaluation 3
  EXPECT_TRUE(*sum.CheckClose(5) == Outcome::kOverflow);
}

TEST(ContributionSumTest, TellsItsMemoryBeforeItIsTaken) {
  ContributionSum sum(kFloats, kStripe);
  EXPECT_EQ(sum.memory_bytes(), 0u);
  uint64_t evaluation = 1;
  for (const uint32_t contributions : {100u, 5000u, 10u}) {
    for (const bool probe : {true, false}) {
      const uint64_t expected = sum.MemoryAfterOpen(contributions, probe);
      sum.Open(evaluation++, contributions, probe);
      EXPECT_EQ(sum.memory_bytes(), expected);
    }
  }
  EXPECT_GE(sum.memory_bytes(), kFloats * sizeof(int64_t));
}

}  // namespace
}  // namespace monsoon
