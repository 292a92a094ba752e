#include "common/collective/plan.h"

#include <utility>

namespace monsoon {

PlanBuilder::PlanBuilder(const Collective& collective, uint32_t rank, uint32_t members) {
  plan_.collective = collective;
  plan_.rank = rank;
  plan_.members = members;
  plan_.sends.resize(members);
  plan_.receives.resize(members);
}

StepId PlanBuilder::Add(Step step, std::span<const StepId> after) {
  const auto id = static_cast<StepId>(plan_.steps.size());
  for (const StepId before : after) {
    if (before != kNoStep) {
      edges_.push_back({before, id});
      ++step.waits;
    }
  }
  plan_.steps.push_back(step);
  return id;
}

StepId PlanBuilder::Send(uint32_t peer, StepRange range, std::span<const StepId> after) {
  Step step;
  step.kind = Step::Kind::kSend;
  step.peer = peer;
  step.range = range;
  step.index = static_cast<uint32_t>(plan_.sends[peer].size());
  plan_.sends[peer].push_back(static_cast<StepId>(plan_.steps.size()));
  return Add(step, after);
}

StepId PlanBuilder::Receive(uint32_t peer, StepRange range, bool add,
                            std::span<const StepId> after) {
  Step step;
  step.kind = add ? Step::Kind::kReceiveAdd : Step::Kind::kReceiveCopy;
  step.peer = peer;
  step.range = range;
  step.index = static_cast<uint32_t>(plan_.receives[peer].size());
  plan_.receives[peer].push_back(static_cast<StepId>(plan_.steps.size()));
  return Add(step, after);
}

StepId PlanBuilder::Sum(StepRange range, std::span<const StepRange> operands,
                        std::span<const StepId> after) {
  Step step;
  step.kind = Step::Kind::kSum;
  step.range = range;
  step.first_operand = static_cast<uint32_t>(plan_.operands.size());
  step.operands = static_cast<uint32_t>(operands.size());
  plan_.operands.insert(plan_.operands.end(), operands.begin(), operands.end());
  return Add(step, after);
}

size_t PlanBuilder::Scratch(size_t floats) {
  return std::exchange(plan_.scratch_floats, plan_.scratch_floats + floats);
}

Plan PlanBuilder::Finish() && {
  for (const Edge& edge : edges_) {
    ++plan_.steps[edge.before].waiting;
  }
  uint32_t first = 0;
  for (Step& step : plan_.steps) {
    step.first_waiting = first;
    first += std::exchange(step.waiting, 0);
  }
  plan_.waiting.resize(edges_.size());
  for (const Edge& edge : edges_) {
    Step& before = plan_.steps[edge.before];
    plan_.waiting[before.first_waiting + before.waiting++] = edge.after;
  }
  return std::move(plan_);
}

}  // namespace monsoon
