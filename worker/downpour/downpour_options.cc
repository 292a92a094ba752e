#include "worker/downpour/downpour_options.h"

#include <algorithm>

#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultMaxRefused = 10;
constexpr uint32_t kDefaultAwaySteps = 100;

// With an optimizer of the replica's own, which steps at each gradient.
void SetNetworksDifferences(const Downpour& downpour, DownpourRunnerOptions* options) {
  options->exchange = ExchangeKind::kDifferences;
  options->turn_steps = std::max(1u, downpour.local().steps());
  options->paced = downpour.local().dynamic();
  options->step_clip_norm = downpour.local().inner().clip_norm();
  options->landing_steps = downpour.local().landing_steps();
}

// A program takes its local steps between two calls. What a call tells is pushed as a gradient
// is, at once and whole; only where a part of it stays behind, other fragments or a share
// (mixing), does the replica itself know what has been moved and not pushed.
void SetProgramsDifferences(const Downpour& downpour, const FragmentMap& fragments,
                            DownpourRunnerOptions* options) {
  options->n_fetch = options->n_push = 1;
  if (downpour.local().has_fragments() || downpour.local().mixing() > 0) {
    options->exchange = ExchangeKind::kDifferences;
    options->turn_steps = fragments.count();
  }
  if (downpour.has_rounds() && !downpour.local().has_fragments()) {
    options->overlap = NONE;  // a program goes on from what its round made
  }
}

}  // namespace

DownpourRunnerOptions DownpourRunnerOptions::From(const Job& job, uint32_t worker,
                                                  const FragmentMap& fragments) {
  DownpourRunnerOptions options;
  const Downpour& downpour = job.downpour();
  options.away_steps = downpour.away_steps() > 0 ? downpour.away_steps() : kDefaultAwaySteps;
  options.overlap = downpour.overlap();
  options.clip_norm = downpour.optimizer().clip_norm();
  options.n_fetch = std::max(1u, downpour.n_fetch());
  options.n_push = std::max(1u, downpour.n_push());
  options.fragments = fragments;
  if (downpour.local().has_inner()) {
    SetNetworksDifferences(downpour, &options);
  } else if (downpour.local().steps() > 0) {
    SetProgramsDifferences(downpour, fragments, &options);
  }
  options.push_format = downpour.push_format();
  options.rounds = downpour.has_rounds();
  options.divergence = job.divergence();
  if (options.divergence.max_refused() == 0) {
    options.divergence.set_max_refused(kDefaultMaxRefused);
  }
  options.of_program = job.train().has_joiners();
  options.seed = job.seed();
  options.worker = worker;
  return options;
}

}  // namespace monsoon
