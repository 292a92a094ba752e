#include "common/optimizer/range_kernel.h"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/optimizer/optimizer_kinds.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer));
  return optimizer;
}

// A range of 12 floats from global index 100 on; biases at [102, 105) and at its
// end.
constexpr Slice kRange{100, 112};
const std::vector<Slice> kBiases = {{102, 105}, {110, 112}};

bool IsBias(size_t i) { return (i >= 2 && i < 5) || i >= 10; }

TEST(RangeKernelTest, BiasesAreUpdatedAsWithoutDecay) {
  for (const std::string kind : {"sgd { rate: 0.5 }", "momentum { rate: 0.5 momentum: 0.9 }",
                                 "adagrad { rate: 0.5 initial_accumulator: 0.1 }",
                                 "adam { rate: 0.5 }", "rms_prop { rate: 0.5 momentum: 0.9 }"}) {
    const std::string decay = " weight_decay: 0.25 clip_value: 2";
    ASSERT_OK_AND_ASSIGN(const auto kernel,
                         CreateRangeKernel(Parse(kind + decay + " weight_decay_weights_only: true"),
                                           {.biases = kBiases}, kRange));
    ASSERT_OK_AND_ASSIGN(const auto with, OptimizerKernel::Create(Parse(kind + decay)));
    ASSERT_OK_AND_ASSIGN(const auto without,
                         OptimizerKernel::Create(Parse(kind + " clip_value: 2")));
    const auto slots = static_cast<size_t>(kernel->state_slots());
    EXPECT_EQ(slots, static_cast<size_t>(with->state_slots()));
    EXPECT_EQ(kernel->initial_state(), with->initial_state());
    std::vector<float> w(12), g(12);
    for (size_t i = 0; i < 12; ++i) {
      w[i] = 1.0f + static_cast<float>(i);
      g[i] = 0.5f * static_cast<float>(i) - 3.0f;
    }
    std::vector<float> state(12 * slots, kernel->initial_state());
    std::vector<float> decayed = w, decayed_state = state, bare = w, bare_state = state;
    std::vector<float> told = w, told_state = state, moved(12);
    for (uint64_t k = 0; k < 3; ++k) {
      kernel->Apply(k, w, state, g);
      kernel->ApplyAndTell(k, told, told_state, g, moved, k == 0);
      with->Apply(k, decayed, decayed_state, g);
      without->Apply(k, bare, bare_state, g);
    }
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(w[i], IsBias(i) ? bare[i] : decayed[i]) << kind << ", float " << i;
      EXPECT_NE(bare[i], decayed[i]);
      EXPECT_EQ(told[i], w[i]);
      EXPECT_NEAR(moved[i], w[i] - (1.0f + static_cast<float>(i)), 1e-5);
    }
  }
}

TEST(RangeKernelTest, AdamWSparesBiasesToo) {
  ASSERT_OK_AND_ASSIGN(
      const auto kernel,
      CreateRangeKernel(Parse("adam_w { rate: 0.5 weight_decay: 0.5 } weight_decay_weights_only: "
                              "true"),
                        {.biases = kBiases}, kRange));
  std::vector<float> w(12, 4.0f), state(24, 0.0f);
  kernel->Apply(0, w, state, std::vector<float>(12, 0.0f));
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(w[i], IsBias(i) ? 4.0f : 3.0f) << i;
  }
}

TEST(RangeKernelTest, WithoutTheSettingBiasesDecayToo) {
  const Optimizer optimizer = Parse("sgd { rate: 1 } weight_decay: 0.5");
  ASSERT_OK_AND_ASSIGN(const auto kernel,
                       CreateRangeKernel(optimizer, {.biases = kBiases}, kRange));
  std::vector<float> w(12, 2.0f);
  const std::vector<float> g(12, 0.0f);
  kernel->Apply(0, w, {}, g);
  EXPECT_EQ(w, std::vector<float>(12, 1.0f));
}

