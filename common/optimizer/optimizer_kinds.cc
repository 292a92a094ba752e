#include "common/optimizer/optimizer_kinds.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/optimizer/schedule.h"
#include "common/settings/number_rule.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

int NoSlot(const Optimizer&) { return 0; }
int OneSlot(const Optimizer&) { return 1; }
int TwoSlots(const Optimizer&) { return 2; }

void SgdStep(const Optimizer&, uint64_t, OptimizerStep* step) { step->rule = OptimizerRule::kSgd; }

void MomentumStep(const Optimizer& optimizer, uint64_t, OptimizerStep* step) {
  step->rule = OptimizerRule::kMomentum;
  step->momentum = static_cast<float>(optimizer.momentum().momentum());
}

int NesterovSlots(const Optimizer& optimizer) { return optimizer.nesterov().period() > 1 ? 2 : 1; }

std::optional<FieldProblem> CheckNesterov(const Optimizer& optimizer) {
  const Nesterov& nesterov = optimizer.nesterov();
  const double period = std::max(1u, nesterov.period());
  // Beyond that it is outside its own range.
  if (!(nesterov.share() <= 1.0 && nesterov.share() * period > 1.0)) {
    return std::nullopt;
  }
  return FieldProblem{"share", absl::StrCat(nesterov.share(), " is outside [0, 1 / period]"),
                      absl::StrCat("at most ", 1.0 / period, " here")};
}

void NesterovStep(const Optimizer& optimizer, uint64_t k, OptimizerStep* step) {
  const Nesterov& nesterov = optimizer.nesterov();
  const auto period = static_cast<double>(nesterov.period());
  const bool closes = (k + 1) % nesterov.period() == 0;
  step->rule = nesterov.period() == 1 ? OptimizerRule::kNesterov
               : closes               ? OptimizerRule::kClosingNesterov
                                      : OptimizerRule::kDelayedNesterov;
  step->momentum = static_cast<float>(nesterov.momentum());
  step->part = static_cast<float>(1.0 / period);
  const double share =
      closes ? 1.0 - nesterov.share() * period + nesterov.share() : nesterov.share();
  step->ahead = static_cast<float>(share * nesterov.momentum());
}

void AdagradStep(const Optimizer& optimizer, uint64_t, OptimizerStep* step) {
  step->rule = OptimizerRule::kAdagrad;
  step->epsilon = static_cast<float>(optimizer.adagrad().epsilon());
}

// The corrections of the bias are computed in double, once per push, the first of which has
// t = 1.
template <typename Config>
void AdamStep(const Config& config, double decay, uint64_t k, OptimizerStep* step) {
  const double t = static_cast<double>(k) + 1.0;
  const double rate = step->rate;
  step->rule = OptimizerRule::kAdam;
  step->beta1 = static_cast<float>(config.beta1());
  step->rest1 = static_cast<float>(1.0 - config.beta1());
  step->beta2 = static_cast<float>(config.beta2());
  step->rest2 = static_cast<float>(1.0 - config.beta2());
  step->rate = static_cast<float>(rate / (1.0 - std::pow(config.beta1(), t)));
  step->root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(config.beta2(), t)));
  step->epsilon = static_cast<float>(config.epsilon());
  step->decay = static_cast<float>(rate * decay);
}

void AdamStepOf(const Optimizer& optimizer, uint64_t k, OptimizerStep* step) {
  AdamStep(optimizer.adam(), 0.0, k, step);
}

void AdamWStepOf(const Optimizer& optimizer, uint64_t k, OptimizerStep* step) {
  AdamStep(optimizer.adam_w(), optimizer.adam_w().weight_decay(), k, step);
}

bool RmsPropHasMomentum(const RmsProp& rms_prop) {
  return static_cast<float>(rms_prop.momentum()) > 0.0f;
}

int RmsPropSlots(const Optimizer& optimizer) {
  return RmsPropHasMomentum(optimizer.rms_prop()) ? 2 : 1;
}

