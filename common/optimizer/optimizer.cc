#include "common/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/optimizer/adagrad.h"
#include "common/optimizer/adam.h"
#include "common/optimizer/average.h"
#include "common/optimizer/momentum.h"
#include "common/optimizer/nesterov.h"
#include "common/optimizer/rms_prop.h"
#include "common/optimizer/sgd.h"

namespace monsoon {
namespace {

absl::Status FieldError(absl::string_view field, double value, absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", field, " is ", value, ", it must be ", want));
}

// Of a gradient that is scaled on its way: they stay in the first cache.
constexpr size_t kScaledFloats = 2048;

// The rate must survive the rounding to float32, or nothing would ever change.
absl::Status CheckRate(absl::string_view kind, double rate) {
  if (!(rate >= std::numeric_limits<float>::min() && rate <= std::numeric_limits<float>::max())) {
    return FieldError(absl::StrCat(kind, ".rate"), rate, "positive and finite");
  }
  return absl::OkStatus();
}

absl::Status CheckNotNegative(absl::string_view field, double value) {
  if (!(value >= 0.0 && value <= std::numeric_limits<float>::max())) {
    return FieldError(field, value, "at least 0 and finite");
  }
  return absl::OkStatus();
}

// Of an average, which at 1 in float32 would never forget.
absl::Status CheckShare(absl::string_view field, double value) {
  if (!(value >= 0.0 && static_cast<float>(value) < 1.0f)) {
    return FieldError(field, value, "at least 0 and below 1");
  }
  return absl::OkStatus();
}

// `value`, or `unset` for 0. A smaller one is zero in float32, and padding would become
// 0 / 0.
absl::StatusOr<float> Epsilon(absl::string_view field, double value, double unset) {
  const double epsilon = value == 0.0 ? unset : value;
  if (!(epsilon >= std::numeric_limits<float>::min() && epsilon <= 1.0)) {
    return FieldError(field, epsilon, "in [1.2e-38, 1]");
  }
  return static_cast<float>(epsilon);
}

// Of Adam and AdamW, without the latter's decay.
template <typename Config>
absl::StatusOr<AdamKernel::Settings> AdamSettings(absl::string_view kind, const Config& config) {
  RETURN_IF_ERROR(CheckRate(kind, config.rate()));
  AdamKernel::Settings settings;
  settings.beta1 = config.has_beta1() ? config.beta1() : kDefaultBeta1;
  settings.beta2 = config.has_beta2() ? config.beta2() : kDefaultBeta2;
  RETURN_IF_ERROR(CheckShare(absl::StrCat(kind, ".beta1"), settings.beta1));
  RETURN_IF_ERROR(CheckShare(absl::StrCat(kind, ".beta2"), settings.beta2));
  ASSIGN_OR_RETURN(settings.epsilon,
                   Epsilon(absl::StrCat(kind, ".epsilon"), config.epsilon(), kDefaultAdamEpsilon));
  return settings;
}

absl::StatusOr<std::unique_ptr<OptimizerKernel>> WithAverage(
    const Average& average, std::unique_ptr<OptimizerKernel> inner) {
  const double share = average.share() == 0.0 ? kDefaultAverageShare : average.share();
  const double power = average.has_power() ? average.power() : kDefaultAveragePower;
  if (!(share >= std::numeric_limits<float>::min() && share <= 1.0)) {
    return FieldError("average.share", share, "in (0, 1]");
  }
  RETURN_IF_ERROR(CheckNotNegative("average.power", power));
  if (inner->initial_state() != 0.0f) {
    return absl::InvalidArgumentError(
        "optimizer.average with adagrad.initial_accumulator: leave one of them out");
  }
  return std::make_unique<AverageKernel>(std::move(inner), share, power);
}

// Without `average`.
absl::StatusOr<std::unique_ptr<OptimizerKernel>> CreateInner(
    const Optimizer& optimizer, const std::shared_ptr<const RateReductions>& reductions) {
  RETURN_IF_ERROR(CheckNotNegative("weight_decay", optimizer.weight_decay()));
  RETURN_IF_ERROR(CheckNotNegative("clip_value", optimizer.clip_value()));
  if (!(optimizer.damping() >= 0.0 && optimizer.damping() <= kMostDamping)) {
    return FieldError("damping", optimizer.damping(), "in [0, 4]");
  }
  RETURN_IF_ERROR(ValidateSchedule(optimizer.schedule()));
  const GradientTransform transform = MakeGradientTransform(optimizer);
  const auto under_schedule = [&](double rate) {
    return RateSchedule(rate, optimizer.schedule(), reductions);
  };
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd: {
      RETURN_IF_ERROR(CheckRate("sgd", optimizer.sgd().rate()));
      return std::make_unique<SgdKernel>(under_schedule(optimizer.sgd().rate()), transform);
    }
    case Optimizer::kMomentum: {
      const Momentum& momentum = optimizer.momentum();
      RETURN_IF_ERROR(CheckRate("momentum", momentum.rate()));
      if (!(momentum.momentum() >= 0.0 && momentum.momentum() < 1.0)) {
        return FieldError("momentum.momentum", momentum.momentum(), "at least 0 and below 1");
      }
      return std::make_unique<MomentumKernel>(under_schedule(momentum.rate()), transform,
                                              static_cast<float>(momentum.momentum()));
    }
    case Optimizer::kAdagrad: {
      const Adagrad& adagrad = optimizer.adagrad();
      RETURN_IF_ERROR(CheckRate("adagrad", adagrad.rate()));
      RETURN_IF_ERROR(
          CheckNotNegative("adagrad.initial_accumulator", adagrad.initial_accumulator()));
      ASSIGN_OR_RETURN(const float epsilon,
                       Epsilon("adagrad.epsilon", adagrad.epsilon(), kDefaultAdagradEpsilon));
      return std::make_unique<AdagradKernel>(under_schedule(adagrad.rate()), transform, epsilon,
                                             static_cast<float>(adagrad.initial_accumulator()));
    }
    case Optimizer::kAdam: {
      AdamKernel::Settings settings;
      ASSIGN_OR_RETURN(settings, AdamSettings("adam", optimizer.adam()));
      return std::make_unique<AdamKernel>(under_schedule(optimizer.adam().rate()), transform,
                                          settings);
    }
    case Optimizer::kAdamW: {
      const AdamW& adam_w = optimizer.adam_w();
      AdamKernel::Settings settings;
      ASSIGN_OR_RETURN(settings, AdamSettings("adam_w", adam_w));
      settings.decay = adam_w.has_weight_decay() ? adam_w.weight_decay() : kDefaultAdamWDecay;
      RETURN_IF_ERROR(CheckNotNegative("adam_w.weight_decay", settings.decay));
      if (optimizer.weight_decay() != 0.0) {
        return absl::InvalidArgumentError(
            "weight_decay with adam_w, which has one of its own: set adam_w.weight_decay");
      }
      return std::make_unique<AdamKernel>(under_schedule(adam_w.rate()), transform, settings);
    }
    case Optimizer::kRmsProp: {
      const RmsProp& rms_prop = optimizer.rms_prop();
      RETURN_IF_ERROR(CheckRate("rms_prop", rms_prop.rate()));
      RmsPropKernel::Settings settings;
      settings.alpha = rms_prop.has_alpha() ? rms_prop.alpha() : kDefaultRmsPropAlpha;
      RETURN_IF_ERROR(CheckShare("rms_prop.alpha", settings.alpha));
      RETURN_IF_ERROR(CheckShare("rms_prop.momentum", rms_prop.momentum()));
      settings.momentum = static_cast<float>(rms_prop.momentum());
      ASSIGN_OR_RETURN(settings.epsilon,
                       Epsilon("rms_prop.epsilon", rms_prop.epsilon(), kDefaultRmsPropEpsilon));
      return std::make_unique<RmsPropKernel>(under_schedule(rms_prop.rate()), transform, settings);
    }
    case Optimizer::kNesterov: {
      const Nesterov& nesterov = optimizer.nesterov();
      RETURN_IF_ERROR(CheckRate("nesterov", nesterov.rate()));
      RETURN_IF_ERROR(CheckShare("nesterov.momentum", nesterov.momentum()));
      NesterovKernel::Settings settings;
      settings.momentum = nesterov.momentum();
      settings.period = std::max(1u, nesterov.period());
      settings.share = nesterov.share();
      if (!(settings.share >= 0.0 && settings.share * settings.period <= 1.0)) {
        return FieldError("nesterov.share", settings.share, "at least 0 and at most 1 / period");
      }
      return std::make_unique<NesterovKernel>(under_schedule(nesterov.rate()), transform, settings);
    }
    case Optimizer::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer has no kind; write for example adagrad { rate: 0.03 }");
}

}  // namespace

void OptimizerKernel::ApplyScaled(uint64_t k, std::span<float> w, OptimizerState state,
                                  std::span<const float> g, float scale) const {
  std::array<float, kScaledFloats> scaled;
  for (size_t begin = 0; begin < w.size(); begin += kScaledFloats) {
    const size_t size = std::min(kScaledFloats, w.size() - begin);
    for (size_t i = 0; i < size; ++i) {
      scaled[i] = scale * g[begin + i];
    }
    Apply(k, w.subspan(begin, size), state.Part(begin, size, w.size()), {scaled.data(), size});
  }
}

void OptimizerKernel::ApplyPush(uint64_t k, std::span<float> w, OptimizerState state,
                                std::span<const float> g, float scale,
                                const StatisticsPush& /*statistics*/) const {
  if (scale == 1.0f) {
    Apply(k, w, state, g);
  } else {
    ApplyScaled(k, w, state, g, scale);
  }
}

double DampingFactor(double damping, int64_t staleness) {
  return damping == 0.0 || staleness <= 0
             ? 1.0
             : std::pow(1.0 + static_cast<double>(staleness), -damping);
}

absl::StatusOr<std::unique_ptr<OptimizerKernel>> OptimizerKernel::Create(
    const Optimizer& optimizer, std::shared_ptr<const RateReductions> reductions) {
  ASSIGN_OR_RETURN(std::unique_ptr<OptimizerKernel> inner, CreateInner(optimizer, reductions));
  if (!optimizer.has_average()) {
    return inner;
  }
  return WithAverage(optimizer.average(), std::move(inner));
}

}  // namespace monsoon
