#include "common/config/optimizer_check.h"

#include <limits>

#include "common/config/number_check.h"

namespace monsoon {
namespace {

// A model fetched or a gradient pushed less often than this has lost touch.
constexpr uint32_t kMaxSteps = 65536;

void CheckSchedule(const Schedule& schedule, const std::string& path, Reporter* reporter) {
  NumberCheck check(reporter);
  if (schedule.has_step()) {
    check.AtLeastOne(path + ".step.every_pushes", schedule.step().every_pushes());
    if (const double factor = schedule.step().factor(); !(factor > 0.0 && factor <= 1.0)) {
      check.Refuse(path + ".step.factor", factor, "is outside (0, 1]");
    }
  }
  if (schedule.has_cosine()) {
    check.AtLeastOne(path + ".cosine.pushes", schedule.cosine().pushes());
    if (const double rest = schedule.cosine().final(); !(rest >= 0.0 && rest <= 1.0)) {
      check.Refuse(path + ".cosine.final", rest, "is outside [0, 1]");
    }
  }
}

void CheckWireFormats(const Downpour& downpour, const std::string& path, Reporter* reporter) {
  if (!WireFormat_IsValid(downpour.push_format())) {
    reporter->Error(path + ".push_format", "unknown format");
  }
  if (!WireFormat_IsValid(downpour.fetch_format())) {
    reporter->Error(path + ".fetch_format", "unknown format");
  } else if (downpour.fetch_format() == TOP_K) {
    reporter->Error(path + ".fetch_format", "TOP_K sends a part of a gradient, not parameters",
                    "FLOAT32, BFLOAT16, FLOAT16 or INT8");
  }
  const double share = downpour.top_k_share();
  if (downpour.push_format() != TOP_K && share != 0.0) {
    reporter->Error(path + ".top_k_share", "means nothing without push_format: TOP_K");
  } else if (!(share >= 0.0 && share <= 0.5)) {
    NumberCheck(reporter).Refuse(path + ".top_k_share", share,
                                 "is outside (0, 0.5]; FLOAT32 is smaller");
  }
}

}  // namespace

void CheckOptimizer(const Optimizer& optimizer, const std::string& path, Reporter* reporter) {
  NumberCheck check(reporter);
  check.NotNegative(path + ".weight_decay", optimizer.weight_decay());
  check.NotNegative(path + ".clip_value", optimizer.clip_value());
  check.NotNegative(path + ".clip_norm", optimizer.clip_norm());
  CheckSchedule(optimizer.schedule(), path + ".schedule", reporter);
  switch (optimizer.kind_case()) {
    case Optimizer::kSgd:
      check.Positive(path + ".sgd.rate", optimizer.sgd().rate());
      return;
    case Optimizer::kMomentum:
      check.Positive(path + ".momentum.rate", optimizer.momentum().rate());
      if (const double m = optimizer.momentum().momentum(); !(m >= 0.0 && m < 1.0)) {
        check.Refuse(path + ".momentum.momentum", m, "is outside [0, 1)");
      }
      return;
    case Optimizer::kAdagrad: {
      const Adagrad& adagrad = optimizer.adagrad();
      check.Positive(path + ".adagrad.rate", adagrad.rate());
      check.NotNegative(path + ".adagrad.initial_accumulator", adagrad.initial_accumulator());
      // In float32 a smaller one is zero, and untouched parameters become 0 / 0.
      if (adagrad.epsilon() != 0.0 &&
          !(adagrad.epsilon() >= std::numeric_limits<float>::min() && adagrad.epsilon() <= 1.0)) {
        check.Refuse(path + ".adagrad.epsilon", adagrad.epsilon(), "is outside [1.2e-38, 1]");
      }
      return;
    }
    case Optimizer::KIND_NOT_SET:
      reporter->Error(path, "no optimizer is chosen: sgd, momentum or adagrad",
                      "as in optimizer { adagrad { rate: 0.03 } }");
      return;
  }
}

void CheckDownpour(const Downpour& downpour, const std::string& path, Reporter* reporter) {
  NumberCheck check(reporter);
  check.AtMost(path + ".n_fetch", downpour.n_fetch(), kMaxSteps);
  check.AtMost(path + ".n_push", downpour.n_push(), kMaxSteps);
  check.AtMost(path + ".replicas", downpour.replicas(), kMaxReplicas);
  if (!Overlap_IsValid(downpour.overlap())) {
    reporter->Error(path + ".overlap", "unknown overlap");
  }
  const LocalUpdate& update = downpour.local_update();
  if (update.kind_case() == LocalUpdate::kSgdRate) {
    check.Positive(path + ".local_update.sgd_rate", update.sgd_rate());
  } else if (update.kind_case() == LocalUpdate::kAdagradRate) {
    check.Positive(path + ".local_update.adagrad_rate", update.adagrad_rate());
  }
  CheckWireFormats(downpour, path, reporter);
  check.NotNegative(path + ".warmstart.seconds", downpour.warmstart().seconds());
  if (downpour.has_warmstart() && downpour.warmstart().steps() == 0 &&
      downpour.warmstart().seconds() == 0.0) {
    reporter->Error(path + ".warmstart", "neither steps nor seconds is set",
                    "as in warmstart { steps: 100 }");
  }
  CheckOptimizer(downpour.optimizer(), path + ".optimizer", reporter);
}

}  // namespace monsoon