void RmsPropStep(const Optimizer& optimizer, uint64_t, OptimizerStep* step) {
  const RmsProp& rms_prop = optimizer.rms_prop();
  step->rule =
      RmsPropHasMomentum(rms_prop) ? OptimizerRule::kRmsPropMomentum : OptimizerRule::kRmsProp;
  step->beta2 = static_cast<float>(rms_prop.alpha());
  step->rest2 = static_cast<float>(1.0 - rms_prop.alpha());
  step->epsilon = static_cast<float>(rms_prop.epsilon());
  step->momentum = static_cast<float>(rms_prop.momentum());
}

void LionStep(const Optimizer& optimizer, uint64_t, OptimizerStep* step) {
  const Lion& lion = optimizer.lion();
  step->rule = OptimizerRule::kLion;
  step->beta1 = static_cast<float>(lion.beta1());
  step->rest1 = static_cast<float>(1.0 - lion.beta1());
  step->beta2 = static_cast<float>(lion.beta2());
  step->rest2 = static_cast<float>(1.0 - lion.beta2());
  step->decay = static_cast<float>(static_cast<double>(step->rate) * lion.weight_decay());
}

constexpr OptimizerKind kOptimizers[] = {
    {.kind = Optimizer::kSgd, .title = "SGD", .slots = NoSlot, .step = SgdStep},
    {.kind = Optimizer::kMomentum, .title = "momentum", .slots = OneSlot, .step = MomentumStep},
    {.kind = Optimizer::kNesterov,
     .title = "Nesterov",
     .check = CheckNesterov,
     .slots = NesterovSlots,
     .step = NesterovStep},
    {.kind = Optimizer::kAdagrad,
     .title = "Adagrad",
     .slots = OneSlot,
     .initial_state = "initial_accumulator",
     .step = AdagradStep},
    {.kind = Optimizer::kAdam, .title = "Adam", .slots = TwoSlots, .step = AdamStepOf},
    {.kind = Optimizer::kAdamW,
     .title = "AdamW",
     .slots = TwoSlots,
     .step = AdamWStepOf,
     .own_decay = "adam_w { rate: 0.001 weight_decay: 0.01 }"},
    {.kind = Optimizer::kLion,
     .title = "Lion",
     .slots = OneSlot,
     .step = LionStep,
     .own_decay = "lion { rate: 0.0001 weight_decay: 0.1 }"},
    {.kind = Optimizer::kRmsProp, .title = "RMSProp", .slots = RmsPropSlots, .step = RmsPropStep},
};

const FieldDescriptor& FieldOf(const OptimizerKind& kind) {
  return *Optimizer::descriptor()->FindFieldByNumber(kind.kind);
}

// The message of a kind that is set.
const Message& KindMessage(const Optimizer& optimizer) {
  const OptimizerKind* const kind = FindKind(optimizer);
  CHECK(kind != nullptr);
  return optimizer.GetReflection()->GetMessage(optimizer, &FieldOf(*kind));
}

Message* MutableKindMessage(Optimizer* optimizer) {
  const OptimizerKind* const kind = FindKind(*optimizer);
  CHECK(kind != nullptr);
  return optimizer->GetReflection()->MutableMessage(optimizer, &FieldOf(*kind));
}

const FieldDescriptor& FieldOf(const Message& message, absl::string_view name) {
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(std::string(name));
  CHECK(field != nullptr);
  return *field;
}

double NumberOf(const Message& message, absl::string_view field) {
  return message.GetReflection()->GetDouble(message, &FieldOf(message, field));
}

}  // namespace

absl::string_view OptimizerKind::name() const { return FieldOf(*this).name(); }

absl::string_view OptimizerKind::message() const { return FieldOf(*this).message_type()->name(); }

std::span<const OptimizerKind> Optimizers() { return kOptimizers; }

const OptimizerKind* FindKind(const Optimizer& optimizer) {
  const auto* const found =
      std::ranges::find(kOptimizers, optimizer.kind_case(), &OptimizerKind::kind);
  return found == std::end(kOptimizers) ? nullptr : found;
}

std::string OptimizerNames(absl::string_view last) {
  std::vector<absl::string_view> names;
  for (const OptimizerKind& kind : kOptimizers) {
    names.push_back(kind.name());
  }
  const absl::string_view end = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " ", last, " ", end);
}

