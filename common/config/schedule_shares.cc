#include "common/config/schedule_shares.h"

#include <algorithm>
#include <cmath>

#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

uint64_t PartOf(double share, double all) {
  return static_cast<uint64_t>(std::max(1.0, std::round(share * all)));
}

}  // namespace

std::optional<double> StepsUntilStop(const Job& job, uint64_t examples) {
  std::optional<double> steps;
  if (job.stop().steps() > 0) {
    steps = static_cast<double>(job.stop().steps());
  }
  if (job.stop().epochs() > 0 && examples > 0 && job.batch_size() > 0) {
    const double of_epoch =
        std::ceil(static_cast<double>(examples) / static_cast<double>(job.batch_size()));
    const double all = job.stop().epochs() * of_epoch;
    steps = std::min(steps.value_or(all), all);
  }
  return steps;
}

std::optional<double> PushesUntilStop(const Job& job, uint64_t examples, const Trainers& trainers) {
  std::optional<double> pushes = StepsUntilStop(job, examples);
  if (!pushes.has_value()) {
    return std::nullopt;
  }
  const Downpour& downpour = job.downpour();
  const uint32_t steps = downpour.has_local() ? downpour.local().steps() : downpour.n_push();
  *pushes /= std::max(1u, steps) * trainers.replicas;
  if (downpour.has_rounds()) {
    *pushes /= std::max(1u, trainers.workers);
  }
  return pushes;
}

std::optional<double> InnerStepsUntilStop(const Job& job, uint64_t examples,
                                          const Trainers& trainers) {
  std::optional<double> steps = StepsUntilStop(job, examples);
  if (steps.has_value()) {
    *steps /= std::max(1u, trainers.workers) * trainers.replicas;
  }
  return steps;
}

bool HasShares(const Schedule& schedule) {
  return schedule.warm_up_share() > 0 || schedule.step().every_share() > 0 ||
         schedule.cosine().share() > 0;
}

void ResolveShares(double all, Schedule* schedule) {
  if (schedule->warm_up_share() > 0) {
    schedule->set_warm_up_pushes(PartOf(schedule->warm_up_share(), all));
  }
  if (schedule->step().every_share() > 0) {
    schedule->mutable_step()->set_every_pushes(PartOf(schedule->step().every_share(), all));
  }
  if (schedule->cosine().share() > 0) {
    schedule->mutable_cosine()->set_pushes(PartOf(schedule->cosine().share(), all));
  }
}

void ResolveShares(uint64_t examples, const Trainers& trainers, Job* job) {
  const std::optional<double> pushes = PushesUntilStop(*job, examples, trainers);
  const std::optional<double> steps = InnerStepsUntilStop(*job, examples, trainers);
  if (!pushes.has_value() || !steps.has_value()) {
    return;
  }
  Downpour* const downpour = job->mutable_downpour();
  if (HasShares(downpour->optimizer().schedule())) {
    ResolveShares(*pushes, downpour->mutable_optimizer()->mutable_schedule());
  }
  if (HasShares(downpour->local().inner().schedule())) {
    ResolveShares(*steps, downpour->mutable_local()->mutable_inner()->mutable_schedule());
  }
}

}  // namespace monsoon
