#include "common/optimizer/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/optimizer/example_optimizers.h"
#include "common/optimizer/make_kernel.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::ExampleOptimizers;
using ::monsoon::testing::Make;
using ::monsoon::testing::Parse;
using ::monsoon::testing::StatusIs;
using ::testing::Each;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using Vector = std::vector<float>;

// Literal values, worked out by hand; all are exact in float32.

TEST(SgdTest, HandComputed) {
  auto kernel = Make("sgd { rate: 0.5 }");
  EXPECT_EQ(kernel->state_slots(), 0);
  Vector w = {1.0f, -2.0f, 0.0f};
  kernel->Apply(0, w, {}, Vector{2.0f, -4.0f, 0.5f});
  EXPECT_EQ(w, (Vector{0.0f, 0.0f, -0.25f}));
  kernel->Apply(1, w, {}, Vector{2.0f, -4.0f, 0.5f});
  EXPECT_EQ(w, (Vector{-1.0f, 2.0f, -0.5f}));
}

TEST(MomentumTest, HandComputed) {
  auto kernel = Make("momentum { rate: 0.25 momentum: 0.5 }");
  EXPECT_EQ(kernel->state_slots(), 1);
  EXPECT_EQ(kernel->initial_state(), 0.0f);
  Vector w = {1.0f, 0.0f}, v = {0.0f, 0.0f};
  kernel->Apply(0, w, v, Vector{4.0f, -8.0f});
  EXPECT_EQ(v, (Vector{4.0f, -8.0f}));
  EXPECT_EQ(w, (Vector{0.0f, 2.0f}));
  kernel->Apply(1, w, v, Vector{2.0f, 4.0f});  // v = 0.5 v + g
  EXPECT_EQ(v, (Vector{4.0f, 0.0f}));
  EXPECT_EQ(w, (Vector{-1.0f, 2.0f}));
  kernel->Apply(2, w, v, Vector{0.0f, 0.0f});
  EXPECT_EQ(v, (Vector{2.0f, 0.0f}));
  EXPECT_EQ(w, (Vector{-1.5f, 2.0f}));
}

TEST(AdagradTest, HandComputed) {
  auto kernel = Make("adagrad { rate: 0.5 epsilon: 1.0 }");
  EXPECT_EQ(kernel->state_slots(), 1);
  EXPECT_EQ(kernel->initial_state(), 0.0f);
  Vector w = {1.0f, -1.0f}, h = {0.0f, 0.0f};
  // h = 9; w -= 0.5 * 3 / (3 + 1) = 0.375.
  kernel->Apply(0, w, h, Vector{3.0f, -3.0f});
  EXPECT_EQ(h, (Vector{9.0f, 9.0f}));
  EXPECT_EQ(w, (Vector{0.625f, -0.625f}));
  // h = 9 + 16 = 25; 0.5 * 4 / 6 = 1/3.
  kernel->Apply(1, w, h, Vector{4.0f, -4.0f});
  EXPECT_EQ(h, (Vector{25.0f, 25.0f}));
  EXPECT_FLOAT_EQ(w[0], 0.2916667f);
  EXPECT_FLOAT_EQ(w[1], -0.2916667f);
}

TEST(AdagradTest, TheFirstStepIsDefined) {
  auto kernel = Make("adagrad { rate: 0.5 }");  // epsilon 1e-8
  Vector w = {0.0f, 0.0f, 0.0f}, h = {0.0f, 0.0f, 0.0f};
  kernel->Apply(0, w, h, Vector{2.0f, 0.0f, -0.0f});
  EXPECT_FLOAT_EQ(w[0], -0.5f);  // rate * g / |g|
  EXPECT_EQ(w[1], 0.0f);         // and padding stays
  EXPECT_EQ(w[2], 0.0f);
  EXPECT_EQ(h, (Vector{4.0f, 0.0f, 0.0f}));
}

TEST(AdagradTest, StartsAtTheInitialAccumulator) {
  auto kernel = Make("adagrad { rate: 1.0 epsilon: 1.0 initial_accumulator: 7.0 }");
  EXPECT_EQ(kernel->initial_state(), 7.0f);
  Vector w = {0.0f}, h = {7.0f};
  kernel->Apply(0, w, h, Vector{3.0f});  // h = 16, 3 / (4 + 1)
  EXPECT_EQ(h[0], 16.0f);
  EXPECT_FLOAT_EQ(w[0], -0.6f);
}

