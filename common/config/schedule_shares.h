// How many pushes and steps a schedule sees until a job's `stop`, and schedules that are given in
// shares of that, or in steps of all replicas.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// Who trains a job, as far as is known: worker processes, and the replicas of each.
struct Trainers {
  uint32_t workers = 1;
  double replicas = 1.0;  // of a worker, in the mean
};

// Steps of all replicas together until `stop`; nothing where neither steps nor epochs of known
// length end the job.
std::optional<double> StepsUntilStop(const Job& job, uint64_t examples);

// What the schedule of `downpour.optimizer` counts until `stop`: a stripe's pushes, or rounds.
std::optional<double> PushesUntilStop(const Job& job, uint64_t examples, const Trainers& trainers);
// What that of `downpour.local.inner` counts: the steps of one worker.
std::optional<double> InnerStepsUntilStop(const Job& job, uint64_t examples,
                                          const Trainers& trainers);

// Some share is set.
bool HasShares(const Schedule& schedule);
// Shares become numbers, at least 1, of `all` pushes until `stop`, where that is known; numbers of
// steps (Schedule.in_steps) become pushes, at least 1, of which each takes `steps`.
void ResolveShares(std::optional<double> all, double steps, Schedule* schedule);
// Of both optimizers.
void ResolveShares(uint64_t examples, const Trainers& trainers, Job* job);

}  // namespace monsoon
