#include <algorithm>

#include "worker/downpour/downpour_runner.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultMaxRefused = 10;
constexpr uint32_t kDefaultAwaySteps = 100;

}  // namespace

DownpourRunnerOptions DownpourRunnerOptions::From(const Job& job, uint32_t worker,
                                                  const FragmentMap& fragments) {
  DownpourRunnerOptions options;
  const Downpour& downpour = job.downpour();
  options.n_fetch = std::max(1u, downpour.n_fetch());
  options.n_push = std::max(1u, downpour.n_push());
  options.away_steps = downpour.away_steps() > 0 ? downpour.away_steps() : kDefaultAwaySteps;
  options.overlap = downpour.overlap();
  options.clip_norm = downpour.optimizer().clip_norm();
  if (downpour.has_inner()) {
    options.local_steps = std::max(1u, downpour.local_steps());
    options.n_fetch = options.n_push = options.local_steps;
    options.dynamic_local_steps = downpour.dynamic_local_steps();
    options.step_clip_norm = downpour.inner().clip_norm();
    options.landing_steps = downpour.landing_steps();
  } else if (downpour.has_fragments() || downpour.mixing() > 0) {
    // A program's step is what so many of its own made; each takes a push.
    options.local_steps = fragments.count();
  }
  options.fragments = fragments;
  options.push_format = downpour.push_format();
  options.rounds = downpour.has_rounds();
  if (options.rounds && !downpour.has_inner() && !downpour.has_fragments()) {
    options.overlap = NONE;  // a program goes on from what its round made
  }
  options.divergence = job.divergence();
  if (options.divergence.max_refused() == 0) {
    options.divergence.set_max_refused(kDefaultMaxRefused);
  }
  options.seed = job.seed();
  options.worker = worker;
  return options;
}

}  // namespace monsoon