TEST(AdamTest, HandComputed) {
  // Betas of 1/2: 1 - beta^t is 1/2, then 3/4.
  auto kernel = Make("adam { rate: 0.5 beta1: 0.5 beta2: 0.5 epsilon: 1 }");
  EXPECT_EQ(kernel->state_slots(), 2);
  EXPECT_EQ(kernel->initial_state(), 0.0f);
  Vector w = {1.0f, -1.0f}, state(4);
  // m = 1.5, v = 4.5; corrected 3 and 9: 0.5 * 3 / (3 + 1) = 0.375.
  kernel->Apply(0, w, state, Vector{3.0f, -3.0f});
  EXPECT_EQ(state, (Vector{1.5f, -1.5f, 4.5f, 4.5f}));
  EXPECT_FLOAT_EQ(w[0], 0.625f);
  EXPECT_FLOAT_EQ(w[1], -0.625f);
  // m = 0.75, v = 2.25; corrected 1 and 3: 0.5 / (sqrt(3) + 1).
  kernel->Apply(1, w, state, Vector{0.0f, 0.0f});
  EXPECT_EQ(state, (Vector{0.75f, -0.75f, 2.25f, 2.25f}));
  EXPECT_FLOAT_EQ(w[0], 0.625f - 0.18301270f);
}

TEST(AdamTest, TheFirstStepIsTheRateAndPaddingStays) {
  auto kernel = Make("adam { rate: 0.25 }");
  Vector w = {0.0f, 0.0f, 0.0f}, state(6);
  kernel->Apply(0, w, state, Vector{2.0f, 0.0f, -1e-3f});
  EXPECT_FLOAT_EQ(w[0], -0.25f);
  EXPECT_EQ(w[1], 0.0f);
  EXPECT_NEAR(w[2], 0.25f, 1e-5);
}

TEST(AdamWTest, TheDecayDoesNotPassThroughTheMoments) {
  auto kernel = Make("adam_w { rate: 0.5 beta1: 0.5 beta2: 0.5 epsilon: 1 weight_decay: 0.25 }");
  Vector w = {2.0f}, state(2);
  kernel->Apply(0, w, state, Vector{3.0f});  // as Adam's 0.375, and 0.5 * 0.25 * 2
  EXPECT_EQ(state, (Vector{1.5f, 4.5f}));
  EXPECT_FLOAT_EQ(w[0], 2.0f - 0.375f - 0.25f);
  // Unset: 0.01. Set to 0: none.
  auto plain = Make("adam_w { rate: 0.5 }"), none = Make("adam_w { rate: 0.5 weight_decay: 0 }");
  Vector u = {2.0f}, n = {2.0f}, u_state(2), n_state(2);
  plain->Apply(0, u, u_state, Vector{0.0f});
  none->Apply(0, n, n_state, Vector{0.0f});
  EXPECT_FLOAT_EQ(u[0], 1.99f);
  EXPECT_EQ(n[0], 2.0f);
}

TEST(AverageTest, HandComputed) {
  // c(k) = 1 / (k + 1); z, x and w beside the state d = z - w.
  auto kernel = Make("sgd { rate: 0.5 } average { share: 0.5 power: 0 }");
  EXPECT_EQ(kernel->state_slots(), 1);
  EXPECT_FALSE(kernel->StepAt(0).has_value());
  EXPECT_EQ(kernel->initial_state(), 0.0f);
  Vector w = {1.0f, 0.0f}, d = {0.0f, 0.0f};
  kernel->Apply(0, w, d, Vector{2.0f, 0.0f});  // z = x = 0
  EXPECT_EQ(w, (Vector{0.0f, 0.0f}));
  EXPECT_EQ(d, (Vector{0.0f, 0.0f}));
  kernel->Apply(1, w, d, Vector{4.0f, 0.0f});  // z = -2, x = -1
  EXPECT_EQ(w, (Vector{-1.5f, 0.0f}));
  EXPECT_EQ(d, (Vector{-0.5f, 0.0f}));
  Vector moved = {100.0f, 7.0f};
  kernel->ApplyAndTell(3, w, d, Vector{-4.0f, 0.0f}, moved, /*fresh=*/false);
  EXPECT_EQ(w, (Vector{-0.375f, 0.0f}));  // z = 0, x = -1 + (0 + 1) / 4
  EXPECT_EQ(d, (Vector{0.375f, 0.0f}));
  EXPECT_EQ(moved, (Vector{101.125f, 7.0f}));
}

