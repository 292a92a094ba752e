#include "common/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/optimizer/average.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/step_kernel.h"

namespace monsoon {
namespace {

// Of a gradient that is scaled on its way: they stay in the first cache.
constexpr size_t kScaledFloats = 2048;

}  // namespace

void OptimizerKernel::ApplyScaled(PushNumber k, std::span<float> w, OptimizerState state,
                                  std::span<const float> g, float scale) const {
  std::array<float, kScaledFloats> scaled;
  for (size_t begin = 0; begin < w.size(); begin += kScaledFloats) {
    const size_t size = std::min(kScaledFloats, w.size() - begin);
    for (size_t i = 0; i < size; ++i) {
      scaled[i] = scale * g[begin + i];
    }
    Apply(k, w.subspan(begin, size), state.Part(begin, size, w.size()), {scaled.data(), size});
  }
}

void OptimizerKernel::ApplyPush(PushNumber k, std::span<float> w, OptimizerState state,
                                std::span<const float> g, const PushTerms& terms) const {
  if (terms.part < 1.0f) {
    ApplyPart(k, w, state, g, terms);
  } else if (terms.scale == 1.0f) {
    Apply(k, w, state, g);
  } else {
    ApplyScaled(k, w, state, g, terms.scale);
  }
}

void OptimizerKernel::ApplyPushTo(std::span<const PushPart> parts, uint64_t k, std::span<float> w,
                                  OptimizerState state, std::span<const float> g,
                                  const PushTerms& terms) const {
  for (const PushPart& part : parts) {
    ApplyPushWithin(part.begin, part.end, {k, part.absent}, w, state, g, terms);
  }
}

void OptimizerKernel::ApplyPushWithin(size_t begin, size_t end, PushNumber k, std::span<float> w,
                                      OptimizerState state, std::span<const float> g,
                                      const PushTerms& terms) const {
  const size_t size = end - begin;
  ApplyPush(k, w.subspan(begin, size), state.Part(begin, size, w.size()), g.subspan(begin, size),
            terms);
}

void OptimizerKernel::ApplyPart(PushNumber k, std::span<float> w, OptimizerState state,
                                std::span<const float> g, const PushTerms& terms) const {
  std::array<float, kScaledFloats> whole_g, whole_w;
  std::array<float, kScaledFloats * kMaxStateSlots> whole_state;
  const auto go = [&terms](float from, float to) { return from + terms.part * (to - from); };
  const float scale = terms.scale / terms.part;
  const int slots = state_slots();
  for (size_t begin = 0; begin < w.size(); begin += kScaledFloats) {
    const size_t size = std::min(kScaledFloats, w.size() - begin);
    const std::span<float> here = w.subspan(begin, size);
    const OptimizerState part_state = state.Part(begin, size, w.size());
    const std::span<float> all_slots(whole_state.data(), size * static_cast<size_t>(slots));
    std::ranges::transform(g.subspan(begin, size), whole_g.begin(),
                           [scale](float value) { return scale * value; });
    std::ranges::copy(here, whole_w.begin());
    for (int slot = 0; slot < slots; ++slot) {
      std::copy_n(part_state.Slot(slot, slots, size), size, all_slots.data() + slot * size);
    }
    Apply(k, {whole_w.data(), size}, all_slots, {whole_g.data(), size});
    std::ranges::transform(here, std::span(whole_w).first(size), here.begin(), go);
    for (int slot = 0; slot < slots; ++slot) {
      const std::span<float> old(part_state.Slot(slot, slots, size), size);
      std::ranges::transform(old, all_slots.subspan(slot * size, size), old.begin(), go);
    }
  }
}

double DampingFactor(double damping, int64_t staleness) {
  return damping == 0.0 || staleness <= 0
             ? 1.0
             : std::pow(1.0 + static_cast<double>(staleness), -damping);
}

absl::StatusOr<std::unique_ptr<OptimizerKernel>> OptimizerKernel::Create(
    const Optimizer& optimizer, std::shared_ptr<const RateReductions> reductions) {
  if (optimizer.has_muon()) {
    return absl::InvalidArgumentError(
        "optimizer.muon: it moves whole matrices, and there are none here; it is for local.inner");
  }
  Optimizer filled = optimizer;
  FillOptimizerDefaults(&filled);
  RETURN_IF_ERROR(CheckOptimizer(filled));
  RETURN_IF_ERROR(ValidateSchedule(filled.schedule()));
  std::unique_ptr<OptimizerKernel> kernel =
      std::make_unique<StepKernel>(filled, std::move(reductions));
  if (!filled.has_average()) {
    return kernel;
  }
  const Average& average = filled.average();
  return std::make_unique<AverageKernel>(std::move(kernel), average.share(), average.power());
}

}  // namespace monsoon
