// Differences: the replica's own steps move its parameters, and a push is what so many of them
// made, base - local (DiLoCo: Douillard et al. 2023, arXiv 2311.08105). The fetch after a push
// brings what the shards made of it, and so waits until they have it; steps go on meanwhile.
//
// With fragments (Streaming DiLoCo: Douillard et al. 2025, arXiv 2501.18512) each push is of
// one, turn_steps / fragments steps after the one before, and so is the fetch after it. It lands
// before the next push leaves; but where the shards average pushes in rounds only before its own
// next push: workers may be at different places of their turn, and each waits for a round that
// needs the others' pushes of that fragment.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/fragment_map.h"
#include "worker/downpour/exchange.h"
#include "worker/downpour/fetch_plan.h"

namespace monsoon {

class Differences : public Exchange {
 public:
  struct Options {
    uint32_t turn_steps = 1;  // in which each fragment leaves once, at least one for each
    bool paced = false;       // the coordinator says in how many, at most turn_steps
    FragmentMap fragments;    // empty: the model is one
    bool rounds = false;      // the shards average
  };
  // `accumulator` is of differences of turn_steps. `statistics` and `plan`, which is told what
  // must be fetched, must outlive this.
  Differences(const Options& options, std::unique_ptr<MovedParameters> parameters,
              Accumulator accumulator, const StatisticsKeeper* statistics, FetchPlan* plan);

  // Where no step waits to be pushed.
  bool IsBoundary(uint64_t /*round*/) const override { return accumulator_.empty(); }
  bool awaits_push() const override { return true; }
  bool LandsBefore(uint64_t sequence, bool fetching) const override;
  absl::Status Land(Landing landing) override;

  void BeginRound(uint64_t sequence, uint32_t told) override;
  void SetTurnSteps(uint32_t turn_steps) override { options_.turn_steps = turn_steps; }
  bool takes_steps() const override { return true; }
  // A difference has a value for each parameter: none is absent.
  void EndRound(std::span<const TensorSlice> absent) override;
  absl::Status EndUnusableRound(const std::string& where) override;

  bool drained() const override { return accumulator_.empty() && unpushed_ == 0; }
  absl::StatusOr<Accumulation> Seal(uint64_t sequence) override;
  void Refuse(uint64_t sequence) override;

 private:
  // The steps of the push with that sequence.
  uint32_t StepsOf(uint64_t sequence, uint64_t turn_steps) const;
  // All fragments are to have so many steps more.
  void Want(uint32_t steps);
  // The push with that sequence leaves: which part of a whole difference it is.
  float TakePart(uint64_t sequence);
  // Floats of other fragments become zero.
  void ClearOthers(uint32_t fragment, std::span<float> difference) const;
  // What the steps made of the parameters since the last push is not what anybody wants.
  void GiveUp();

  Options options_;
  MovedParameters* const moved_;  // parameters()
  FetchPlan* const plan_;
  uint32_t unpushed_ = 0;  // pushes until all fragments have all steps
  // Of each fragment since its last push: the steps that were to be taken, and those that were.
  struct Steps {
    uint64_t wanted = 0;
    uint64_t taken = 0;
  };
  std::vector<Steps> steps_;
  uint32_t turn_ = 1;  // that the accumulation which is open began with
};

}  // namespace monsoon