TEST(AverageTest, TheStateOfTheOptimizerInsideComesFirst) {
  auto kernel = Make("adam { rate: 0.5 beta1: 0.5 beta2: 0.5 epsilon: 1 } average { }");
  EXPECT_EQ(kernel->state_slots(), 3);
  Vector w = {1.0f}, state(3);
  kernel->Apply(0, w, state, Vector{3.0f});  // as Adam's: the first point is the average
  EXPECT_EQ(state, (Vector{1.5f, 4.5f, 0.0f}));
  EXPECT_FLOAT_EQ(w[0], 0.625f);
}

TEST(AverageTest, FollowsItsDefinition) {
  // 0.9 and 2 are the defaults. Longer than the piece that stays in the cache.
  constexpr size_t kFloats = 2500;
  auto kernel = Make("adagrad { rate: 0.1 } average { }");
  const PhiloxStream random(23, StreamKind::kTest);
  Vector w(kFloats), state(2 * kFloats), g(kFloats);
  std::vector<double> z(kFloats), x(kFloats), h(kFloats);
  for (size_t i = 0; i < kFloats; ++i) {
    w[i] = random.Normal(i);
    z[i] = x[i] = static_cast<double>(w[i]);
  }
  for (uint64_t k = 0; k < 200; ++k) {
    for (size_t i = 0; i < kFloats; ++i) {
      g[i] = random.Normal((k + 1) * kFloats + i);
    }
    const Vector before = w;
    Vector moved(kFloats);
    kernel->ApplyAndTell(k, w, state, g, moved, /*fresh=*/true);
    const double c = 3.0 / (static_cast<double>(k) + 3.0);
    for (size_t i = 0; i < kFloats; ++i) {
      h[i] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
      z[i] -= 0.1 * static_cast<double>(g[i]) / (std::sqrt(h[i]) + 1e-8);
      x[i] += c * (z[i] - x[i]);
      ASSERT_NEAR(w[i], 0.1 * z[i] + 0.9 * x[i], 1e-4) << k << " " << i;
      ASSERT_NEAR(before[i] + moved[i], w[i], 1e-5) << k << " " << i;
    }
  }
}

TEST(RmsPropTest, HandComputed) {
  auto kernel = Make("rms_prop { rate: 0.5 alpha: 0.75 epsilon: 1 }");
  EXPECT_EQ(kernel->state_slots(), 1);
  Vector w = {1.0f}, v = {0.0f};
  kernel->Apply(0, w, v, Vector{4.0f});  // v = 4: 0.5 * 4 / 3
  EXPECT_EQ(v[0], 4.0f);
  EXPECT_FLOAT_EQ(w[0], 1.0f - 2.0f / 3);
  auto momentum = Make("rms_prop { rate: 0.5 alpha: 0.75 epsilon: 1 momentum: 0.5 }");
  EXPECT_EQ(momentum->state_slots(), 2);
  Vector u = {1.0f, 0.0f}, state(4);
  momentum->Apply(0, u, state, Vector{4.0f, 0.0f});  // b = 4 / 3
  EXPECT_FLOAT_EQ(state[2], 4.0f / 3);
  momentum->Apply(1, u, state, Vector{0.0f, 0.0f});  // b = 2 / 3
  EXPECT_EQ(state[0], 3.0f);
  EXPECT_FLOAT_EQ(state[2], 2.0f / 3);
  EXPECT_NEAR(u[0], 0.0f, 1e-6);
  EXPECT_EQ(u[1], 0.0f);
}

