// PlanRun: one member's plan, being carried out. Says which steps may begin and is told which have
// ended; moves no floats itself.
//
// Not thread safe; no threads, clocks or transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/collective/plan.h"
#include "common/memory/aligned_floats.h"

namespace monsoon {

class PlanRun {
 public:
  // `plan` and `vector` (Collective::count floats) outlive the run, or the next Start.
  void Start(const Plan* plan, std::span<float> vector);
  // Nothing is going on.
  void Stop() { plan_ = nullptr; }

  const Plan* plan() const { return plan_; }
  bool active() const { return plan_ != nullptr; }
  bool finished() const { return left_ == 0; }
  const Step& step(StepId id) const { return plan_->steps[id]; }

  // The next send to `peer`, if it may begin; a peer's sends begin in order. Begin(id) takes it.
  std::optional<StepId> NextSend(uint32_t peer) const;
  // The next sum that may begin, which then has.
  std::optional<StepId> NextSum();
  // Whether the peer's `index`-th receive may begin.
  bool MayReceive(uint32_t peer, uint32_t index) const;
  StepId ReceiveAt(uint32_t peer, uint32_t index) const { return plan_->receives[peer][index]; }

  void Begin(StepId id);
  // A step that has begun. True: others may begin now, or all is done.
  bool End(StepId id);

  // Whether frames to or from `peer` are still to come. O(steps).
  bool Needs(uint32_t peer) const;

  // Whether a step that has begun after `id`, a send, overwrites what it sends: then its peer has
  // had it. O(steps); for the rare frame that is sent again.
  bool IsOverwritten(StepId id) const;

  // The first receive, in the plan's order, that has not begun and whose frame has not come
  // (`has_come`); or else the first send that has not ended.
  std::optional<StepId> FirstMissing(absl::FunctionRef<bool(const Step&)> has_come) const;
  bool begun(StepId id) const { return states_[id] != State::kWaits; }

  std::span<float> floats(const StepRange& range);

 private:
  enum class State : uint8_t { kWaits, kBegun, kEnded };

  const Plan* plan_ = nullptr;
  std::span<float> vector_;
  AlignedFloats scratch_;
  std::vector<State> states_;
  std::vector<uint32_t> waits_;  // for so many steps
  std::vector<size_t> next_send_;
  std::deque<StepId> sums_;  // that may begin
  size_t left_ = 0;          // steps that have not ended
};

}  // namespace monsoon
