#include "common/optimizer/optimizer.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/optimizer/adagrad.h"
#include "common/optimizer/momentum.h"
#include "common/optimizer/sgd.h"

namespace monsoon {
namespace {

absl::Status FieldError(absl::string_view field, double value, absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", field, " is ", value, ", it must be ", want));
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<OptimizerKernel>> OptimizerKernel::Create(
    const Optimizer& optimizer) {
  RETURN_IF_ERROR(CheckNotNegative("weight_decay", optimizer.weight_decay()));
  RETURN_IF_ERROR(CheckNotNegative("clip_value", optimizer.clip_value()));
  RETURN_IF_ERROR(ValidateSchedule(optimizer.schedule()));
  const GradientTransform transform = MakeGradientTransform(optimizer);
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd: {
      RETURN_IF_ERROR(CheckRate("sgd", optimizer.sgd().rate()));
      return std::make_unique<SgdKernel>(RateSchedule(optimizer.sgd().rate(), optimizer.schedule()),
                                         transform);
    }
    case Optimizer::kMomentum: {
      const Momentum& momentum = optimizer.momentum();
      RETURN_IF_ERROR(CheckRate("momentum", momentum.rate()));
      if (!(momentum.momentum() >= 0.0 && momentum.momentum() < 1.0)) {
        return FieldError("momentum.momentum", momentum.momentum(), "at least 0 and below 1");
      }
      return std::make_unique<MomentumKernel>(RateSchedule(momentum.rate(), optimizer.schedule()),
                                              transform, static_cast<float>(momentum.momentum()));
    }
    case Optimizer::kAdagrad: {
      const Adagrad& adagrad = optimizer.adagrad();
      RETURN_IF_ERROR(CheckRate("adagrad", adagrad.rate()));
      RETURN_IF_ERROR(
          CheckNotNegative("adagrad.initial_accumulator", adagrad.initial_accumulator()));
      const double epsilon = adagrad.epsilon() == 0.0 ? kDefaultAdagradEpsilon : adagrad.epsilon();
      // A smaller one is zero in float32, and padding would become 0 / 0.
      if (!(epsilon >= std::numeric_limits<float>::min() && epsilon <= 1.0)) {
        return FieldError("adagrad.epsilon", epsilon, "in [1.2e-38, 1]");
      }
      return std::make_unique<AdagradKernel>(RateSchedule(adagrad.rate(), optimizer.schedule()),
                                             transform, static_cast<float>(epsilon),
                                             static_cast<float>(adagrad.initial_accumulator()));
    }
    case Optimizer::kAdam:
    case Optimizer::kAdamW:
    case Optimizer::kRmsProp:
      return absl::UnimplementedError("this optimizer is not built in");
    case Optimizer::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer has no kind; write for example adagrad { rate: 0.03 }");
}

}  // namespace monsoon