TEST(LionTest, HandComputed) {
  auto kernel = Make("lion { rate: 0.5 beta1: 0.5 beta2: 0.75 weight_decay: 0.5 }");
  EXPECT_EQ(kernel->state_slots(), 1);
  Vector w = {4.0f, 1.0f, 0.0f, 0.0f}, m(4);
  kernel->Apply(0, w, m, Vector{8.0f, -4.0f, 0.0f, 1e-30f});  // w -= 0.25 w + 0.5 sign(g / 2)
  EXPECT_EQ(w, (Vector{2.5f, 1.25f, 0.0f, -0.5f}));
  EXPECT_EQ(m[0], 2.0f);
  EXPECT_EQ(m[1], -1.0f);
  kernel->Apply(1, w, m, Vector{-1.0f, 3.0f, 0.0f, 0.0f});  // c = 0.5, 1
  EXPECT_EQ(w[0], 2.5f - 0.625f - 0.5f);
  EXPECT_EQ(w[1], 1.25f - 0.3125f - 0.5f);
  EXPECT_EQ(m[0], 1.25f);
  EXPECT_EQ(m[1], 0.0f);
}

TEST(LionTest, WhatIsNotFiniteIsSeen) {
  auto kernel = Make("lion { rate: 0.5 }");
  Vector w = {1.0f}, m(1);
  kernel->Apply(0, w, m, Vector{std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(std::isnan(w[0]));
}

TEST(NesterovTest, HandComputed) {
  auto kernel = Make("nesterov { rate: 0.5 momentum: 0.5 }");
  EXPECT_EQ(kernel->state_slots(), 1);
  EXPECT_EQ(kernel->initial_state(), 0.0f);
  Vector w = {1.0f, 0.0f}, b(2);
  kernel->Apply(0, w, b, Vector{4.0f, -8.0f});  // b = g; w -= 0.5 * (g + 0.5 b)
  EXPECT_EQ(b, (Vector{4.0f, -8.0f}));
  EXPECT_EQ(w, (Vector{-2.0f, 6.0f}));
  kernel->Apply(1, w, b, Vector{2.0f, 0.0f});  // b = 4, -4; 0.5 * (2 + 2), 0.5 * (0 - 2)
  EXPECT_EQ(b, (Vector{4.0f, -4.0f}));
  EXPECT_EQ(w, (Vector{-4.0f, 7.0f}));
}

TEST(NesterovTest, DelayedItMovesTheMomentumOnceInAPeriod) {
  auto kernel = Make("nesterov { rate: 1 momentum: 0.5 period: 2 share: 0.25 }");
  EXPECT_EQ(kernel->state_slots(), 2);
  Vector w = {0.0f}, state(2);
  kernel->Apply(0, w, state, Vector{4.0f});  // B = 4; w -= 4 / 2 + 0.25 * 0.5 * 0
  EXPECT_EQ(state, (Vector{0.0f, 4.0f}));
  EXPECT_EQ(w[0], -2.0f);
  // b = 0 + (4 + 8) / 2; w -= 8 / 2 + (1 - 0.5 + 0.25) * 0.5 * 6.
  kernel->Apply(1, w, state, Vector{8.0f});
  EXPECT_EQ(state, (Vector{6.0f, 0.0f}));
  EXPECT_EQ(w[0], -8.25f);
  kernel->Apply(2, w, state, Vector{2.0f});  // 2 / 2 + 0.25 * 0.5 * 6
  EXPECT_EQ(state, (Vector{6.0f, 2.0f}));
  EXPECT_EQ(w[0], -10.0f);
}

TEST(NesterovTest, APeriodOfOneIsNesterov) {
  auto plain = Make("nesterov { rate: 0.7 momentum: 0.9 }");
  auto delayed = Make("nesterov { rate: 0.7 momentum: 0.9 period: 1 share: 0.5 }");
  Vector w = {1.0f, -3.0f}, u = w, b(2), c(2);
  for (uint64_t k = 0; k < 10; ++k) {
    const Vector g = {0.1f * static_cast<float>(k) - 0.3f, 1.0f};
    plain->Apply(k, w, b, g);
    delayed->Apply(k, u, c, g);
  }
  EXPECT_EQ(w, u);
  EXPECT_EQ(b, c);
}

TEST(TransformTest, ClipsThenDecays) {
  auto kernel = Make("sgd { rate: 1.0 } clip_value: 2.0 weight_decay: 0.5");
  Vector w = {4.0f, -4.0f, 4.0f, 0.0f};
  kernel->Apply(0, w, {}, Vector{8.0f, -8.0f, 1.0f, 0.0f});
  // g = 2 + 2, -2 - 2, 1 + 2, 0.
  EXPECT_EQ(w, (Vector{0.0f, 0.0f, 1.0f, 0.0f}));
}

TEST(TransformTest, ReachesTheStateOfMomentumAndAdagrad) {
  auto momentum = Make("momentum { rate: 1 momentum: 0 } clip_value: 2 weight_decay: 0.5");
  auto adagrad = Make("adagrad { rate: 1 epsilon: 1 } clip_value: 2 weight_decay: 0.5");
  Vector w = {2.0f}, v = {0.0f}, u = {2.0f}, h = {0.0f};
  momentum->Apply(0, w, v, Vector{8.0f});
  EXPECT_EQ(v[0], 3.0f);
  EXPECT_EQ(w[0], -1.0f);
  adagrad->Apply(0, u, h, Vector{8.0f});
  EXPECT_EQ(h[0], 9.0f);
  EXPECT_EQ(u[0], 1.25f);
}

TEST(OptimizerTest, TheScheduleScalesTheRate) {
  auto kernel = Make("sgd { rate: 1.0 } schedule { step { every_pushes: 2 factor: 0.5 } }");
  Vector w = {0.0f};
  const Vector expected = {-1.0f, -2.0f, -2.5f, -3.0f, -3.25f};
  for (uint64_t k = 0; k < expected.size(); ++k) {
    kernel->Apply(k, w, {}, Vector{1.0f});
    EXPECT_EQ(w[0], expected[k]) << k;
  }
}

// A shard cuts the vector anywhere and a frame lies anywhere.
TEST(BitsTest, DoNotDependOnSplitOrAlignment) {
  constexpr size_t kFloats = 1003;
  const PhiloxStream random(5, StreamKind::kTest);
  std::vector<std::string> texts = ExampleOptimizers();
  for (const char* text :
       {"sgd { rate: 0.1 }", "sgd { rate: 0.1 } clip_value: 0.7 weight_decay: 0.01",
        "momentum { rate: 0.1 momentum: 0.9 }",
        "momentum { rate: 0.1 momentum: 0.9 } weight_decay: 0.3", "adagrad { rate: 0.1 }",
        "adagrad { rate: 0.1 } clip_value: 1 weight_decay: 0.1", "adam { rate: 0.1 }",
        "adam_w { rate: 0.1 } clip_value: 1", "rms_prop { rate: 0.1 } weight_decay: 0.1",
        "rms_prop { rate: 0.1 momentum: 0.9 }", "nesterov { rate: 0.1 momentum: 0.9 }",
        "nesterov { rate: 0.1 momentum: 0.9 period: 2 } weight_decay: 0.1",
        "adagrad { rate: 0.1 } weight_decay: 0.1 average { share: 0.8 }"}) {
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    auto kernel = Make(text);
    const size_t slots = kernel->state_slots();
    Vector start(kFloats), g(kFloats);
    for (size_t i = 0; i < kFloats; ++i) {
      start[i] = random.Normal(i);
      g[i] = random.Normal(2000 + i);
    }
    Vector whole = start, whole_state(kFloats * slots, kernel->initial_state());
    kernel->Apply(0, whole, whole_state, g);
    kernel->Apply(1, whole, whole_state, g);
    for (size_t piece : {1u, 2u, 3u, 5u, 16u, 17u, 250u, 1002u}) {
      Vector w = start, state(kFloats * slots, kernel->initial_state());
      for (uint64_t k = 0; k < 2; ++k) {
        for (size_t begin = 0; begin < kFloats; begin += piece) {
          const size_t size = std::min(piece, kFloats - begin);
          kernel->Apply(k, std::span(w).subspan(begin, size),
                        OptimizerState(state).Part(begin, size, kFloats),
                        std::span(g).subspan(begin, size));
        }
      }
      for (size_t i = 0; i < kFloats; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(w[i]), std::bit_cast<uint32_t>(whole[i]))
            << text << " piece " << piece << " at " << i;
      }
      EXPECT_EQ(state, whole_state);
    }
  }
}

TEST(OptimizerTest, RefusesBadSettingsByName) {
  const struct {
    const char* text;
    const char* field;
  } kCases[] = {
      {"", "no kind"},
      {"sgd { }", "sgd.rate"},
      {"sgd { rate: -1 }", "sgd.rate"},
      {"sgd { rate: nan }", "sgd.rate"},
      {"sgd { rate: 1e-50 }", "sgd.rate"},
      {"momentum { rate: inf }", "momentum.rate"},
      {"momentum { rate: 1 momentum: 1 }", "momentum.momentum"},
      {"momentum { rate: 1 momentum: -0.1 }", "momentum.momentum"},
      {"adagrad { rate: 0 }", "adagrad.rate"},
      {"adagrad { rate: 1 epsilon: -1 }", "adagrad.epsilon"},
      {"adagrad { rate: 1 epsilon: 1e-50 }", "adagrad.epsilon"},
      {"adagrad { rate: 1 initial_accumulator: nan }", "initial_accumulator"},
      {"adam { }", "adam.rate"},
      {"adam { rate: 1 beta1: 1 }", "adam.beta1"},
      {"adam { rate: 1 beta2: -0.1 }", "adam.beta2"},
      {"adam { rate: 1 beta2: 0.99999999 }", "adam.beta2"},
      {"adam { rate: 1 epsilon: 1e-50 }", "adam.epsilon"},
      {"adam_w { rate: 1 weight_decay: -1 }", "adam_w.weight_decay"},
      {"adam_w { rate: 1 } weight_decay: 0.1", "set adam_w.weight_decay"},
      {"lion { rate: 0.1 beta2: 1 }", "lion.beta2"},
      {"lion { rate: 0.1 } weight_decay: 0.1", "set lion.weight_decay"},
      {"rms_prop { rate: 0 }", "rms_prop.rate"},
      {"rms_prop { rate: 1 alpha: nan }", "rms_prop.alpha"},
      {"rms_prop { rate: 1 momentum: 1 }", "rms_prop.momentum"},
      {"rms_prop { rate: 1 epsilon: 2 }", "rms_prop.epsilon"},
      {"nesterov { }", "nesterov.rate"},
      {"nesterov { rate: 1 momentum: 1 }", "nesterov.momentum"},
      {"nesterov { rate: 1 period: 4 share: 0.3 }", "nesterov.share"},
      {"nesterov { rate: 1 share: -0.1 }", "nesterov.share"},
      {"sgd { rate: 1 } average { share: 1.5 }", "average.share"},
      {"sgd { rate: 1 } average { share: -0.5 }", "average.share"},
      {"sgd { rate: 1 } average { power: -1 }", "average.power"},
      {"adagrad { rate: 1 initial_accumulator: 1 } average { }", "initial_accumulator"},
      {"sgd { rate: 1 } weight_decay: -1", "weight_decay"},
      {"sgd { rate: 1 } clip_value: nan", "clip_value"},
      {"sgd { rate: 1 } schedule { step { factor: 0.5 } }", "every_pushes"},
      {"sgd { rate: 1 } schedule { step { every_pushes: 1 factor: 0 } }", "step.factor"},
      {"sgd { rate: 1 } schedule { step { every_pushes: 1 factor: 2 } }", "step.factor"},
      {"sgd { rate: 1 } schedule { cosine { } }", "cosine.pushes"},
      {"sgd { rate: 1 } schedule { cosine { pushes: 1 final: 2 } }", "cosine.final"},
  };
  for (const auto& [text, field] : kCases) {
    EXPECT_THAT(OptimizerKernel::Create(Parse(text)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)))
        << text;
  }
}

