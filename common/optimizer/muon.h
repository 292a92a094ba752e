// MuonKernel: the step of Optimizer.muon for one matrix (Jordan et al. 2024; as the inner optimizer
// of local steps: MuLoCo, Therien et al. 2025, arXiv 2505.23725):
//   m = momentum * m + g;  u = g + momentum * m, or without Nesterov's m;
//   w = w - rate(k) * weight_decay * w - rate(k) * scale * Orthogonalize(u),
// with Orthogonalize of newton_schulz.h, rate(k) as of any optimizer, and a scale of the matrix:
// sqrt(max(1, rows / columns)), or 0.2 sqrt(max(rows, columns)) with MATCH_ADAMW (Liu et al. 2025,
// arXiv 2502.16982). m is slot 0 of the state and begins at 0.
//
// So a parameter's step depends on the whole matrix: w, state and g are always that, row by row.
// There is no step of single parameters (StepAt), and devices leave it to the host. Pushes, which
// may come in parts (ApplyScaled, ApplyPush), are not for it: shards have no whole matrices.
//
// The bits are those of newton_schulz.h: the same at each SIMD level. One thread computes: 0.8 ms
// for a step of 400 x 120, 0.2 s for one of 768 x 3072, on a core with AVX-512 (muon_benchmark).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

// The memory that steps of matrices work in: as much as the largest of them needs, taken when it is
// first used and kept. Kernels that have it in common take turns, whoever's matrices they move.
//
// Thread safe: who has it holds `mutex`, and others wait for the length of one step.
class MuonScratch {
 public:
  // Two copies of a matrix, the square of its smaller side, and 504 KiB.
  static size_t FloatsFor(size_t rows, size_t columns);

  std::span<float> AtLeast(size_t floats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  Mutex mutex;

 private:
  AlignedFloats floats_ ABSL_GUARDED_BY(mutex);
};

class MuonKernel final : public OptimizerKernel {
 public:
  // Of an optimizer with a muon that CheckOptimizer takes. `reductions` as in RateSchedule.
  MuonKernel(const Optimizer& optimizer, size_t rows, size_t columns,
             std::shared_ptr<const RateReductions> reductions,
             std::shared_ptr<MuonScratch> scratch);

  int state_slots() const override { return 1; }
  void Apply(PushNumber k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override;
  void ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                    std::span<const float> g, std::span<float> moved, bool fresh) const override;

 private:
  // `moved` is empty, or as in ApplyAndTell.
  void Run(PushNumber k, std::span<float> w, OptimizerState state, std::span<const float> g,
           std::span<float> moved, bool fresh) const;

  const Muon muon_;
  const RateSchedule rate_;
  const size_t rows_;
  const size_t columns_;
  const double scale_;
  const std::shared_ptr<MuonScratch> scratch_;
};

}  // namespace monsoon
