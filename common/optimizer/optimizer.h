// OptimizerKernel: what one gradient does to a range of parameters. The shards
// apply pushes with it, and the one-process trainer applies its own gradients,
// so both have the same arithmetic.
//
// All parameters of the range are updated independently in float32, by
//   g' = clamp(g, -clip_value, clip_value) + weight_decay * w
// and what the optimizer's rule makes of g' (optimizer_rules.h), with the rate at push k,
// rate(k) = rate * ScheduleFactor(k); average.h is about an average of that. optimizer_kinds.h
// has the table of all kinds. Padding stays zero: w = g = 0 gives w = 0.
//
// The loops run with the SIMD instructions of the machine (simd_level.h). The
// result's bits depend neither on these, nor on how a vector is cut into
// ranges, nor on their alignment. So one push may be applied piece by piece, as
// its gradient arrives and still lies in the second-level cache: call Apply for
// each piece with the same k.
//
// Thread safety: immutable; calls on disjoint ranges may run at once. Locking
// of `w` and `state` is the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer_state.h"
#include "common/optimizer/optimizer_step.h"
#include "common/optimizer/rate_reductions.h"

namespace monsoon {

class Optimizer;

// Which of a job's pushes it is. A schedule of rates goes by all of them; what an optimizer counts
// of its own steps (Adam's corrections, the period of a Nesterov, the weights of an average) leaves
// out those that had no gradient of its parameters.
struct PushNumber {
  // A number is that of a push whose earlier ones all had gradients.
  PushNumber(uint64_t number, uint64_t without = 0) : push(number), absent(without) {}
  uint64_t push;    // 0 is the first
  uint64_t absent;  // of those before it, so many had no gradient of the parameters
  uint64_t step() const { return push - absent; }
};

// What a push counts whose base was so many versions old, below 0: not known.
double DampingFactor(double damping, int64_t staleness);

class OptimizerKernel {
 public:
  // InvalidArgument names the field: no kind set, a rate that is not positive
  // and finite, a momentum outside [0, 1), ... a muon, which parameters by themselves have nothing
  // for (CreateRangeKernel). `reductions` as in RateSchedule.
  static absl::StatusOr<std::unique_ptr<OptimizerKernel>> Create(
      const Optimizer& optimizer, std::shared_ptr<const RateReductions> reductions = nullptr);

  virtual ~OptimizerKernel() = default;

  // Floats of state kept per parameter: at most kMaxStateSlots.
  virtual int state_slots() const = 0;

  // What the state starts with, in each slot.
  virtual float initial_state() const { return 0.0f; }

  // Applies push number `k` (0 is the first). w and g have the same length, which `state`
  // is of. The three do not overlap. g is finite.
  virtual void Apply(PushNumber k, std::span<float> w, OptimizerState state,
                     std::span<const float> g) const = 0;

  // Apply, of scale * g, but for statistics, which are no gradients.
  virtual void ApplyScaled(PushNumber k, std::span<float> w, OptimizerState state,
                           std::span<const float> g, float scale) const;

  // How a push counts.
  struct PushTerms {
    float scale = 1;  // of the gradient
    // Of a difference that ends early, in (0, 1]: its share of the steps of a whole one.
    float part = 1;
    // Of statistics g holds the values that the replica has, and w goes towards them by `share`, in
    // (0, 1]; else, unless `values`, what is to be subtracted from them, of which w loses that
    // share.
    float share = 1;
    bool values = true;
  };
  // A replica's push: Apply, of scale * g. A part p of a difference goes p of the way of the step
  // that Apply makes of g / p, in w and in the state: what is left of earlier pushes, a momentum
  // above all, moves w by no more than so many steps are worth. For SGD it is g, as it is.
  virtual void ApplyPush(PushNumber k, std::span<float> w, OptimizerState state,
                         std::span<const float> g, const PushTerms& terms) const;

  // Parameters [begin, end) of w, of which `absent` earlier pushes had no gradient.
  struct PushPart {
    size_t begin = 0;
    size_t end = 0;
    uint64_t absent = 0;
  };
  // ApplyPush of these parts alone, which rise and do not overlap: the rest of w, and its state,
  // stays as it is. `k` counts all pushes.
  void ApplyPushTo(std::span<const PushPart> parts, uint64_t k, std::span<float> w,
                   OptimizerState state, std::span<const float> g, const PushTerms& terms) const;

  // Apply, in the same pass telling how far each w moved: `moved`, of the same
  // length, is set to that if `fresh` and what it held is not read; else that is
  // added to it.
  virtual void ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                            std::span<const float> g, std::span<float> moved, bool fresh) const = 0;

  // What Apply(k, ...) does to each parameter; nothing where that is not one such step for all.
  virtual std::optional<OptimizerStep> StepAt(uint64_t k) const { return std::nullopt; }

 protected:
  // ApplyPush of parameters [begin, end) of w, which `k` is of.
  virtual void ApplyPushWithin(size_t begin, size_t end, PushNumber k, std::span<float> w,
                               OptimizerState state, std::span<const float> g,
                               const PushTerms& terms) const;

 private:
  void ApplyPart(PushNumber k, std::span<float> w, OptimizerState state, std::span<const float> g,
                 const PushTerms& terms) const;
};

}  // namespace monsoon
