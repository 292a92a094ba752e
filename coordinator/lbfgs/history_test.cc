#include "coordinator/lbfgs/history.h"

#include <cmath>
#include <numeric>

#include "common/base/random.h"
#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using Array = std::vector<double>;

double Dot(const Array& a, const Array& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Array Random(size_t n, uint32_t sub) {
  const PhiloxStream stream(11, StreamKind::kTest, sub);
  Array values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = stream.Normal(i);
  }
  return values;
}

// Nocedal and Wright, Numerical Optimization, algorithm 7.4, on arrays.
Array TwoLoop(const std::vector<Array>& s, const std::vector<Array>& y, const Array& g) {
  Array q = g;
  std::vector<double> alpha(s.size());
  for (size_t i = s.size(); i-- > 0;) {
    alpha[i] = Dot(s[i], q) / Dot(s[i], y[i]);
    for (size_t j = 0; j < q.size(); ++j) {
      q[j] -= alpha[i] * y[i][j];
    }
  }
  const double gamma = Dot(s.back(), y.back()) / Dot(y.back(), y.back());
  for (double& value : q) {
    value *= gamma;
  }
  for (size_t i = 0; i < s.size(); ++i) {
    const double beta = Dot(y[i], q) / Dot(s[i], y[i]);
    for (size_t j = 0; j < q.size(); ++j) {
      q[j] += s[i][j] * (alpha[i] - beta);
    }
  }
  for (double& value : q) {
    value = -value;
  }
  return q;
}

class HistoryTest : public ::testing::Test {
 protected:
  static constexpr size_t kSize = 50;

  // Adds a pair by the one round that the driver uses.
  bool Add(History* history, const Array& s, const Array& y, const std::string& g) {
    OwnedVector s_name = OwnedVector::New(&space_, "s");
    OwnedVector y_name = OwnedVector::New(&space_, "y");
    EXPECT_OK(space_.Write(s_name.name(), s));
    EXPECT_OK(space_.Write(y_name.name(), y));
    std::vector<std::string> columns = history->Basis();
    columns.push_back(s_name.name());
    columns.push_back(y_name.name());
    auto dots = space_.Gram({y_name.name(), g}, columns);
    EXPECT_OK(dots);
    return history->Add(std::move(s_name), std::move(y_name), *dots);
  }

  LocalVectorSpace space_{kSize, LocalVectorSpace::Precision::kDouble};
};

TEST_F(HistoryTest, DirectionIsTheClassicalTwoLoopRecursions) {
  constexpr size_t kCapacity = 5;
  History history(kCapacity);
  std::vector<Array> s_kept, y_kept;
  for (uint32_t k = 0; k < 9; ++k) {
    const Array s = Random(kSize, 3 * k);
    Array y = Random(kSize, 3 * k + 1);
    // y = A s + noise with A between 1 and 3: positive curvature.
    for (size_t i = 0; i < kSize; ++i) {
      y[i] = 0.3 * y[i] + (1.0 + 2.0 * static_cast<double>(i) / kSize) * s[i];
    }
    const Array g = Random(kSize, 3 * k + 2);
    const std::string g_name = space_.NewName("g");
    ASSERT_OK(space_.Write(g_name, g));
    ASSERT_TRUE(Add(&history, s, y, g_name));
    s_kept.push_back(s);
    y_kept.push_back(y);
    if (s_kept.size() > kCapacity) {
      s_kept.erase(s_kept.begin());
      y_kept.erase(y_kept.begin());
    }
    ASSERT_EQ(history.size(), s_kept.size());
    const Array expected = TwoLoop(s_kept, y_kept, g);
    const std::string d = space_.NewName("d");
    ASSERT_OK(space_.Combine(d, history.Direction(g_name), {}));
    ASSERT_OK_AND_ASSIGN(const std::span<const double> actual, space_.Read(d));
    const double scale = std::sqrt(Dot(expected, expected));
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(actual[i], expected[i], 1e-12 * scale) << "pair " << k << " element " << i;
    }
  }
  EXPECT_THAT(history.Basis(), ::testing::SizeIs(2 * kCapacity));
}

TEST_F(HistoryTest, EmptyHistoryIsSteepestDescent) {
  const History history(3);
  const std::vector<Term> terms = history.Direction("g");
  ASSERT_EQ(terms.size(), 1u);
  EXPECT_EQ(terms[0].factor, -1.0);
  EXPECT_EQ(terms[0].vector, "g");
}

TEST_F(HistoryTest, RefusesAndFreesAPairWithoutCurvature) {
  History history(3);
  const Array s = Random(kSize, 1);
  Array y = s;
  const Array g = Random(kSize, 2);
  ASSERT_OK(space_.Write("g", g));
  for (double& value : y) {
    value = -value;
  }
  EXPECT_FALSE(Add(&history, s, y, "g")) << "negative curvature";
  // s . g_old = s . g - s . y is about s . g here.
  for (double& value : y) {
    value = 1e-12 * std::abs(Dot(s, g)) / Dot(s, s) * -value;
  }
  EXPECT_FALSE(Add(&history, s, y, "g")) << "curvature that is rounding";
  y.assign(kSize, 0.0);
  EXPECT_FALSE(Add(&history, s, y, "g")) << "no curvature";
  y.assign(kSize, 1e200);
  EXPECT_FALSE(Add(&history, y, y, "g")) << "products overflow";
  EXPECT_TRUE(history.empty());
  ASSERT_OK(space_.Flush());
  EXPECT_EQ(space_.live_vectors(), 1u);
}

TEST_F(HistoryTest, ARefusedPairStillBringsTheNewGradient) {
  History history(3);
  const Array s = Random(kSize, 1);
  ASSERT_OK(space_.Write("g1", Random(kSize, 2)));
  const Array g2 = Random(kSize, 3);
  ASSERT_OK(space_.Write("g2", g2));
  ASSERT_TRUE(Add(&history, s, s, "g1"));
  EXPECT_FALSE(Add(&history, s, Array(kSize, 0.0), "g2"));
  ASSERT_OK(space_.Combine("d", history.Direction("g2"), {}));
  ASSERT_OK_AND_ASSIGN(const std::span<const double> actual, space_.Read("d"));
  const Array expected = TwoLoop({s}, {s}, g2);
  for (size_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(actual[i], expected[i], 1e-12);
  }
}

TEST_F(HistoryTest, ClearFreesThePairs) {
  History history(3);
  const Array s = Random(kSize, 1);
  ASSERT_OK(space_.Write("g", s));
  ASSERT_TRUE(Add(&history, s, s, "g"));
  EXPECT_EQ(space_.live_vectors(), 3u);
  history.Clear();
  EXPECT_TRUE(history.empty());
  ASSERT_OK(space_.Flush());
  EXPECT_EQ(space_.live_vectors(), 1u);
}

}  // namespace
}  // namespace monsoon
