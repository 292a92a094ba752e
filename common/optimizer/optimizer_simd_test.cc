// The optimizers at every SIMD level of this machine: against the formulas in
// double, the same bits at all levels, at any length and alignment.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/optimizer/optimizer.h"
#include "common/simd/simd_level.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Vector = std::vector<float>;

constexpr double kRate = 0.1, kMomentum = 0.9, kEpsilon = 1e-8, kClip = 1.5, kDecay = 0.01;
// The third push closes a period of three, and not one of four.
constexpr char kNesterov[] = "nesterov { rate: 0.1 momentum: 0.9 }";
constexpr char kDelayed[] = "nesterov { rate: 0.1 momentum: 0.9 period: 4 share: 0.1 }";
constexpr char kClosing[] = "nesterov { rate: 0.1 momentum: 0.9 period: 3 share: 0.1 }";
constexpr float kPoison = 12345.0f;
constexpr size_t kGuard = 64;  // floats on both sides: more than a register

struct Case {
  Optimizer optimizer;
  bool transform;
};

Case MakeCase(const std::string& kind, bool transform) {
  Case made = {{}, transform};
  const std::string text = kind + (transform ? " clip_value: 1.5 weight_decay: 0.01" : "");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &made.optimizer)) << text;
  return made;
}

// What MakeCase makes it of.
std::string Text(const Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd:
      return "sgd { rate: 0.1 }";
    case Optimizer::kMomentum:
      return "momentum { rate: 0.1 momentum: 0.9 }";
    case Optimizer::kAdam:
      return "adam { rate: 0.1 }";
    case Optimizer::kRmsProp:
      return optimizer.rms_prop().momentum() > 0.0 ? "rms_prop { rate: 0.1 momentum: 0.9 }"
                                                   : "rms_prop { rate: 0.1 }";
    case Optimizer::kNesterov:
      return optimizer.nesterov().period() == 4   ? kDelayed
             : optimizer.nesterov().period() == 3 ? kClosing
                                                  : kNesterov;
    default:
      return "adagrad { rate: 0.1 }";
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* kind : {"sgd { rate: 0.1 }", "momentum { rate: 0.1 momentum: 0.9 }",
                           "adagrad { rate: 0.1 }", "adam { rate: 0.1 }", "rms_prop { rate: 0.1 }",
                           "rms_prop { rate: 0.1 momentum: 0.9 }", kNesterov, kDelayed, kClosing}) {
    cases.push_back(MakeCase(kind, false));
    cases.push_back(MakeCase(kind, true));
  }
  return cases;
}

// An array between poisoned guards that begins `shift` floats behind a line.
class Guarded {
 public:
  Guarded(const Vector& values, size_t shift)
      : size_(values.size()), shift_(shift), floats_(values.size() + shift + 2 * kGuard, kPoison) {
    std::ranges::copy(values, span().begin());
  }
  std::span<float> span() { return std::span(floats_).subspan(kGuard + shift_, size_); }
  bool GuardsAreIntact() const {
    const auto untouched = [](float value) { return value == kPoison; };
    const auto begin = floats_.begin() + static_cast<ptrdiff_t>(kGuard + shift_);
    return std::all_of(floats_.begin(), begin, untouched) &&
           std::all_of(begin + static_cast<ptrdiff_t>(size_), floats_.end(), untouched);
  }

 private:
  const size_t size_;
  const size_t shift_;
  Vector floats_;
};

struct Input {
  Vector w, state, g;
};

