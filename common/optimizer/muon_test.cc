// Optimizer.muon, as CreateRangeKernel makes it. muon_steps_test compares many steps.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/range_kernel.h"
#include "common/simd/simd_level.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

// 3.4445 v - 4.775 v^3 + 2.0315 v^5 of 0.6, 0.8 and 1.
constexpr double kOf06 = 1.19326944;
constexpr double kOf08 = 0.97648192;
constexpr double kOf1 = 0.701;

Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return optimizer;
}

std::unique_ptr<OptimizerKernel> Of(const std::string& text, const TensorRanges& tensors,
                                    size_t floats) {
  auto kernel = CreateRangeKernel(Parse(text), tensors, {0, floats});
  EXPECT_OK(kernel);
  return *std::move(kernel);
}

TensorRanges Matrix(uint64_t begin, size_t rows, size_t columns) {
  return {.matrices = {{"w", begin, rows, columns}}};
}

// With one iteration. The first push has m = g and u = 1.25 g, which the norm takes away:
// x = [[0, f(0.6)], [f(0.8), 0]]. The second has m = [[0, 16], [17.6, 0]] and
// u = [[0, 4 + 0.25 * 16 = 8], [1.6 + 0.25 * 17.6 = 6, 0]], of the norm 10:
// x = [[0, f(0.8)], [f(0.6), 0]]. All loses 0.5 * 0.25 of itself each time.
TEST(MuonTest, TwoStepsByHand) {
  const auto kernel =
      Of("sgd { rate: 1 } muon { rate: 0.5 momentum: 0.25 weight_decay: 0.25 steps: 1 }",
         Matrix(0, 2, 2), 4);
  EXPECT_EQ(kernel->state_slots(), 1);
  EXPECT_EQ(kernel->initial_state(), 0.0f);
  std::vector<float> w(4, 8.0f), m(4, 0.0f), moved(4, 3.0f);
  kernel->ApplyAndTell(0, w, m, std::vector<float>{0, 48, 64, 0}, moved, /*fresh=*/true);
  EXPECT_EQ(m, (std::vector<float>{0, 48, 64, 0}));
  const double first[] = {7, 7 - 0.5 * kOf06, 7 - 0.5 * kOf08, 7};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(w[i], first[i], 2e-6) << i;
    EXPECT_NEAR(moved[i], first[i] - 8, 2e-6) << i;
  }
  kernel->ApplyAndTell(1, w, m, std::vector<float>{0, 4, 1.6f, 0}, moved, /*fresh=*/false);
  const double second[] = {0.875 * first[0], 0.875 * first[1] - 0.5 * kOf08,
                           0.875 * first[2] - 0.5 * kOf06, 0.875 * first[3]};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(w[i], second[i], 4e-6) << i;
    EXPECT_NEAR(moved[i], second[i] - 8, 4e-6) << i;
  }
  EXPECT_NEAR(m[1], 16, 1e-5);
  EXPECT_NEAR(m[2], 17.6, 1e-5);
}

// u = m: of the second push that is [[0, 16], [12, 0]], where Nesterov's would be
// [[0, 4 + 4], [-4 + 3, 0]].
TEST(MuonTest, WithoutNesterovTheMomentumIsMadeOrthogonal) {
  const auto kernel =
      Of("sgd { rate: 1 } muon { rate: 1 momentum: 0.25 weight_decay: 0 steps: 1 without_nesterov: "
         "true }",
         Matrix(0, 2, 2), 4);
  std::vector<float> w(4, 0.0f), m(4, 0.0f);
  kernel->Apply(0, w, m, std::vector<float>{0, 48, 64, 0});
  kernel->Apply(1, w, m, std::vector<float>{0, 4, -4, 0});
  EXPECT_NEAR(w[1], -kOf06 - kOf08, 1e-6);
  EXPECT_NEAR(w[2], -kOf08 - kOf06, 1e-6);
}