// Also where biases and statistics lie side by side, and where a range begins or ends
// with one.
TEST(RangeKernelTest, StatisticsAreSubtractedAsTheyAreAndTheirStateStays) {
  const std::vector<Slice> statistics = {{100, 102}, {105, 107}};
  const auto is_statistic = [](size_t i) { return i < 2 || (i >= 5 && i < 7); };
  for (const std::string kind : {"sgd { rate: 0.5 }", "momentum { rate: 0.5 momentum: 0.9 }",
                                 "adagrad { rate: 0.5 initial_accumulator: 0.1 }",
                                 "adam { rate: 0.5 }", "rms_prop { rate: 0.5 momentum: 0.9 }"}) {
    const std::string text = kind +
                             " weight_decay: 0.25 clip_value: 0.5 weight_decay_weights_only: true "
                             "schedule { warm_up_pushes: 10 }";
    ASSERT_OK_AND_ASSIGN(const auto kernel,
                         CreateRangeKernel(Parse(text), {kBiases, statistics, {}, {}}, kRange));
    ASSERT_OK_AND_ASSIGN(const auto plain,
                         CreateRangeKernel(Parse(text), {.biases = kBiases}, kRange));
    const auto slots = static_cast<size_t>(kernel->state_slots());
    EXPECT_EQ(slots, static_cast<size_t>(plain->state_slots()));
    std::vector<float> w(12), g(12);
    for (size_t i = 0; i < 12; ++i) {
      w[i] = 16.0f + static_cast<float>(i);
      g[i] = 0.25f * static_cast<float>(i) - 2.0f;
    }
    const std::vector<float> before = w;
    std::vector<float> state(12 * slots, kernel->initial_state());
    std::vector<float> other = w, other_state = state, told = w, told_state = state, moved(12);
    for (uint64_t k = 0; k < 3; ++k) {
      kernel->Apply(k, w, state, g);
      kernel->ApplyAndTell(k, told, told_state, g, moved, k == 0);
      plain->Apply(k, other, other_state, g);
    }
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(w[i], is_statistic(i) ? before[i] - 3 * g[i] : other[i]) << kind << ", " << i;
      EXPECT_EQ(told[i], w[i]);
      if (is_statistic(i)) {
        EXPECT_EQ(moved[i], -3 * g[i]);
      }
      for (size_t slot = 0; slot < slots; ++slot) {
        const size_t at = slot * 12 + i;
        EXPECT_EQ(state[at], is_statistic(i) ? kernel->initial_state() : other_state[at]) << kind;
      }
    }
  }
}

TEST(RangeKernelTest, ARangeMayBeOfStatisticsAlone) {
  ASSERT_OK_AND_ASSIGN(const auto kernel, CreateRangeKernel(Parse("adagrad { rate: 0.5 }"),
                                                            {.statistics = {{100, 112}}}, kRange));
  EXPECT_FALSE(kernel->StepAt(0).has_value());
  std::vector<float> w(12, 2.0f), state(12, 0.0f);
  kernel->Apply(0, w, state, std::vector<float>(12, 1.5f));
  EXPECT_EQ(w, std::vector<float>(12, 0.5f));
  EXPECT_EQ(state, std::vector<float>(12, 0.0f));
}

TEST(RangeKernelTest, StatisticsAreNotScaled) {
  ASSERT_OK_AND_ASSIGN(const auto kernel, CreateRangeKernel(Parse("sgd { rate: 0.5 }"),
                                                            {.statistics = {{102, 105}}}, kRange));
  std::vector<float> w(12, 0.0f);
  kernel->ApplyScaled(0, w, {}, std::vector<float>(12, 4.0f), 0.25f);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(w[i], i >= 2 && i < 5 ? -4.0f : -0.5f) << i;
  }
}

TEST(RangeKernelTest, APushTakesStatisticsTowardsItsValues) {
  ASSERT_OK_AND_ASSIGN(const auto kernel,
                       CreateRangeKernel(Parse("sgd { rate: 0.5 } weight_decay: 1"),
                                         {.biases = kBiases, .statistics = {{102, 105}}}, kRange));
  std::vector<float> w(12, 2.0f);
  kernel->ApplyPush(0, w, {}, std::vector<float>(12, 4.0f), {.scale = 0.25f, .share = 0.75f});
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(w[i], i >= 2 && i < 5 ? 3.5f : 2.0f - 0.5f * (1.0f + 2.0f)) << i;
  }
  // All of it is that value, to the bit.
  kernel->ApplyPush(1, w, {}, std::vector<float>(12, 0.1f), {});
  EXPECT_EQ(w[2], 0.1f);
  kernel->ApplyPush(2, w, {}, std::vector<float>(12, 8.0f),
                    {.scale = 0.25f, .share = 0.5f, .values = false});
  EXPECT_EQ(w[2], 0.1f - 4.0f);
}

TEST(RangeKernelTest, AnEarlyEndIsOfGradientsAlone) {
  ASSERT_OK_AND_ASSIGN(const auto kernel,
                       CreateRangeKernel(Parse("momentum { rate: 1 momentum: 0.5 }"),
                                         {.statistics = {{102, 105}}}, kRange));
  std::vector<float> w(12, 0.0f), v(12, 4.0f);
  kernel->ApplyPush(0, w, v, std::vector<float>(12, 1.0f), {.part = 0.25f, .values = false});
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(w[i], i >= 2 && i < 5 ? -1.0f : -0.25f * (0.5f * 4.0f + 4.0f)) << i;
  }
}

constexpr uint64_t kPushes = 6;

