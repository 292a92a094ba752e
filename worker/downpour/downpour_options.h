// DownpourRunnerOptions: what of a job's settings concerns one replica's steps, each setting
// with one meaning.
#pragma once

#include <cstdint>

#include "common/model/fragment_map.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/wire_format.pb.h"

namespace monsoon {

// What a replica's pushes carry (exchange.h). A new kind is a file pair and a line in
// MakeExchange.
enum class ExchangeKind {
  kGradients,    // sums of gradients, which the shards' optimizer applies
  kDifferences,  // what steps of the replica's own have moved its parameters by
};

struct DownpourRunnerOptions {
  ExchangeKind exchange = ExchangeKind::kGradients;
  uint32_t away_steps = 100;
  Overlap overlap = ASYNC;
  double clip_norm = 0.0;  // of a push

  // Of gradients, in rounds.
  uint32_t n_fetch = 1;
  uint32_t n_push = 1;

  // Of differences: the runner's steps in which each fragment leaves once, at least one for
  // each. The local_steps of a network; a program takes those between two calls, so that each
  // of its calls is a step here, and a push.
  uint32_t turn_steps = 1;
  bool paced = false;           // the coordinator says in how many, at most turn_steps
  FragmentMap fragments;        // empty: the model is one
  uint32_t landing_steps = 0;   // after a push; 0: as soon as it is there
  double step_clip_norm = 0.0;  // of each step's gradient

  WireFormat push_format = FLOAT32;
  // A program's vectors are of BFLOAT16, and so is all that is pushed and fetched: there are half
  // as many floats as the layout has.
  bool halves = false;
  DivergencePolicy divergence;
  bool of_program = false;  // whose state is its own, and not the job's to judge
  bool rounds = false;      // the shards average what is pushed
  uint64_t seed = 0;
  uint32_t worker = 0;
  uint64_t settings_revision = 0;  // of those that were taken from SessionControl

  static DownpourRunnerOptions From(const Job& job, uint32_t worker,
                                    const FragmentMap& fragments = {});
};

}  // namespace monsoon
