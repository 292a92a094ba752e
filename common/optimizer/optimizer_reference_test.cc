// The optimizers over ten thousand pushes, against the formulas in double.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "common/base/random.h"
#include "common/optimizer/make_kernel.h"
#include "common/optimizer/optimizer.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::Make;
using Vector = std::vector<float>;

// The same procedures in double, written from the formulas of optimizer.proto and
// sharing nothing with the kernels.
struct Reference {
  double w = 0.0;
  double state = 0.0;
  double second = 0.0;  // slot of the state
};
using ReferenceStep = std::function<void(Reference*, double g, uint64_t k)>;

void ComparePushes(const std::string& text, double initial_state, const ReferenceStep& step,
                   double tolerance) {
  constexpr size_t kFloats = 37;
  constexpr uint64_t kPushes = 10'000;
  auto kernel = Make(text);
  const PhiloxStream random(11, StreamKind::kTest);
  Vector w(kFloats), state(kFloats * kernel->state_slots(), kernel->initial_state());
  std::vector<Reference> reference(kFloats);
  for (size_t i = 0; i < kFloats; ++i) {
    w[i] = random.Normal(i);
    reference[i] = {w[i], initial_state, 0.0};
  }
  for (uint64_t k = 0; k < kPushes; ++k) {
    Vector g(kFloats);
    for (size_t i = 0; i < kFloats; ++i) {
      // Pulls towards i, with noise, as training does.
      g[i] = static_cast<float>(0.1 * (reference[i].w - static_cast<double>(i)) +
                                random.Normal(1000 + k * kFloats + i));
      step(&reference[i], g[i], k);
    }
    kernel->Apply(k, w, state, g);
  }
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_NEAR(w[i], reference[i].w, tolerance * std::max(1.0, std::abs(reference[i].w))) << i;
    if (state.size() > kFloats) {
      EXPECT_NEAR(state[kFloats + i], reference[i].second,
                  tolerance * std::max(1.0, std::abs(reference[i].second)))
          << i;
    }
    if (!state.empty()) {
      EXPECT_NEAR(state[i], reference[i].state,
                  tolerance * std::max(1.0, std::abs(reference[i].state)))
          << i;
    }
  }
}

TEST(ReferenceTest, SgdOverTenThousandPushes) {
  ComparePushes(
      "sgd { rate: 0.01 } weight_decay: 0.001 clip_value: 1.5", 0.0,
      [](Reference* r, double g, uint64_t) {
        r->w -= 0.01 * (std::clamp(g, -1.5, 1.5) + 0.001 * r->w);
      },
      1e-4);
}

TEST(ReferenceTest, MomentumOverTenThousandPushes) {
  ComparePushes(
      "momentum { rate: 0.01 momentum: 0.9 }", 0.0,
      [](Reference* r, double g, uint64_t) {
        r->state = 0.9 * r->state + g;
        r->w -= 0.01 * r->state;
      },
      1e-3);
}

TEST(ReferenceTest, NesterovOverTenThousandPushes) {
  ComparePushes(
      "nesterov { rate: 0.01 momentum: 0.9 }", 0.0,
      [](Reference* r, double g, uint64_t) {
        r->state = 0.9 * r->state + g;
        r->w -= 0.01 * (g + 0.9 * r->state);
      },
      1e-3);
}

TEST(ReferenceTest, DelayedNesterovOverTenThousandPushes) {
  ComparePushes(
      "nesterov { rate: 0.05 momentum: 0.9 period: 3 share: 0.2 }", 0.0,
      [](Reference* r, double g, uint64_t k) {
        r->second += g;
        if ((k + 1) % 3 != 0) {
          r->w -= 0.05 * (g / 3 + 0.2 * 0.9 * r->state);
          return;
        }
        r->state = 0.9 * r->state + r->second / 3;
        r->second = 0.0;
        r->w -= 0.05 * (g / 3 + (1 - 0.2 * 3 + 0.2) * 0.9 * r->state);
      },
      1e-3);
}

TEST(ReferenceTest, AdagradOverTenThousandPushes) {
  ComparePushes(
      "adagrad { rate: 0.1 initial_accumulator: 0.1 }", 0.1,
      [](Reference* r, double g, uint64_t) {
        r->state += g * g;
        r->w -= 0.1 * g / (std::sqrt(r->state) + 1e-8);
      },
      1e-3);
}

TEST(ReferenceTest, AdamOverTenThousandPushes) {
  ComparePushes(
      "adam { rate: 0.01 beta1: 0.8 } weight_decay: 0.01 clip_value: 2", 0.0,
      [](Reference* r, double g, uint64_t k) {
        const double t = static_cast<double>(k) + 1;
        g = std::clamp(g, -2.0, 2.0) + 0.01 * r->w;
        r->state = 0.8 * r->state + 0.2 * g;
        r->second = 0.999 * r->second + 0.001 * g * g;
        r->w -= 0.01 * (r->state / (1 - std::pow(0.8, t))) /
                (std::sqrt(r->second / (1 - std::pow(0.999, t))) + 1e-8);
      },
      1e-3);
}

TEST(ReferenceTest, AdamWOverTenThousandPushes) {
  ComparePushes(
      "adam_w { rate: 0.01 beta2: 0.99 epsilon: 0.001 weight_decay: 0.1 } "
      "schedule { warm_up_pushes: 100 }",
      0.0,
      [](Reference* r, double g, uint64_t k) {
        const double t = static_cast<double>(k) + 1;
        const double rate = 0.01 * std::min(1.0, t / 100);
        r->w -= rate * 0.1 * r->w;
        r->state = 0.9 * r->state + 0.1 * g;
        r->second = 0.99 * r->second + 0.01 * g * g;
        r->w -= rate * (r->state / (1 - std::pow(0.9, t))) /
                (std::sqrt(r->second / (1 - std::pow(0.99, t))) + 1e-3);
      },
      1e-3);
}

TEST(ReferenceTest, RmsPropOverTenThousandPushes) {
  ComparePushes(
      "rms_prop { rate: 0.01 }", 0.0,
      [](Reference* r, double g, uint64_t) {
        r->state = 0.99 * r->state + 0.01 * g * g;
        r->w -= 0.01 * g / (std::sqrt(r->state) + 1e-8);
      },
      1e-3);
  ComparePushes(
      "rms_prop { rate: 0.001 alpha: 0.9 momentum: 0.9 epsilon: 0.01 }", 0.0,
      [](Reference* r, double g, uint64_t) {
        r->state = 0.9 * r->state + 0.1 * g * g;
        r->second = 0.9 * r->second + g / (std::sqrt(r->state) + 0.01);
        r->w -= 0.001 * r->second;
      },
      1e-3);
}

TEST(ReferenceTest, AdagradWithCosineAndWarmUp) {
  ComparePushes(
      "adagrad { rate: 0.1 epsilon: 0.01 } schedule { cosine { pushes: 8000 final: 0.1 } "
      "warm_up_pushes: 100 }",
      0.0,
      [](Reference* r, double g, uint64_t k) {
        const double done = std::min<double>(static_cast<double>(k), 8000.0) / 8000.0;
        double rate = 0.1 * (0.1 + 0.9 * 0.5 * (1.0 + std::cos(M_PI * done)));
        if (k < 100) {
          rate *= static_cast<double>(k + 1) / 100.0;
        }
        r->state += g * g;
        r->w -= rate * g / (std::sqrt(r->state) + 0.01);
      },
      1e-3);
}

}  // namespace
}  // namespace monsoon
