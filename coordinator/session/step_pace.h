// StepPace: how many local steps each worker of a job takes for a difference, so that slower
// ones push as often as the others (Liu et al. 2024, arXiv 2401.09135, dynamic local updates):
//
//   H_i = max(1, round(H v_i / v_max))
//
// H is LocalSteps.steps, v_i the steps per second that worker i makes while it computes,
// and v_max the largest of the workers with an open session. So the fastest, and one that is
// alone, takes H.
//
// A worker's number changes only when it is off by more than kTolerance: means over some 50
// steps wander by themselves, and nothing is gained by following that.
//
// Nothing of this is durable: a coordinator that is started anew learns the speeds from the
// next heartbeats, and until then a worker takes what the job says.
//
// A pure state machine: no clock, no randomness. Not thread safe.
#pragma once

#include <cstdint>
#include <map>

namespace monsoon {

class StepPace {
 public:
  // Part of a worker's number by which the exact one may differ: pushes are about equally
  // frequent then, and more is not asked for.
  static constexpr double kTolerance = 0.1;

  // `local_steps` is H, at least 1.
  explicit StepPace(uint32_t local_steps);
  // H becomes another one.
  void SetMost(uint32_t local_steps);

  // `worker`, whose session is open, computes for `step_ms` a step, in the mean. What is not
  // positive and finite tells nothing.
  void Note(uint32_t worker, double step_ms);
  // Its session is over; it counts no more for v_max.
  void Forget(uint32_t worker);
  void ForgetAll();

  // In [1, H]; 0: it has told no step time.
  uint32_t LocalSteps(uint32_t worker) const;

 private:
  struct Worker {
    double step_ms = 0;
    uint32_t steps = 0;  // 0: not chosen yet
  };
  void Choose();

  uint32_t local_steps_;
  std::map<uint32_t, Worker> workers_;
};

}  // namespace monsoon
