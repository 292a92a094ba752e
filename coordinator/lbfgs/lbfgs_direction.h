// Limited-memory BFGS: d = -H g with H made of the newest pairs (history.h).
//
// Rounds per direction: 4 (s, y, their dot products, the combination with its
// g . d); 1 at the first point. Later line searches begin at step 1.
#pragma once

#include <cstdint>

#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/history.h"
#include "proto/minimizer.pb.h"

namespace monsoon {

class LbfgsDirection : public Direction {
 public:
  // `space` must outlive it. `history` >= 1 pairs.
  LbfgsDirection(VectorSpace* space, uint32_t history) : space_(space), history_(history) {}

  absl::StatusOr<SearchDirection> Next(std::optional<Move> move, const Point& at) override;
  void Reset() override { history_.Clear(); }
  void Save(MinimizerState* state) const override { history_.Save(state); }
  absl::Status Restore(const MinimizerState& state) override {
    return history_.Restore(state, space_);
  }

  const History& history() const { return history_; }

 private:
  absl::Status AddPair(Move move, const Point& at);

  VectorSpace* space_;
  History history_;
};

}  // namespace monsoon
