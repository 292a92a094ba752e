#include "common/config/schedule_shares.h"

#include <algorithm>
#include <cmath>

#include "common/optimizer/schedule_lengths.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

uint64_t PartOf(double share, double all) {
  return static_cast<uint64_t>(std::max(1.0, std::round(share * all)));
}

// How many steps of all replicas together one push, or round, takes.
double StepsOfAPush(const Job& job, const Trainers& trainers) {
  const Downpour& downpour = job.downpour();
  const uint32_t steps = downpour.has_local() ? downpour.local().steps() : downpour.n_push();
  const bool together = downpour.has_rounds() || job.has_synchronous();
  const double of_round = together ? std::max(1u, trainers.workers) : 1.0;
  return std::max(1u, steps) * trainers.replicas * of_round;
}

// While one worker takes a step.
double StepsOfAnInnerStep(const Trainers& trainers) {
  return std::max(1u, trainers.workers) * trainers.replicas;
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
  if (pushes.has_value()) {
    *pushes /= StepsOfAPush(job, trainers);
  }
  return pushes;
}

std::optional<double> InnerStepsUntilStop(const Job& job, uint64_t examples,
                                          const Trainers& trainers) {
  std::optional<double> steps = StepsUntilStop(job, examples);
  if (steps.has_value()) {
    *steps /= StepsOfAnInnerStep(trainers);
  }
  return steps;
}

bool HasShares(const Schedule& schedule) {
  return std::ranges::any_of(LengthsOf(schedule),
                             [](const ScheduleLength& length) { return length.share > 0; });
}

void ResolveShares(std::optional<double> all, double steps, Schedule* schedule) {
  const double unit = schedule->in_steps() ? steps : 1.0;
  SetLengths(
      [&](const ScheduleLength& length) {
        if (length.share > 0) {
          return all.has_value() ? PartOf(length.share, *all) : length.pushes;
        }
        return length.pushes == 0 ? 0 : PartOf(1.0 / unit, static_cast<double>(length.pushes));
      },
      schedule);
  schedule->clear_in_steps();
}

void ResolveShares(uint64_t examples, const Trainers& trainers, Job* job) {
  if (!job->has_downpour()) {
    return;  // a batch job must not get an empty one
  }
  Downpour* const downpour = job->mutable_downpour();
  if (downpour->optimizer().has_schedule()) {
    ResolveShares(PushesUntilStop(*job, examples, trainers), StepsOfAPush(*job, trainers),
                  downpour->mutable_optimizer()->mutable_schedule());
  }
  if (downpour->local().inner().has_schedule()) {
    ResolveShares(InnerStepsUntilStop(*job, examples, trainers), StepsOfAnInnerStep(trainers),
                  downpour->mutable_local()->mutable_inner()->mutable_schedule());
  }
}

}  // namespace monsoon
