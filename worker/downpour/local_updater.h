// LocalUpdater: moves the replica's own copy of the parameters between fetches
// (local_update of the job), and after a fetch puts its own newer gradients
// back on top, exactly once.
//
// Each step's displacement d is -rate(k) * g (SGD) or -rate(k) * g / (sqrt(h) +
// eps) with the replica's own h (Adagrad). rate(k) follows the schedule of the
// job's optimizer, with k the newest version that a fetch brought and the own
// pushes since: a warm-up that only the shards kept would have each replica
// compute its first gradients far from where the shards are, and Adagrad would
// remember them for good. Displacements are summed per push. A
// fetched stripe tells the last sequence of this session that it has applied;
// the displacements of later pushes, and of the steps not pushed yet, are added
// to it. So no own gradient is missed or counted twice, and h sees each once.
//
// With `inner` the step is that of any optimizer, whose state and whose k
// count the replica's own steps, and what a push carries is the displacement itself, the
// other way round: base - local of the steps since the last push (Douillard et al. 2023,
// arXiv 2311.08105). A fetch lands as local = landed + (local - snapshot), or with mixing as
// mixing * local + (1 - mixing) * landed, and what is left of local - landed is part of the next
// push. With fragments (Douillard et al. 2025, arXiv 2501.18512) a push takes what the steps moved
// of one, and a fetch of one lands there alone.
//
// With a `muon` in `inner` a step moves whole matrices (common/optimizer/muon.h), on the host and
// in the thread that calls: what comes of them is this class's affair as of any optimizer.
//
// All vectors lie at one place, the host's memory or the device that computes: spans of
// parameters and gradients are of that place.
//
// Memory: the vector's size for h, for the open push, and for each push that was not acknowledged
// when the fetch in flight began. A muon takes its own with the first step (MuonScratch).
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/fragment_map.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/tensor_ranges.h"
#include "ps_server/client/parameter_client.h"
#include "worker/nn/vector_place.h"

namespace monsoon {

class Downpour;
class Model;

class LocalUpdater {
 public:
  // Null where nothing moves the replica's own copy. A program's local_steps, which have no
  // `inner`, have been taken already: its step is what they moved it by, with a rate of 1 and no
  // schedule. InvalidArgument for a rate that is not positive and finite. Of `statistics`
  // (StatisticRanges) a step subtracts the gradient as it is, as the shards do; with some the place
  // must be the host's. `biases` (BiasRanges) are those of an inner optimizer that spares them its
  // decay. `fragments` are of the map; of one that is empty all is one.
  static absl::StatusOr<std::unique_ptr<LocalUpdater>> Create(const Downpour& downpour,
                                                              const ShardMap& map,
                                                              const TensorRanges& tensors = {},
                                                              const FragmentMap& fragments = {});
  // What Create is to know of the tensors of `model`, which `layout` is of.
  static TensorRanges TensorsOf(const Downpour& downpour, const Model& model,
                                const ParameterLayout& layout);

  // The rates of `downpour`, of the same kinds of optimizers, from the next Step on; the state, and
  // where a schedule stands, stay. InvalidArgument as of Create, and nothing changes.
  absl::Status TakeRates(const Downpour& downpour);

  // An inner optimizer's schedule goes on after so many steps that others made before this
  // session. Before the first Step.
  void GoOnAfter(uint64_t steps);

  // Where the vectors are to lie, at first and with null in the host's memory; before the first
  // Step. `place` outlives this. All as before after ResourceExhausted, where there is no room,
  // and Unimplemented, where the optimizer has no step for a device (StepAt: it has groups, or a
  // muon), and with fragments or mixing.
  absl::Status MoveTo(VectorPlace* place);

  // One step's gradient: moves `w` and remembers the displacement.
  void Step(std::span<const float> gradient, std::span<float> w);

  // What the steps moved the parameters by, since the last Seal of each stripe.
  std::span<const float> moved() { return MutableMoved(); }
  // The steps since the last Seal are given up, and an inner optimizer begins anew, its schedule
  // goes on: what they moved is not what anybody wants. The parameters are the caller's to fetch
  // again.
  void Restart();

  // The steps since the last Seal leave as the push with this sequence, of its fragment those
  // since the last Seal of that. ResourceExhausted
  // where the place has no room to remember another one: the session cannot go on.
  absl::Status Seal(uint64_t sequence);

  // That push was refused and moves nothing on the shards.
  void Drop(uint64_t sequence);

  // All shards have that push: a fetch that starts later contains it.
  void Acknowledge(uint64_t sequence);
  // No fetch is in flight that started before now: acknowledged pushes are
  // forgotten.
  void ForgetAcknowledged();

  // `w` was fetched with `marks`: adds what it does not contain yet, and
  // forgets what all stripes have. Marks of a stripe never go back. `fragment`: only its stripes
  // were fetched; the marks of others are those of their last fetch. `local` is what the
  // parameters were until now, for mixing; empty: nothing that is to be kept.
  void Rebase(const FetchMarks& marks, std::span<float> w, std::span<const float> local = {},
              std::optional<uint32_t> fragment = {});

  // Sealed pushes kept.
  size_t pending() const { return pending_.size(); }

 private:
  using Floats = std::unique_ptr<PlacedFloats>;
  struct Pending {
    uint64_t sequence = 0;
    bool acknowledged = false;
    Floats displacement;
  };

  // By the rates of a Downpour, with a schedule that goes on after so many steps.
  using MakeKernel = std::function<absl::StatusOr<std::unique_ptr<OptimizerKernel>>(
      const Downpour& downpour, uint64_t steps_before)>;

  LocalUpdater(std::unique_ptr<OptimizerKernel> kernel, const ShardMap& map,
               const FragmentMap& fragments, double mixing);
  // The kernel, and who makes it anew.
  static absl::StatusOr<std::unique_ptr<LocalUpdater>> CreateWith(const Downpour& downpour,
                                                                  const ShardMap& map,
                                                                  const FragmentMap& fragments,
                                                                  const MakeKernel& make);
  bool IsOf(uint64_t push, uint32_t shard, uint32_t stripe) const {
    return fragments_.whole() || fragments_.Of(shard, stripe) == fragments_.OfPush(push);
  }
  std::vector<Slice> Slices(std::optional<uint32_t> fragment) const {
    return fragment.has_value() ? fragments_.Slices(*fragment)
                                : std::vector<Slice>{{0, map_.size()}};
  }
  std::span<float> MutableMoved();
  absl::StatusOr<Floats> TakeBuffer();
  // Adds what the stripes of `marks` do not contain of it.
  void AddPending(const Pending& push, const FetchMarks& marks, std::span<float> w);

  std::unique_ptr<OptimizerKernel> kernel_;
  MakeKernel make_kernel_;
  std::shared_ptr<const Downpour> rates_;  // that the kernel has
  bool inner_ = false;                     // an optimizer of the replica's own steps
  const ShardMap map_;
  const FragmentMap fragments_;
  const float mixing_;
  HostPlace host_;
  VectorPlace* place_ = &host_;
  Floats state_;
  Floats open_;  // displacement of the steps not sealed yet, of each fragment its own
  bool open_empty_ = true;
  std::deque<Pending> pending_;  // sequences ascend
  uint64_t version_ = 0;         // newest fetched, and own pushes since
  uint64_t steps_ = 0;           // since the state began
  uint64_t before_ = 0;          // those before that, which an inner schedule goes on after
  std::vector<Floats> free_;
};

}  // namespace monsoon
