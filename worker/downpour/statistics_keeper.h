// StatisticsKeeper: what a push brings of a model's statistics, as the running means of
// batch_norm, and what a replica's own become when parameters land.
//
// Statistics are no gradients: a step says what is to be subtracted from them
// (ModelTensor.STATISTIC). A round counts their mean over its replicas. A push brings values:
// those that this replica has, where steps move its parameters, or else the mean of those that
// its rounds would come to. Where the shards average pushes, or pushes leave values out, it
// brings differences, and of rounds that nothing moves them between the mean.
//
// Vectors are of the host's memory, with as many floats as the layout: no device is used where
// a network of ours has statistics.
//
// Thread safety: MeanOfPush and parts may be called by any thread; all else belongs to one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"

namespace monsoon {

class StatisticsKeeper {
 public:
  struct Options {
    bool values = true;         // shards take values from pushes, and not differences alone
    bool local_update = false;  // a LocalUpdater moves the replica's parameters at each step
  };
  StatisticsKeeper(const ParameterLayout& layout, const Options& options);

  // Where they lie, ascending.
  const std::vector<Slice>& parts() const { return parts_; }
  // There are some, of a network of ours; a program moves its own.
  bool of_network() const { return of_network_; }

  // `gradient` is the sum over so many batches of a round.
  void MeanOfRound(std::span<float> gradient, size_t batches) const;
  // A round is over, in which `gradient` was computed at `front`.
  void TakeStep(std::span<float> front, std::span<float> gradient) const;

  // A push is to leave with the steps made so far; parameters may land before it does.
  void KeepForPush(std::span<const float> front);
  // The push leaves.
  void WriteTo(std::span<float> gradient, std::span<const float> front) const;
  // What it brings is the sum over so many steps.
  void MeanOfPush(std::span<float> gradient, uint32_t steps) const;

  // The statistics of `w`, one after another; empty where landings leave them as they are.
  std::vector<float> Landing(std::span<const float> w) const;
  // A local update has added what this replica moved since to what was fetched (Landing before
  // that), which may be beyond what either has. What it has changed becomes the mean of both.
  // `local` is what the replica had; empty: nothing that is to be kept.
  void LandUpdated(std::span<const float> fetched, std::span<const float> local,
                   std::span<float> w) const;
  // Parameters have landed between two steps of a push: a program's statistics, of which the
  // shards know nothing yet, become the mean of both.
  void LandOpen(std::span<const float> local, std::span<float> w) const;

 private:
  enum class Push {
    kDifferences,  // what is to be subtracted, as it is
    kOfRounds,     // what the push's rounds would come to; nothing moves them in between
    kOfProgram,    // what the program has, which each of its steps moves
    kOfReplica,    // what the local update has made of them
  };

  std::vector<float> Values(std::span<const float> w) const;
  void Land(std::span<const float> fetched, std::span<const float> local, bool all,
            std::span<float> w) const;

  const std::vector<Slice> parts_;
  const bool of_network_;
  const bool mean_of_steps_;
  const Push push_;
  std::vector<float> kept_;
};

}  // namespace monsoon