TEST(OptimizerTest, AScaledPushIsAPushOfTheScaledGradient) {
  constexpr size_t kFloats = 5003;  // more than are scaled at once
  constexpr float kScale = 0.3f;
  std::vector<std::string> kinds = ExampleOptimizers();
  kinds.push_back("sgd { rate: 0.5 } average { }");
  for (const std::string& kind : kinds) {
    const bool decays = FindKind(Parse(kind))->own_decay != nullptr;
    const auto kernel = Make(kind + " clip_value: 0.5" + (decays ? "" : " weight_decay: 0.1"));
    const size_t slots = static_cast<size_t>(kernel->state_slots());
    std::vector<float> w(kFloats), g(kFloats), scaled(kFloats);
    for (size_t i = 0; i < kFloats; ++i) {
      w[i] = static_cast<float>(i % 17) - 8.0f;
      g[i] = static_cast<float>(i % 11) - 5.0f;
      scaled[i] = kScale * g[i];
    }
    std::vector<float> state(kFloats * slots, kernel->initial_state());
    std::vector<float> other = w, other_state = state;
    for (uint64_t k = 0; k < 4; ++k) {
      kernel->ApplyScaled(k, w, state, g, kScale);
      kernel->Apply(k, other, other_state, scaled);
    }
    EXPECT_EQ(w, other) << kind;
    EXPECT_EQ(state, other_state) << kind;
  }
}

