#include "common/collective/plan_run.h"

#include "common/base/check.h"

namespace monsoon {

void PlanRun::Start(const Plan* plan, std::span<float> vector) {
  CHECK_EQ(vector.size(), plan->collective.count);
  plan_ = plan;
  vector_ = vector;
  if (scratch_.size() < plan->scratch_floats) {
    scratch_ = AlignedFloats::Uninitialized(plan->scratch_floats);
  }
  left_ = plan->steps.size();
  states_.assign(left_, State::kWaits);
  waits_.resize(left_);
  sums_.clear();
  for (StepId id = 0; id < plan->steps.size(); ++id) {
    const Step& step = plan->steps[id];
    waits_[id] = step.waits;
    if (step.kind == Step::Kind::kSum && step.waits == 0) {
      sums_.push_back(id);
    }
  }
  next_send_.assign(plan->members, 0);
}

std::optional<StepId> PlanRun::NextSend(uint32_t peer) const {
  const std::vector<StepId>& sends = plan_->sends[peer];
  if (next_send_[peer] == sends.size() || waits_[sends[next_send_[peer]]] > 0) {
    return std::nullopt;
  }
  return sends[next_send_[peer]];
}

std::optional<StepId> PlanRun::NextSum() {
  if (sums_.empty()) {
    return std::nullopt;
  }
  const StepId id = sums_.front();
  sums_.pop_front();
  states_[id] = State::kBegun;
  return id;
}

bool PlanRun::MayReceive(uint32_t peer, uint32_t index) const {
  return waits_[ReceiveAt(peer, index)] == 0;
}

void PlanRun::Begin(StepId id) {
  CHECK(states_[id] == State::kWaits && waits_[id] == 0);
  states_[id] = State::kBegun;
  if (step(id).kind == Step::Kind::kSend) {
    ++next_send_[step(id).peer];
  }
}

bool PlanRun::End(StepId id) {
  CHECK(states_[id] == State::kBegun);
  states_[id] = State::kEnded;
  --left_;
  bool more = left_ == 0;
  const Step& ended = step(id);
  for (const StepId next : std::span(plan_->waiting).subspan(ended.first_waiting, ended.waiting)) {
    if (--waits_[next] == 0) {
      more = true;
      if (step(next).kind == Step::Kind::kSum) {
        sums_.push_back(next);
      }
    }
  }
  return more;
}

bool PlanRun::Needs(uint32_t peer) const {
  for (StepId id = 0; id < plan_->steps.size(); ++id) {
    if (states_[id] != State::kEnded && step(id).peer == peer &&
        step(id).kind != Step::Kind::kSum) {
      return true;
    }
  }
  return false;
}

bool PlanRun::IsOverwritten(StepId id) const {
  const StepRange& sent = step(id).range;
  for (StepId other = id + 1; other < plan_->steps.size(); ++other) {
    const Step& step = plan_->steps[other];
    if (step.kind != Step::Kind::kSend && states_[other] != State::kWaits &&
        step.range.scratch == sent.scratch && step.range.offset < sent.offset + sent.count &&
        sent.offset < step.range.offset + step.range.count) {
      return true;
    }
  }
  return false;
}

std::optional<StepId> PlanRun::FirstMissing(absl::FunctionRef<bool(const Step&)> has_come) const {
  std::optional<StepId> other;
  for (StepId id = 0; id < plan_->steps.size(); ++id) {
    const Step::Kind kind = step(id).kind;
    const bool receives = kind == Step::Kind::kReceiveCopy || kind == Step::Kind::kReceiveAdd;
    if (receives && states_[id] == State::kWaits && !has_come(step(id))) {
      return id;
    }
    if (!other.has_value() && kind == Step::Kind::kSend && states_[id] != State::kEnded) {
      other = id;
    }
  }
  return other;
}

std::span<float> PlanRun::floats(const StepRange& range) {
  const std::span<float> memory = range.scratch ? scratch_.span() : vector_;
  return memory.subspan(range.offset, range.count);
}

}  // namespace monsoon
