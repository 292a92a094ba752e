#include "common/optimizer/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/optimizer/active_loops.h"
#include "common/optimizer/matrix_loops.h"
#include "common/optimizer/newton_schulz.h"

namespace monsoon {
namespace {

// With it the root mean square of a step is that of AdamW's (Liu et al. 2025, section 2.2).
constexpr double kAdamWsRootMeanSquare = 0.2;

double ScaleOf(const Muon& muon, size_t rows, size_t columns) {
  const auto r = static_cast<double>(rows);
  const auto c = static_cast<double>(columns);
  return muon.scale() == Muon::MATCH_ADAMW ? kAdamWsRootMeanSquare * std::sqrt(std::max(r, c))
                                           : std::sqrt(std::max(1.0, r / c));
}

}  // namespace

size_t MuonScratch::FloatsFor(size_t rows, size_t columns) {
  return rows * columns + OrthogonalizeScratch(rows, columns);
}

std::span<float> MuonScratch::AtLeast(size_t floats) {
  if (floats_.size() < floats) {
    floats_ = AlignedFloats();  // before the larger one, not beside it
    floats_ = AlignedFloats::NanFilled(floats);
  }
  return floats_.span();
}

MuonKernel::MuonKernel(const Optimizer& optimizer, size_t rows, size_t columns,
                       std::shared_ptr<const RateReductions> reductions,
                       std::shared_ptr<MuonScratch> scratch)
    : muon_(optimizer.muon()),
      rate_(muon_.rate(), optimizer.schedule(), std::move(reductions)),
      rows_(rows),
      columns_(columns),
      scale_(ScaleOf(muon_, rows, columns)),
      scratch_(std::move(scratch)) {}

void MuonKernel::Apply(PushNumber k, std::span<float> w, OptimizerState state,
                       std::span<const float> g) const {
  Run(k, w, state, g, {}, false);
}

void MuonKernel::ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                              std::span<const float> g, std::span<float> moved, bool fresh) const {
  CHECK_EQ(w.size(), moved.size());
  Run(k, w, state, g, moved, fresh);
}

void MuonKernel::Run(PushNumber k, std::span<float> w, OptimizerState state,
                     std::span<const float> g, std::span<float> moved, bool fresh) const {
  const size_t n = rows_ * columns_;
  CHECK_EQ(w.size(), n);
  CHECK_EQ(g.size(), n);
  const MatrixLoops& loops = ActiveMatrixLoops();
  const double rate = rate_.At(k.push);
  const MutexLock lock(&scratch_->mutex);
  const std::span<float> floats = scratch_->AtLeast(MuonScratch::FloatsFor(rows_, columns_));
  const std::span<float> x = floats.first(n);
  loops.average(n, static_cast<float>(muon_.momentum()), !muon_.without_nesterov(), g.data(),
                state.Slot(0, 1, n), x.data());
  Orthogonalize(rows_, columns_, muon_.steps(), x, floats.subspan(n));
  loops.move(n, static_cast<float>(rate * muon_.weight_decay()), static_cast<float>(rate * scale_),
             x.data(), w.data(), {moved.empty() ? nullptr : moved.data(), fresh});
}

}  // namespace monsoon