// A quarter of a difference: a quarter of the step of a whole one, the momentum included.
TEST(PartTest, HandComputed) {
  auto kernel = Make("momentum { rate: 1 momentum: 0.5 }");
  Vector w = {8.0f, 0.0f}, v = {4.0f, 0.0f};
  kernel->ApplyPush(0, w, v, Vector{1.0f, 2.0f}, {.part = 0.25f});
  EXPECT_EQ(v, (Vector{4.5f, 2.0f}));   // of 0.5 * 4 + 1 / 0.25 = 6, and of 8
  EXPECT_EQ(w, (Vector{6.5f, -2.0f}));  // of 8 - 6, and of -8
  kernel = Make("nesterov { rate: 0.5 momentum: 0.5 }");
  w = {1.0f}, v = {8.0f};
  kernel->ApplyPush(0, w, v, Vector{0.5f}, {.scale = 2.0f, .part = 0.25f});
  EXPECT_EQ(v, (Vector{8.0f}));              // 0.5 * 8 + 4: where it was
  EXPECT_EQ(w, (Vector{1.0f - 0.25f * 4}));  // 0.5 * (4 + 0.5 * 8)
}

TEST(PartTest, NothingLeftToMoveByMovesNothing) {
  for (const std::string& kind : ExampleOptimizers()) {
    const auto kernel = Make(kind);
    Vector w(7, 1.0f), before, state(7 * static_cast<size_t>(kernel->state_slots()), 0.0f);
    kernel->Apply(0, w, state, Vector(7, 1.0f));
    before = w;
    kernel->ApplyPush(1, w, state, Vector(7, 1e-7f), {.part = 1e-6f});
    EXPECT_THAT(w, Each(FloatNear(before[0], 1e-5f))) << kind;
  }
}