// Of a column [3, 4] x is 0.701 [0.6, 0.8], of a row too; it is scaled by sqrt(2 / 1), or 1.
TEST(MuonTest, TheScaleIsOfRowsAndColumns) {
  for (const auto& [scale, rows, expected] :
       {std::tuple<std::string, size_t, double>{"ORIGINAL", 2, std::sqrt(2.0)},
        {"ORIGINAL", 1, 1.0},
        {"MATCH_ADAMW", 2, 0.2 * std::sqrt(2.0)},
        {"MATCH_ADAMW", 1, 0.2 * std::sqrt(2.0)}}) {
    const auto kernel =
        Of("sgd { rate: 1 } muon { rate: 0.5 weight_decay: 0 steps: 1 scale: " + scale + " }",
           Matrix(0, rows, 2 / rows), 2);
    std::vector<float> w(2, 0.0f), m(2, 0.0f);
    kernel->Apply(0, w, m, std::vector<float>{3, 4});
    EXPECT_NEAR(w[0], -0.5 * expected * kOf1 * 0.6, 1e-6) << scale << rows;
    EXPECT_NEAR(w[1], -0.5 * expected * kOf1 * 0.8, 1e-6) << scale << rows;
  }
}

// Rates, momentum and decay are what is said of them where nothing is set.
TEST(MuonTest, UnsetNumbersAreThoseOfTheirFields) {
  Optimizer filled = Parse("sgd { rate: 1 } muon { rate: 1 }");
  FillOptimizerDefaults(&filled);
  EXPECT_EQ(filled.muon().momentum(), 0.95);
  EXPECT_EQ(filled.muon().weight_decay(), 0.1);
  EXPECT_EQ(filled.muon().steps(), 5u);
  const PhiloxStream stream(1, StreamKind::kTest);
  std::vector<float> g(6);
  for (size_t i = 0; i < g.size(); ++i) {
    g[i] = stream.Normal(i);
  }
  const auto train = [&](const std::string& muon) {
    const auto kernel = Of("sgd { rate: 1 } " + muon, Matrix(0, 3, 2), 6);
    std::vector<float> w(6, 1.0f), m(6, 0.0f);
    kernel->Apply(0, w, m, g);
    std::ranges::reverse(g);
    kernel->Apply(1, w, m, g);
    std::ranges::reverse(g);
    return w;
  };
  EXPECT_EQ(train("muon { rate: 0.1 }"),
            train("muon { rate: 0.1 momentum: 0.95 weight_decay: 0.1 steps: 5 }"));
  EXPECT_NE(train("muon { rate: 0.1 }"), train("muon { rate: 0.1 weight_decay: 0 }"));
  EXPECT_NE(train("muon { rate: 0.1 momentum: 0 }"), train("muon { rate: 0.1 }"));
}

// The kind has all around a matrix, its own clipping and decay, and its slots; the schedule is of
// both rates.
TEST(MuonTest, WhatIsNoMatrixIsTheKinds) {
  const std::string kind =
      "adam_w { rate: 0.5 weight_decay: 0.5 } clip_value: 2 schedule { "
      "warm_up_pushes: 4 } group { tensors: 'a' rate_factor: 0.25 }";
  const std::string muon = " muon { rate: 0.5 weight_decay: 0.25 steps: 1 }";
  // [0, 3) of the group, a matrix at [4, 8), a statistic at [8, 9), another matrix at the end.
  TensorRanges tensors{
      .statistics = {{8, 9}}, .groups = {{{0, 3}}}, .matrices = {{"v", 4, 2, 2}, {"w", 10, 1, 2}}};
  const auto kernel = Of(kind + muon, tensors, 12);
  EXPECT_EQ(kernel->state_slots(), 2);
  EXPECT_FALSE(kernel->StepAt(0).has_value());
  TensorRanges without = tensors;
  without.matrices.clear();
  const auto plain = Of(kind, without, 12);
  const std::vector<float> g = {5, 5, -5, 5, 0, 3, 4, 0, 7, 1, 30, 40};
  std::vector<float> w(12, 8.0f), state(24, 0.0f), moved(12, 9.0f);
  std::vector<float> other = w, other_state = state;
  for (uint64_t k = 0; k < 2; ++k) {
    kernel->ApplyAndTell(k, w, state, g, moved, k == 0);
    plain->Apply(k, other, other_state, g);
  }
  const auto is_matrix = [](size_t i) { return (i >= 4 && i < 8) || i >= 10; };
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(moved[i], w[i] - 8.0f, 1e-5) << i;
    if (!is_matrix(i)) {
      EXPECT_EQ(w[i], other[i]) << i;
      EXPECT_EQ(state[i], other_state[i]) << i;
    }
    // The second slot is the kind's alone.
    EXPECT_EQ(state[12 + i], is_matrix(i) ? 0.0f : other_state[12 + i]) << i;
  }
  // m = g + 0.95 g after two pushes, not clipped.
  EXPECT_NEAR(state[6], 1.95 * 4, 1e-5);
  // A quarter of the rate, then half of it.
  double expected = 8;
  for (const double rate : {0.125, 0.25}) {
    expected -= rate * (0.25 * expected + kOf06);
  }
  EXPECT_NEAR(w[5], expected, 1e-5);
}

