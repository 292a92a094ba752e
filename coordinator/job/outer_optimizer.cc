#include "coordinator/job/outer_optimizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/job.h"
#include "common/optimizer/optimizer_kinds.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

bool IsUnset(const Downpour& downpour) {
  return downpour.has_local() && downpour.optimizer().kind_case() == Optimizer::KIND_NOT_SET;
}

bool IsShared(const Downpour& downpour) { return IsUnset(downpour) && !downpour.has_rounds(); }

}  // namespace

uint32_t DifferenceSharers(const Job& job, uint32_t listed) {
  const Downpour& downpour = job.downpour();
  if (!IsShared(downpour)) {
    return 1;
  }
  if (IsJoined(job)) {
    return std::max(1u, downpour.programs());
  }
  return std::max(1u, downpour.workers() != 0 ? downpour.workers() : listed);
}

Optimizer OuterOptimizer(const Downpour& downpour, uint32_t sharers) {
  Optimizer optimizer = downpour.optimizer();
  if (IsUnset(downpour)) {
    sharers = IsShared(downpour) ? std::max(1u, sharers) : 1;
    optimizer.mutable_sgd()->set_rate(1.0 / sharers);
  }
  return optimizer;
}

std::string OuterOptimizerText(const Job& job, uint32_t sharers) {
  const Downpour& downpour = job.downpour();
  if (!downpour.has_local()) {
    return "";
  }
  if (!IsUnset(downpour)) {
    return OptimizerName(downpour.optimizer());
  }
  if (downpour.has_rounds()) {
    return "sgd, rate 1: the mean of each round, since no optimizer is set";
  }
  if (sharers <= 1) {
    return "sgd, rate 1: each difference is subtracted whole, since no optimizer is set";
  }
  return absl::StrFormat("sgd, rate %.6g: the mean of %d replicas, since no optimizer is set",
                         1.0 / sharers, sharers);
}

std::string AddedDifferences(const Job& job, uint32_t sharers, uint32_t programs) {
  const uint32_t known = std::max(1u, sharers);
  if (!IsShared(job.downpour()) || !IsJoined(job) || programs <= known) {
    return "";
  }
  return absl::StrCat(programs, " programs train, and each difference is subtracted ",
                      known == 1 ? "whole" : absl::StrCat("by 1/", known),
                      ": they add up where they should average. Say programs=", programs,
                      ", or an outer optimizer");
}

}  // namespace monsoon
