#include "coordinator/compare/rates.h"

#include "common/base/check.h"
#include "common/optimizer/optimizer_kinds.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

const Optimizer& SteppingOf(const Job& job) {
  const Downpour& downpour = job.downpour();
  return downpour.local().has_inner() ? downpour.local().inner() : downpour.optimizer();
}

}  // namespace

std::optional<double> RateOf(const Job& job) {
  if (!job.has_downpour()) {
    return std::nullopt;
  }
  const Optimizer& optimizer = SteppingOf(job);
  return FindKind(optimizer) == nullptr ? std::nullopt : std::make_optional(RateOf(optimizer));
}

void SetRate(double rate, Job* job) {
  const std::optional<double> before = RateOf(*job);
  CHECK(before.has_value());
  const double factor = rate / *before;
  Downpour* const downpour = job->mutable_downpour();
  Optimizer* const optimizer = downpour->local().has_inner()
                                   ? downpour->mutable_local()->mutable_inner()
                                   : downpour->mutable_optimizer();
  SetRate(rate, optimizer);
  for (OptimizerGroup& group : *optimizer->mutable_group()) {
    if (group.has_rate()) {
      group.set_rate(group.rate() * factor);
    }
  }
  if (optimizer->has_muon()) {
    optimizer->mutable_muon()->set_rate(optimizer->muon().rate() * factor);
  }
  LocalUpdate* const update = downpour->mutable_local_update();
  if (update->has_sgd_rate()) {
    update->set_sgd_rate(update->sgd_rate() * factor);
  } else if (update->has_adagrad_rate()) {
    update->set_adagrad_rate(update->adagrad_rate() * factor);
  }
}

}  // namespace monsoon
