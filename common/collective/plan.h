// Plan: what one member does in a collective, as steps that wait for each other. It knows no
// values, threads or time; PlanRun (plan_run.h) carries it out.
//
// The i-th frame that one member sends to another is the i-th that the other has a step for, so a
// frame needs no other address than its index. Plans of all members are made of the same
// Collective, and their frames have an order in which each can be sent, taken and forgotten before
// the next: with any window of at least one frame there is no deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/collective/collective.h"

namespace monsoon {

// Floats of the caller's vector, or of memory that belongs to the run.
struct StepRange {
  bool scratch = false;
  size_t offset = 0;
  size_t count = 0;
};

struct Step {
  enum class Kind : uint8_t {
    kSend,         // `range` to `peer`; ends when the peer has it
    kReceiveCopy,  // what comes from `peer` becomes `range`
    kReceiveAdd,   // `range` = what comes from `peer` + `range`
    kSum,          // `range` = the sum of `operands`, from the first to the last
  };
  Kind kind = Kind::kSend;
  uint32_t peer = 0;
  uint32_t index = 0;  // among the sends to, or the receives from, `peer`
  StepRange range;
  // Ranges of Plan::operands, as long as `range`; only offset and scratch of them count.
  uint32_t first_operand = 0;
  uint32_t operands = 0;
  uint32_t waits = 0;  // for so many steps
  // Those that wait for this one, of Plan::waiting.
  uint32_t first_waiting = 0;
  uint32_t waiting = 0;
};

using StepId = uint32_t;
inline constexpr StepId kNoStep = UINT32_MAX;

struct Plan {
  Collective collective;
  uint32_t rank = 0;
  uint32_t members = 0;
  std::vector<Step> steps;
  std::vector<StepId> waiting;
  std::vector<StepRange> operands;
  size_t scratch_floats = 0;
  // Per peer, in the order of their indices.
  std::vector<std::vector<StepId>> sends, receives;
};

// Adds steps in the order of their indices.
class PlanBuilder {
 public:
  PlanBuilder(const Collective& collective, uint32_t rank, uint32_t members);

  // `after`: steps that end before this one begins; kNoStep is none.
  StepId Send(uint32_t peer, StepRange range, std::span<const StepId> after);
  StepId Receive(uint32_t peer, StepRange range, bool add, std::span<const StepId> after);
  StepId Sum(StepRange range, std::span<const StepRange> operands, std::span<const StepId> after);
  // Offset of so many floats of scratch.
  size_t Scratch(size_t floats);

  Plan Finish() &&;

 private:
  StepId Add(Step step, std::span<const StepId> after);

  struct Edge {
    StepId before;
    StepId after;
  };
  Plan plan_;
  std::vector<Edge> edges_;
};

// The plan of one member of 1 or more. `collective` has no kAuto and fits the operation, as
// CheckCollective says.
Plan MakePlan(const Collective& collective, uint32_t rank, uint32_t members);

// The algorithm that carries an operation out where `wanted` is none of its own: broadcasts go by
// kTree, all-gather and reduce-scatter by kRing or kDirect, a sum by rank of the latter by kDirect.
Algorithm AlgorithmFor(Operation operation, SumOrder order, Algorithm wanted);

}  // namespace monsoon