TEST(PartTest, OfSgdItIsTheGradientAsItIs) {
  auto kernel = Make("sgd { rate: 0.5 }");
  Vector w(5003), g(5003);  // more than are scaled at once
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>(i % 16);
    g[i] = static_cast<float>(i % 8);
  }
  Vector other = w;
  kernel->ApplyPush(0, w, {}, g, {.scale = 0.5f, .part = 0.125f});
  kernel->ApplyScaled(0, other, {}, g, 0.5f);
  EXPECT_EQ(w, other);
}

TEST(OptimizerTest, DampingFallsWithStaleness) {
  EXPECT_EQ(DampingFactor(1.0, 0), 1.0);
  EXPECT_EQ(DampingFactor(1.0, 3), 0.25);
  EXPECT_EQ(DampingFactor(0.5, 3), 0.5);
  EXPECT_EQ(DampingFactor(2.0, 1), 0.25);
  EXPECT_EQ(DampingFactor(0.0, 1000), 1.0);
  EXPECT_EQ(DampingFactor(1.0, -1), 1.0);  // not known
  for (const std::string wrong : {"damping: -1", "damping: 4.5", "damping: nan"}) {
    EXPECT_THAT(OptimizerKernel::Create(Parse("sgd { rate: 1 } " + wrong)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("damping")))
        << wrong;
  }
}

}  // namespace
}  // namespace monsoon