std::string OptimizerName(const Optimizer& optimizer) {
  const OptimizerKind* const kind = FindKind(optimizer);
  return absl::StrCat(kind == nullptr ? "none" : kind->name(),
                      optimizer.has_muon() ? " with muon" : "",
                      optimizer.has_average() ? " with average" : "");
}

void FillOptimizerDefaults(Optimizer* optimizer) {
  if (const OptimizerKind* const kind = FindKind(*optimizer); kind != nullptr) {
    FillUnset(MutableKindMessage(optimizer));
  }
  if (optimizer->has_average()) {
    FillUnset(optimizer->mutable_average());
  }
  if (optimizer->has_muon()) {
    FillUnset(optimizer->mutable_muon());
  }
  if (optimizer->has_schedule()) {
    FillScheduleDefaults(optimizer->mutable_schedule());
  }
}

absl::Status CheckOptimizer(const Optimizer& optimizer) {
  const OptimizerKind* const kind = FindKind(optimizer);
  if (kind == nullptr) {
    return absl::InvalidArgumentError(
        "optimizer has no kind; write for example adagrad { rate: 0.03 }");
  }
  RETURN_IF_ERROR(CheckNumbers(optimizer, "optimizer."));
  const std::string path = absl::StrCat(kind->name(), ".");
  RETURN_IF_ERROR(CheckNumbers(KindMessage(optimizer), absl::StrCat("optimizer.", path)));
  if (const auto problem = kind->check == nullptr ? std::nullopt : kind->check(optimizer)) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.", path, problem->field, ": ", problem->message));
  }
  if (kind->own_decay != nullptr && optimizer.weight_decay() != 0.0) {
    return absl::InvalidArgumentError(absl::StrCat("weight_decay with ", kind->name(),
                                                   ", which has one of its own: set ", path,
                                                   "weight_decay"));
  }
  if (const char* const field = StateBegunElsewhere(optimizer);
      field != nullptr && (optimizer.has_average() || optimizer.has_muon())) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.", optimizer.has_average() ? "average" : "muon", " with ", path,
                     field, ": leave one of them out"));
  }
  if (optimizer.has_muon()) {
    RETURN_IF_ERROR(CheckNumbers(optimizer.muon(), "optimizer.muon."));
  }
  return optimizer.has_average() ? CheckNumbers(optimizer.average(), "optimizer.average.")
                                 : absl::OkStatus();
}

int OptimizerStateSlots(const Optimizer& optimizer) {
  const OptimizerKind* const kind = FindKind(optimizer);
  const int average = optimizer.has_average() ? 1 : 0;
  const int matrices = optimizer.has_muon() ? 1 : 0;
  return std::max(kind == nullptr ? 0 : kind->slots(optimizer), matrices) + average;
}

float InitialState(const Optimizer& optimizer) {
  const OptimizerKind* const kind = FindKind(optimizer);
  return kind == nullptr || kind->initial_state == nullptr
             ? 0.0f
             : static_cast<float>(NumberOf(KindMessage(optimizer), kind->initial_state));
}

const char* StateBegunElsewhere(const Optimizer& optimizer) {
  return InitialState(optimizer) == 0.0f ? nullptr : FindKind(optimizer)->initial_state;
}

bool Decays(const Optimizer& optimizer) {
  const OptimizerKind* const kind = FindKind(optimizer);
  return optimizer.weight_decay() != 0.0 || (kind != nullptr && kind->own_decay != nullptr);
}

Optimizer WithoutDecay(const Optimizer& optimizer) {
  Optimizer bare = optimizer;
  bare.clear_weight_decay();
  if (Decays(bare)) {
    Message* const message = MutableKindMessage(&bare);
    message->GetReflection()->SetDouble(message, &FieldOf(*message, "weight_decay"), 0.0);
  }
  return bare;
}

double RateOf(const Optimizer& optimizer) { return NumberOf(KindMessage(optimizer), "rate"); }

void SetRate(double rate, Optimizer* optimizer) {
  Message* const kind = MutableKindMessage(optimizer);
  kind->GetReflection()->SetDouble(kind, &FieldOf(*kind, "rate"), rate);
}

}  // namespace monsoon
