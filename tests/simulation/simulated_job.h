// MakeJob: the job of a simulated cluster, which the seed picks from all that jobs may have.
//
// Left out are models of tables.
#pragma once

#include <array>
#include <cstdint>

#include "tests/simulation/world.h"

namespace monsoon::simulation {

inline constexpr uint32_t kStripes = 2;  // of a shard
inline constexpr uint32_t kBlock = 20;   // examples

// What not every job has.
enum class Feature {
  kCounting,
  kLongFetch,
  kLongPush,
  kNoOverlap,
  kRoughPushes,  // their format rounds
  kLocalSteps,
  kRounds,
  kQuorum,
  kFragments,
  kLanding,
  kChanges,
  kMemoryOnly,
  kTestSet,
  kWarmstart,
  kBatch,
  kChain,  // Downpour SGD, then a batch
  kProgram,
  kProgramSteps,  // local ones
  kFinish,        // a program ends it
  kBound,         // on staleness
  kCount,
};
extern const std::array<const char*, static_cast<size_t>(Feature::kCount)> kFeatureNames;

// For the cluster of `world`, whose shards are there. `in_rounds`: one that trains in rounds, and
// keeps checkpoints.
void MakeJob(World* world, bool in_rounds);
// By name, of its plan.
bool HasFeature(const World& world, Feature feature);

}  // namespace monsoon::simulation