// Values over many decades, with zeros of both signs and subnormals between.
// The state is not negative, as sums of squares never are.
Input RandomInput(size_t size, size_t slots) {
  const PhiloxStream random(17, StreamKind::kTest);
  Input input = {Vector(size), Vector(size * slots), Vector(size)};
  for (size_t i = 0; i < size; ++i) {
    const float scale = std::pow(10.0f, static_cast<float>(i % 9) - 6.0f);
    input.w[i] = random.Normal(3 * i);
    input.g[i] = random.Normal(3 * i + 1) * scale;
    for (size_t slot = 0; slot < slots; ++slot) {
      input.state[slot * size + i] =
          i % 5 == slot ? 0.0f
                        : std::abs(random.Normal(3 * i + 2 + 100'000 * slot)) * scale * scale;
    }
    if (i % 11 == 0) {
      input.g[i] = i % 2 == 0 ? 0.0f : -0.0f;
    } else if (i % 13 == 0) {
      input.g[i] = std::numeric_limits<float>::denorm_min() * static_cast<float>(i);
    }
  }
  return input;
}

struct Result {
  double w, state, second = 0.0;  // slots of the state
  // Of quotients, what they are without cancellation, in the square that is below the root
  // too: their terms may be larger than all that goes in.
  double w_terms = 0.0, second_terms = 0.0;
};

// The formulas of optimizer.h, and how far rounding in float32 may go from
// them: half a unit in the last place for each of the operations.
Result Reference(const Case& tested, double w, double state, double second, double g) {
  double size = std::abs(g);  // of g, without cancellation
  if (tested.transform) {
    g = std::clamp(g, -kClip, kClip) + kDecay * w;
    size = std::min(size, kClip) + kDecay * std::abs(w);
  }
  switch (tested.optimizer.kind_case()) {
    case Optimizer::kSgd:
      return {w - kRate * g, 0.0};
    case Optimizer::kMomentum:
      return {w - kRate * (kMomentum * state + g), kMomentum * state + g};
    case Optimizer::kAdam: {  // t = 3
      const double m = 0.9 * state + 0.1 * g, v = 0.999 * second + 0.001 * g * g;
      const double root = std::sqrt(v / (1 - 0.999 * 0.999 * 0.999)) + kEpsilon;
      const double factor = kRate / (1 - 0.9 * 0.9 * 0.9) / root;
      const double below = 1 + 0.001 * std::abs(g) * size / (v + 1e-300);
      return {w - factor * m, m, v, factor * (0.9 * state + 0.1 * size) * below, size * size};
    }
    case Optimizer::kRmsProp: {
      const double v = 0.99 * state + 0.01 * g * g, root = std::sqrt(v) + kEpsilon;
      const double before = tested.optimizer.rms_prop().momentum() * second;
      const double b = before + g / root;
      const double below = 1 + 0.01 * std::abs(g) * size / (v + 1e-300);
      const double terms = before + size / root * below;
      return {w - kRate * b, v, b, kRate * terms, terms};
    }
    case Optimizer::kNesterov: {
      const double period = std::max(1u, tested.optimizer.nesterov().period());
      const double share = tested.optimizer.nesterov().share(), sum = second + g;
      if (period == 4) {
        const double step = g / period + share * kMomentum * state;
        return {w - kRate * step, state, sum, kRate * size, size};
      }
      const double b = kMomentum * state + (period == 1 ? g : sum / period);
      const double step = g / period + (1 - share * period + share) * kMomentum * b;
      return {w - kRate * step, b, 0.0, kRate * size, size};
    }
    default:
      return {w - kRate * g / (std::sqrt(state + g * g) + kEpsilon), state + g * g};
  }
}

class OptimizerSimdTest : public ::testing::TestWithParam<SimdLevel> {};

TEST_P(OptimizerSimdTest, EveryLengthAndAlignmentHasTheBitsOfTheBaseline) {
  std::vector<size_t> sizes(70);
  std::ranges::generate(sizes, [size = size_t{0}]() mutable { return size++; });
  sizes.push_back(1003);
  for (const Case& tested : Cases()) {
    auto kernel = OptimizerKernel::Create(tested.optimizer);
    ASSERT_OK(kernel);
    const size_t slots = static_cast<size_t>((*kernel)->state_slots());
    for (const size_t size : sizes) {
      const Input input = RandomInput(size, slots);
      Input expected = input;
      {
        const ScopedSimdLevel baseline(SimdLevel::kBaseline);
        (*kernel)->Apply(0, expected.w, expected.state, expected.g);
      }
      const ScopedSimdLevel level(GetParam());
      for (const size_t shift : {0u, 1u, 5u, 15u}) {
        Guarded w(input.w, shift), state(input.state, (3 * shift) % 16), g(input.g, 15 - shift);
        (*kernel)->Apply(0, w.span(), state.span(), g.span());
        const auto same_bits = [](float a, float b) {
          return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
        };
        ASSERT_TRUE(std::ranges::equal(w.span(), expected.w, same_bits)) << size << " " << shift;
        ASSERT_TRUE(std::ranges::equal(state.span(), expected.state, same_bits)) << size;
        ASSERT_TRUE(std::ranges::equal(g.span(), input.g, same_bits)) << size;
        ASSERT_TRUE(w.GuardsAreIntact() && state.GuardsAreIntact() && g.GuardsAreIntact())
            << size << " " << shift;
      }
    }
  }
}

TEST_P(OptimizerSimdTest, FollowsTheFormulasInDouble) {
  constexpr size_t kFloats = 10'007;
  const ScopedSimdLevel level(GetParam());
  for (const Case& tested : Cases()) {
    auto kernel = OptimizerKernel::Create(tested.optimizer);
    ASSERT_OK(kernel);
    const size_t slots = static_cast<size_t>((*kernel)->state_slots());
    const Input input = RandomInput(kFloats, slots);
    Vector w = input.w, state = input.state;
    (*kernel)->Apply(2, w, state, input.g);
    for (size_t i = 0; i < kFloats; ++i) {
      const double before = slots > 0 ? input.state[i] : 0.0;
      const double second = slots > 1 ? input.state[kFloats + i] : 0.0;
      const Result exact = Reference(tested, input.w[i], before, second, input.g[i]);
      // Eight roundings at most, of terms no larger than these; twice as many for a root's
      // quotient.
      const double terms =
          std::abs(before) + std::abs(second) + std::abs(input.w[i]) + std::abs(input.g[i]) + 1e-30;
      ASSERT_NEAR(w[i], exact.w, 8 * 0x1p-24 * (terms + std::abs(exact.w) + 2 * exact.w_terms))
          << i << " " << Text(tested.optimizer);
      if (slots > 0) {
        ASSERT_NEAR(state[i], exact.state, 8 * 0x1p-24 * (terms + std::abs(exact.state))) << i;
      }
      if (slots > 1) {
        ASSERT_NEAR(state[kFloats + i], exact.second,
                    8 * 0x1p-24 * (terms + std::abs(exact.second) + 2 * exact.second_terms))
            << i;
      }
    }
  }
}

TEST_P(OptimizerSimdTest, TellsHowFarEachParameterMoved) {
  const ScopedSimdLevel level(GetParam());
  for (const Case& tested : Cases()) {
    auto kernel = OptimizerKernel::Create(tested.optimizer);
    ASSERT_OK(kernel);
    const size_t slots = static_cast<size_t>((*kernel)->state_slots());
    for (const size_t size : {0u, 1u, 17u, 1003u}) {
      const Input input = RandomInput(size, slots);
      Input plain = input, recorded = input;
      Vector moved(size, std::numeric_limits<float>::quiet_NaN());  // fresh: not read
      Vector expected(size);
      for (const bool fresh : {true, false}) {
        // Applied to zeros, with the state as it is, the kernel gives the distance;
        // the weight decay alone needs the parameters themselves.
        Vector from_zero(size, 0.0f), state = plain.state, g = plain.g;
        if (tested.transform) {
          for (size_t i = 0; i < size; ++i) {
            const auto decay = static_cast<float>(kDecay), clip = static_cast<float>(kClip);
            g[i] = std::clamp(g[i], -clip, clip) + decay * plain.w[i];
          }
        }
        auto bare = OptimizerKernel::Create(MakeCase(Text(tested.optimizer), false).optimizer);
        (*bare)->Apply(0, from_zero, state, g);
        for (size_t i = 0; i < size; ++i) {
          expected[i] = fresh ? from_zero[i] : expected[i] + from_zero[i];
        }
        (*kernel)->Apply(0, plain.w, plain.state, plain.g);
        Guarded guarded(moved, 3);
        (*kernel)->ApplyAndTell(0, recorded.w, recorded.state, recorded.g, guarded.span(), fresh);
        moved.assign(guarded.span().begin(), guarded.span().end());
        ASSERT_TRUE(guarded.GuardsAreIntact());
        ASSERT_EQ(recorded.w, plain.w) << size;
        ASSERT_EQ(recorded.state, plain.state) << size;
        ASSERT_EQ(moved, expected) << size << " " << fresh;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, OptimizerSimdTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return SimdLevelName(info.param); });

}  // namespace
}  // namespace monsoon
