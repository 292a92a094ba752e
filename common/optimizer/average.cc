#include "common/optimizer/average.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/optimizer/active_loops.h"

namespace monsoon {
namespace {

// Five arrays of so many floats stay in the first-level cache between the two loops.
constexpr size_t kPieceFloats = 1024;

}  // namespace

AverageKernel::AverageKernel(std::unique_ptr<OptimizerKernel> inner, double share, double power)
    : inner_(std::move(inner)), share_(static_cast<float>(share)), power_(power) {
  CHECK(inner_->state_slots() < kMaxStateSlots);
  CHECK_EQ(inner_->initial_state(), 0.0f);
}

float AverageKernel::WeightAt(uint64_t k) const {
  return static_cast<float>((1.0 + power_) / (static_cast<double>(k) + 1.0 + power_));
}

void AverageKernel::Apply(PushNumber k, std::span<float> w, OptimizerState state,
                          std::span<const float> g) const {
  Run(k, w, state, g, {}, false);
}

void AverageKernel::ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                                 std::span<const float> g, std::span<float> moved,
                                 bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, moved, fresh);
}

void AverageKernel::Run(PushNumber k, std::span<float> w, OptimizerState state,
                        std::span<const float> g, std::span<float> moved, bool fresh) const {
  CHECK_EQ(w.size(), g.size());
  const size_t n = w.size();
  const float keep = 1.0f - WeightAt(k.step());
  const OptimizerState inner = state.First(inner_->state_slots(), state_slots(), n);
  float* const lead = state.Slot(inner_->state_slots(), state_slots(), n);
  std::array<float, kPieceFloats> step;  // how far the optimizer inside moved, -s
  for (size_t begin = 0; begin < n; begin += kPieceFloats) {
    const size_t size = std::min(kPieceFloats, n - begin);
    const std::span<float> piece = w.subspan(begin, size);
    inner_->ApplyAndTell(k, piece, inner.Part(begin, size, n), g.subspan(begin, size),
                         std::span(step).first(size), /*fresh=*/true);
    ActiveOptimizerLoops().average(size, share_, keep, piece.data(), lead + begin, step.data(),
                                   {moved.empty() ? nullptr : moved.data() + begin, fresh});
  }
}

}  // namespace monsoon
