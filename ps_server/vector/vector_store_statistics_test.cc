// VectorStore: statistics of a network are constants of the function that is minimised.
#include <cmath>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/vector/memory_budget.h"
#include "ps_server/vector/slice_parts.h"
#include "ps_server/vector/vector_store.h"
#include "ps_server/vector/vector_store_fixture.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeParameters;
using ::testing::IsEmpty;
using testing::kBegin;
using testing::kFloats;
using testing::kStripe;
using testing::Vector;

MATCHER_P2(IsSlice, begin, end, "") {
  return arg.begin == static_cast<uint64_t>(begin) && arg.end == static_cast<uint64_t>(end);
}

TEST(SlicePartsTest, WhatIsLeftOfARange) {
  const std::vector<Slice> others = {{2, 4}, {4, 5}, {9, 20}};
  EXPECT_THAT(PartsOutside({0, 12}, others), ElementsAre(IsSlice(0, 2), IsSlice(5, 9)));
  EXPECT_THAT(PartsOutside({3, 10}, others), ElementsAre(IsSlice(5, 9)));
  EXPECT_THAT(PartsOutside({5, 9}, others), ElementsAre(IsSlice(5, 9)));
  EXPECT_THAT(PartsOutside({10, 14}, others), IsEmpty());
  EXPECT_THAT(PartsOutside({20, 25}, others), ElementsAre(IsSlice(20, 25)));
  EXPECT_THAT(PartsOutside({0, 3}, {}), ElementsAre(IsSlice(0, 3)));
}

// Within a stripe, over the border of two, and a whole one.
constexpr Slice kStatistics[] = {{7, 20}, {60, 70}, {2 * kStripe, 3 * kStripe}};

bool IsStatistic(size_t i) {
  for (const Slice& slice : kStatistics) {
    if (i >= slice.begin && i < slice.end) {
      return true;
    }
  }
  return false;
}

class StatisticsTest : public ::testing::Test {
 protected:
  static SliceShape MakeShape() {
    SliceShape shape{"job-1", kBegin, kFloats, kStripe, {}, {}, {}};
    for (const Slice& slice : kStatistics) {
      shape.statistics.push_back({kBegin + slice.begin, kBegin + slice.end});
    }
    return shape;
  }

  StatisticsTest() {
    for (size_t i = 0; i < kFloats; ++i) {
      parameters_.values[i] = 0.01f * static_cast<float>(i % 37) - 0.2f;
    }
  }

  VectorReply Run(VectorRequest request) {
    request.set_op_id(++last_id_);
    const absl::StatusOr<VectorReply> reply = store_.Execute(request);
    EXPECT_OK(reply);
    return reply.ok() ? *reply : VectorReply();
  }
  void Copy(const std::string& out) {
    VectorRequest request;
    request.mutable_copy()->set_out(out);
    Run(request);
  }
  Vector Get(const std::string& name) {
    const auto vector = store_.Find(name);
    EXPECT_OK(vector);
    return Vector((*vector)->data(), (*vector)->data() + (*vector)->size());
  }
  // Without statistics.
  static double Product(const Vector& x, const Vector& y) {
    double sum = 0;
    for (size_t i = 0; i < kFloats; ++i) {
      sum += IsStatistic(i) ? 0.0 : static_cast<double>(x[i]) * static_cast<double>(y[i]);
    }
    return sum;
  }

  MemoryBudget budget_{"ps/0", 1 << 20};
  FakeParameters parameters_;
  VectorStore store_{MakeShape(), &parameters_, &budget_};
  uint64_t last_id_ = 0;
};

TEST_F(StatisticsTest, NoProductCountsThem) {
  Copy("w");
  VectorRequest dot;
  dot.mutable_dot()->set_x("w");
  dot.mutable_dot()->set_y("w");
  const double expected = Product(parameters_.values, parameters_.values);
  EXPECT_NEAR(Run(dot).scalar(0), expected, 1e-12);
  VectorRequest gram;
  gram.mutable_gram()->add_row("w");
  gram.mutable_gram()->add_column("w");
  EXPECT_NEAR(Run(gram).scalar(0), expected, 1e-12);
  VectorRequest combine;
  combine.mutable_combine()->set_out("x");
  combine.mutable_combine()->add_in("w");
  combine.mutable_combine()->add_factor(2.0);
  combine.mutable_combine()->add_dot_with("w");
  EXPECT_NEAR(Run(combine).scalar(0), 2 * expected, 1e-12);
  // But it makes them, as all else.
  const Vector x = Get("x");
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(x[i], 2.0f * parameters_.values[i]) << i;
  }
}

TEST_F(StatisticsTest, TheGradientIsZeroThereWithL2) {
  Copy("w");
  VectorRequest open;
  open.mutable_open_evaluation()->set_evaluation(1);
  open.mutable_open_evaluation()->set_contributions(1);
  Run(open);
  for (uint32_t stripe = 0; stripe * kStripe < kFloats; ++stripe) {
    const Vector ones(std::min(kStripe, kFloats - stripe * kStripe), 1.0f);
    EXPECT_EQ(store_.Contribute(1, 0, stripe, ones).verdict, APPLIED);
  }
  VectorRequest close;
  close.mutable_close_evaluation()->set_evaluation(1);
  close.mutable_close_evaluation()->set_out("g");
  close.mutable_close_evaluation()->set_factor(0.5);
  close.mutable_close_evaluation()->set_shift(0.25);
  close.mutable_close_evaluation()->set_shift_vector("w");
  close.mutable_close_evaluation()->mutable_gram()->add_row("w");
  close.mutable_close_evaluation()->mutable_gram()->add_column("g");
  const VectorReply reply = Run(close);
  const Vector g = Get("g");
  for (size_t i = 0; i < kFloats; ++i) {
    const double expected = 0.5 + 0.25 * static_cast<double>(parameters_.values[i]);
    EXPECT_EQ(g[i], IsStatistic(i) ? 0.0f : static_cast<float>(expected)) << i;
  }
  EXPECT_NEAR(reply.scalar(0), Product(parameters_.values, g), 1e-12);
}

}  // namespace
}  // namespace monsoon