TEST(MuonTest, HasTheSameBitsAtEachSimdLevelAndInEachThread) {
  constexpr size_t kRows = 30, kColumns = 50, kFloats = kRows * kColumns + 4;
  const auto kernel =
      Of("sgd { rate: 0.1 } muon { rate: 0.1 }", Matrix(2, kRows, kColumns), kFloats);
  const PhiloxStream stream(5, StreamKind::kTest);
  const auto train = [&] {
    std::vector<float> w(kFloats, 0.5f), m(kFloats, 0.0f), g(kFloats);
    for (uint64_t k = 0; k < 4; ++k) {
      for (size_t i = 0; i < kFloats; ++i) {
        g[i] = stream.Normal(k * kFloats + i);
      }
      kernel->Apply(k, w, m, g);
    }
    return w;
  };
  const std::vector<float> expected = train();
  for (const SimdLevel level : SupportedSimdLevels()) {
    const ScopedSimdLevel scoped(level);
    EXPECT_EQ(train(), expected) << SimdLevelName(level);
  }
  std::vector<float> made[2];
  {
    std::jthread other([&] { made[0] = train(); });
    made[1] = train();
  }
  EXPECT_EQ(made[0], expected);
  EXPECT_EQ(made[1], expected);
}

TEST(MuonTest, WhatCannotBeIsNamed) {
  const auto refused = [](const std::string& text, const TensorRanges& tensors) {
    return CreateRangeKernel(Parse(text), tensors, {0, 4}).status();
  };
  const auto invalid = [](const char* what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  const TensorRanges one = Matrix(0, 2, 2);
  EXPECT_THAT(refused("sgd { rate: 1 } muon { }", one), invalid("muon.rate: 0 is not positive"));
  EXPECT_THAT(refused("sgd { rate: 1 } muon { rate: 1 momentum: 1 }", one),
              invalid("muon.momentum"));
  EXPECT_THAT(refused("sgd { rate: 1 } muon { rate: 1 steps: 21 }", one), invalid("muon.steps"));
  EXPECT_THAT(refused("sgd { rate: 1 } muon { rate: 1 weight_decay: -1 }", one),
              invalid("muon.weight_decay"));
  EXPECT_THAT(refused("muon { rate: 1 }", one), invalid("no kind"));
  EXPECT_THAT(refused("adagrad { rate: 1 initial_accumulator: 0.1 } muon { rate: 1 }", one),
              invalid("optimizer.muon with adagrad.initial_accumulator"));
  EXPECT_THAT(refused("sgd { rate: 1 } muon { rate: 1 }", {}), invalid("no matrix"));
  // Shards.
  EXPECT_THAT(OptimizerKernel::Create(Parse("sgd { rate: 1 } muon { rate: 1 }")).status(),
              invalid("optimizer.muon"));
}

TEST(MuonTest, IsToldInSentencesAndCounted) {
  EXPECT_EQ(OptimizerName(Parse("adam_w { } muon { }")), "adam_w with muon");
  EXPECT_EQ(OptimizerStateSlots(Parse("sgd { } muon { }")), 1);
  EXPECT_EQ(OptimizerStateSlots(Parse("lion { } muon { }")), 1);
  EXPECT_EQ(OptimizerStateSlots(Parse("adam_w { } muon { }")), 2);
}

}  // namespace
}  // namespace monsoon
