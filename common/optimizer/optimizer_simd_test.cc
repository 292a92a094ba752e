// The optimizers at every SIMD level of this machine: against the formulas in
// double, the same bits at all levels, at any length and alignment.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/optimizer/example_optimizers.h"
#include "common/optimizer/make_kernel.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/simd/simd_level.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::ExampleOptimizers;
using ::monsoon::testing::Parse;
using Vector = std::vector<float>;

constexpr double kClip = 1.5, kDecay = 0.01;
// The third push, which the formulas are compared at, closes the examples' period.
constexpr char kNotClosing[] = "nesterov { rate: 0.05 momentum: 0.9 period: 4 share: 0.1 }";
constexpr float kPoison = 12345.0f;
constexpr size_t kGuard = 64;  // floats on both sides: more than a register

struct Case {
  std::string text;
  Optimizer optimizer;  // with its defaults
  bool transform;
};

bool HasOwnDecay(const Case& tested) { return FindKind(tested.optimizer)->own_decay != nullptr; }

Case MakeCase(const std::string& text, bool transform) {
  Case made = {text, Parse(text), transform};
  FillOptimizerDefaults(&made.optimizer);
  if (transform) {
    made.optimizer.set_clip_value(kClip);
    made.optimizer.set_weight_decay(HasOwnDecay(made) ? 0.0 : kDecay);
  }
  return made;
}

std::vector<Case> Cases() {
  std::vector<std::string> texts = ExampleOptimizers();
  texts.push_back(kNotClosing);
  std::vector<Case> cases;
  for (const std::string& text : texts) {
    cases.push_back(MakeCase(text, false));
    cases.push_back(MakeCase(text, true));
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

// Adam's, without the decay: with t = 3.
template <typename Config>
Result ReferenceAdam(const Config& config, double size, double w, double state, double second,
                     double g) {
  const double beta1 = config.beta1(), beta2 = config.beta2();
  const double m = beta1 * state + (1 - beta1) * g, v = beta2 * second + (1 - beta2) * g * g;
  const double root = std::sqrt(v / (1 - beta2 * beta2 * beta2)) + config.epsilon();
  const double factor = config.rate() / (1 - beta1 * beta1 * beta1) / root;
  const double below = 1 + (1 - beta2) * std::abs(g) * size / (v + 1e-300);
  return {w - factor * m, m, v, factor * (beta1 * state + (1 - beta1) * size) * below, size * size};
}

Result ReferenceRmsProp(const RmsProp& config, double size, double w, double state, double second,
                        double g) {
  const double rest = 1 - config.alpha();
  const double v = config.alpha() * state + rest * g * g, root = std::sqrt(v) + config.epsilon();
  const double before = config.momentum() * second;
  const double b = before + g / root;
  const double below = 1 + rest * std::abs(g) * size / (v + 1e-300);
  const double terms = before + size / root * below;
  return {w - config.rate() * b, v, b, config.rate() * terms, terms};
}

Result ReferenceLion(const Lion& config, double w, double m, double g) {
  const double c = config.beta1() * m + (1 - config.beta1()) * g;
  const double sign = c > 0 ? 1 : (c < 0 ? -1 : 0);
  return {w - config.rate() * (sign + config.weight_decay() * w),
          config.beta2() * m + (1 - config.beta2()) * g};
}

Result ReferenceNesterov(const Nesterov& config, double size, double w, double state, double second,
                         double g) {
  const double period = config.period(), share = config.share(), sum = second + g;
  const double rate = config.rate(), momentum = config.momentum();
  if (config.period() == 4) {
    const double step = g / period + share * momentum * state;
    return {w - rate * step, state, sum, rate * size, size};
  }
  const double b = momentum * state + (config.period() == 1 ? g : sum / period);
  const double step = g / period + (1 - share * period + share) * momentum * b;
  return {w - rate * step, b, 0.0, rate * size, size};
}

// The formulas of proto/optimizer.proto, and how far rounding in float32 may go from
// them: half a unit in the last place for each of the operations.
Result Reference(const Case& tested, double w, double state, double second, double g) {
  const Optimizer& optimizer = tested.optimizer;
  double size = std::abs(g);  // of g, without cancellation
  if (tested.transform) {
    g = std::clamp(g, -kClip, kClip) + optimizer.weight_decay() * w;
    size = std::min(size, kClip) + optimizer.weight_decay() * std::abs(w);
  }
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd:
      return {w - optimizer.sgd().rate() * g, 0.0};
    case Optimizer::kMomentum: {
      const double v = optimizer.momentum().momentum() * state + g;
      return {w - optimizer.momentum().rate() * v, v};
    }
    case Optimizer::kAdagrad: {
      const double root = std::sqrt(state + g * g) + optimizer.adagrad().epsilon();
      return {w - optimizer.adagrad().rate() * g / root, state + g * g};
    }
    case Optimizer::kAdam:
      return ReferenceAdam(optimizer.adam(), size, w, state, second, g);
    case Optimizer::kAdamW: {
      const AdamW& adam_w = optimizer.adam_w();
      Result result = ReferenceAdam(adam_w, size, w, state, second, g);
      result.w -= adam_w.rate() * adam_w.weight_decay() * w;
      return result;
    }
    case Optimizer::kLion:
      return ReferenceLion(optimizer.lion(), w, state, g);
    case Optimizer::kRmsProp:
      return ReferenceRmsProp(optimizer.rms_prop(), size, w, state, second, g);
    case Optimizer::kNesterov:
      return ReferenceNesterov(optimizer.nesterov(), size, w, state, second, g);
    case Optimizer::KIND_NOT_SET:
      break;
  }
  return {std::numeric_limits<double>::quiet_NaN(), 0.0};
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
          << i << " " << tested.text;
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
    if (HasOwnDecay(tested)) {
      continue;  // how far a decayed parameter moves is not told from zeros, as below
    }
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
        auto bare = OptimizerKernel::Create(MakeCase(tested.text, false).optimizer);
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
