#include "common/optimizer/range_kernel.h"

#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

class RangeKernel final : public OptimizerKernel {
 public:
  // `pieces` cover the range; every second one, beginning with the second, is a
  // bias. The first may be empty.
  RangeKernel(std::unique_ptr<OptimizerKernel> weights, std::unique_ptr<OptimizerKernel> biases,
              std::vector<Slice> pieces)
      : weights_(std::move(weights)), biases_(std::move(biases)), pieces_(std::move(pieces)) {}

  int state_slots() const override { return weights_->state_slots(); }
  float initial_state() const override { return weights_->initial_state(); }

  void Apply(uint64_t k, std::span<float> w, std::span<float> state,
             std::span<const float> g) const override {
    ForEachPiece(w, state,
                 [&](const OptimizerKernel& kernel, const Slice& piece, std::span<float> part,
                     std::span<float> part_state) {
                   kernel.Apply(k, part, part_state, g.subspan(piece.begin, piece.size()));
                 });
  }

  void ApplyAndTell(uint64_t k, std::span<float> w, std::span<float> state,
                    std::span<const float> g, std::span<float> moved, bool fresh) const override {
    ForEachPiece(w, state,
                 [&](const OptimizerKernel& kernel, const Slice& piece, std::span<float> part,
                     std::span<float> part_state) {
                   kernel.ApplyAndTell(k, part, part_state, g.subspan(piece.begin, piece.size()),
                                       moved.subspan(piece.begin, piece.size()), fresh);
                 });
  }

 private:
  template <typename Update>
  void ForEachPiece(std::span<float> w, std::span<float> state, Update update) const {
    CHECK_EQ(w.size(), pieces_.back().end);
    const auto slots = static_cast<size_t>(state_slots());
    bool is_bias = false;
    for (const Slice& piece : pieces_) {
      if (piece.size() > 0) {
        update(is_bias ? *biases_ : *weights_, piece, w.subspan(piece.begin, piece.size()),
               state.subspan(piece.begin * slots, piece.size() * slots));
      }
      is_bias = !is_bias;
    }
  }

  const std::unique_ptr<OptimizerKernel> weights_;
  const std::unique_ptr<OptimizerKernel> biases_;
  const std::vector<Slice> pieces_;  // from the range's begin
};

}  // namespace

absl::StatusOr<std::unique_ptr<OptimizerKernel>> CreateRangeKernel(const Optimizer& optimizer,
                                                                   const std::vector<Slice>& biases,
                                                                   const Slice& range) {
  ASSIGN_OR_RETURN(std::unique_ptr<OptimizerKernel> weights, OptimizerKernel::Create(optimizer));
  if (!optimizer.weight_decay_weights_only() || optimizer.weight_decay() == 0.0 || biases.empty()) {
    return weights;
  }
  Optimizer bare = optimizer;
  bare.clear_weight_decay();
  ASSIGN_OR_RETURN(std::unique_ptr<OptimizerKernel> without, OptimizerKernel::Create(bare));
  std::vector<Slice> pieces;
  uint64_t end = 0;
  for (const Slice& bias : biases) {
    CHECK(bias.begin >= range.begin + end && bias.end <= range.end);
    pieces.push_back({end, bias.begin - range.begin});
    pieces.push_back({bias.begin - range.begin, bias.end - range.begin});
    end = pieces.back().end;
  }
  pieces.push_back({end, range.size()});
  return std::make_unique<RangeKernel>(std::move(weights), std::move(without), std::move(pieces));
}

}  // namespace monsoon