// What an optimizer makes of one float, and of its state behind it, in kPushes alike.
std::vector<float> Alone(const Optimizer& optimizer, float w, float g) {
  const std::unique_ptr<OptimizerKernel> kernel = *OptimizerKernel::Create(optimizer);
  std::vector<float> alone(1 + static_cast<size_t>(kernel->state_slots()), kernel->initial_state());
  alone[0] = w;
  for (uint64_t k = 0; k < kPushes; ++k) {
    kernel->Apply(k, std::span(alone).first(1), std::span(alone).subspan(1),
                  std::span<const float>(&g, 1));
  }
  return alone;
}

// Group 0 has [100, 103), of which [102, 103) is a bias; group 1, frozen, [106, 108).
TEST(RangeKernelTest, TensorsOfAGroupAreUpdatedAsItSays) {
  const TensorRanges tensors{
      .biases = kBiases, .statistics = {{108, 109}}, .groups = {{{100, 103}}, {{106, 108}}}};
  for (const auto& [kind, group] :
       {std::pair<std::string, std::string>{"sgd { rate: 0.5 } weight_decay: 0.25",
                                            "sgd { rate: 0.125 } weight_decay: 0.5"},
        {"adam_w { rate: 0.5 weight_decay: 0.25 }", "adam_w { rate: 0.125 weight_decay: 0.5 }"},
        {"momentum { rate: 0.5 momentum: 0.9 } weight_decay: 0.25 average { }",
         "momentum { rate: 0.125 momentum: 0.9 } weight_decay: 0.5 average { }"},
        {"adagrad { rate: 0.5 initial_accumulator: 0.1 } weight_decay: 0.25",
         "adagrad { rate: 0.125 initial_accumulator: 0.1 } weight_decay: 0.5"}}) {
    const std::string schedule = " schedule { warm_up_pushes: 4 }";
    const std::string groups =
        " weight_decay_weights_only: true group { tensors: 'a' rate_factor: 0.25 weight_decay: 0.5 "
        "} group { tensors: 'b' frozen: true }";
    ASSERT_OK_AND_ASSIGN(const auto kernel,
                         CreateRangeKernel(Parse(kind + schedule + groups), tensors, kRange));
    const auto slots = static_cast<size_t>(kernel->state_slots());
    std::vector<float> w(12), g(12);
    std::vector<std::vector<float>> alone(12);
    for (size_t i = 0; i < 12; ++i) {
      w[i] = 1.0f + static_cast<float>(i);
      g[i] = 0.5f * static_cast<float>(i) - 3.25f;
      const Optimizer rule = Parse((i < 3 ? group : kind) + schedule);
      alone[i] = Alone(IsBias(i) ? WithoutDecay(rule) : rule, w[i], g[i]);
      if (i >= 6 && i < 9) {
        alone[i].assign(1 + slots, kernel->initial_state());
        alone[i][0] = i == 8 ? w[i] - static_cast<float>(kPushes) * g[i] : w[i];
      }
    }
    const std::vector<float> begun = w;
    std::vector<float> state(12 * slots, kernel->initial_state());
    std::vector<float> told = w, told_state = state, moved(12, 7.0f);
    std::vector<float> pushed = w, pushed_state = state;
    for (uint64_t k = 0; k < kPushes; ++k) {
      kernel->Apply(k, w, state, g);
      kernel->ApplyAndTell(k, told, told_state, g, moved, k == 0);
      kernel->ApplyPush(k, pushed, pushed_state, g, {.values = false});
    }
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(w[i], alone[i][0]) << kind << ", float " << i;
      EXPECT_EQ(told[i], w[i]) << i;
      EXPECT_EQ(pushed[i], w[i]) << i;
      EXPECT_NEAR(moved[i], w[i] - begun[i], 1e-4) << i;
      for (size_t slot = 0; slot < slots; ++slot) {
        EXPECT_EQ(state[slot * 12 + i], alone[i][1 + slot]) << kind << ", " << i;
      }
    }
  }
}

TEST(RangeKernelTest, ARangeOfOneGroupHasItsKernelToTheEnd) {
  const Optimizer optimizer = Parse("sgd { rate: 1 } group { tensors: 'a' rate: 0.5 }");
  ASSERT_OK_AND_ASSIGN(const auto kernel,
                       CreateRangeKernel(optimizer, {.groups = {{{100, 112}}}}, kRange));
  std::vector<float> w(12, 0.0f);
  kernel->Apply(0, w, {}, std::vector<float>(12, 2.0f));
  EXPECT_EQ(w, std::vector<float>(12, -1.0f));
  // No group has anything here: the optimizer's own, which a device can apply.
  ASSERT_OK_AND_ASSIGN(const auto plain, CreateRangeKernel(optimizer, {}, kRange));
  EXPECT_TRUE(plain->StepAt(0).has_value());
}

TEST(RangeKernelTest, AGroupThatCannotBeIsNamed) {
  EXPECT_FALSE(CreateRangeKernel(Parse("sgd { rate: 1 } group { tensors: 'a' rate: -1 }"),
                                 {.groups = {{{100, 101}}}}, kRange)
                   .ok());
}

}  // namespace
}  // namespace monsoon
