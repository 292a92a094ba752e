#include "worker/nn/buffer_plan.h"

#include <algorithm>
#include <cstddef>

namespace monsoon {
namespace {

// Hands out the lowest number that is free.
class Numbers {
 public:
  int Take() {
    const auto found = std::ranges::find(taken_, false);
    const auto number = found - taken_.begin();
    if (found == taken_.end()) {
      taken_.push_back(true);
    } else {
      *found = true;
    }
    return static_cast<int>(number);
  }
  void Free(int number) {
    if (number != kNoBuffer) {
      taken_[static_cast<size_t>(number)] = false;
    }
  }
  int count() const { return static_cast<int>(taken_.size()); }

 private:
  std::vector<bool> taken_;
};

bool IsInPlace(const std::vector<bool>& in_place, size_t layer) {
  return !in_place.empty() && in_place[layer];
}

void PlanValues(const std::vector<LayerPlan>& layers, const std::vector<bool>& in_place,
                BufferPlan* plan) {
  std::vector<size_t> last_use(layers.size() + 1, 0);
  last_use.back() = layers.size();
  for (size_t i = layers.size(); i-- > 0;) {
    for (const ValueIndex input : layers[i].inputs) {
      last_use[input] = std::max(last_use[input], IsInPlace(in_place, i) ? last_use[i + 1] : i);
    }
  }
  Numbers numbers;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (IsInPlace(in_place, i)) {
      plan->value[i + 1] = plan->value[layers[i].inputs.front()];
    } else {
      plan->value[i + 1] = numbers.Take();
    }
    for (ValueIndex value = 1; value <= i; ++value) {
      const bool goes_on = value == layers[i].inputs.front() && IsInPlace(in_place, i);
      if (last_use[value] == i && !goes_on) {
        numbers.Free(plan->value[value]);
      }
    }
  }
  plan->value_buffers = numbers.count();
}

// Whether the gradient of each value is needed.
std::vector<bool> FindNeeded(const std::vector<LayerPlan>& layers) {
  std::vector<bool> needed(layers.size() + 1, false);
  for (size_t i = 0; i < layers.size(); ++i) {
    needed[i + 1] =
        !layers[i].tensors.empty() ||
        std::ranges::any_of(layers[i].inputs, [&](ValueIndex input) { return needed[input]; });
  }
  return needed;
}

void PlanGradients(const std::vector<LayerPlan>& layers, const std::vector<bool>& in_place,
                   BufferPlan* plan) {
  const std::vector<bool> needed = FindNeeded(layers);
  Numbers numbers;
  if (needed.back()) {
    plan->gradient.back() = numbers.Take();
  }
  for (size_t i = layers.size(); i-- > 0;) {
    if (IsInPlace(in_place, i)) {
      plan->gradient[layers[i].inputs.front()] =
          needed[layers[i].inputs.front()] ? plan->gradient[i + 1] : kNoBuffer;
      continue;
    }
    for (size_t j = 0; j < layers[i].inputs.size(); ++j) {
      const ValueIndex input = layers[i].inputs[j];
      if (!needed[input] || plan->gradient[i + 1] == kNoBuffer) {
        continue;
      }
      if (plan->gradient[input] == kNoBuffer) {
        plan->gradient[input] = numbers.Take();
      } else {
        plan->adds[i][j] = true;
      }
    }
    numbers.Free(plan->gradient[i + 1]);
  }
  plan->gradient_buffers = numbers.count();
}

}  // namespace

BufferPlan PlanBuffers(const std::vector<LayerPlan>& layers, const std::vector<bool>& in_place) {
  BufferPlan plan;
  plan.value.assign(layers.size() + 1, kNoBuffer);
  plan.gradient.assign(layers.size() + 1, kNoBuffer);
  for (const LayerPlan& layer : layers) {
    plan.adds.emplace_back(layer.inputs.size(), false);
  }
  PlanValues(layers, in_place, &plan);
  PlanGradients(layers, in_place, &plan);
  return plan;
}

std::vector<int> CountUses(const std::vector<LayerPlan>& layers) {
  std::vector<int> uses(layers.size() + 1, 0);
  ++uses.back();
  for (const LayerPlan& layer : layers) {
    for (const ValueIndex input : layer.inputs) {
      ++uses[input];
    }
  }
  return uses;
}

}  // namespace monsoon
