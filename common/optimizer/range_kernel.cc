#include "common/optimizer/range_kernel.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/optimizer/optimizer_kinds.h"

namespace monsoon {
namespace {

enum class Part { kWeights, kBiases, kStatistics };

struct Piece {
  Slice range;  // from the kernel's begin
  Part part = Part::kWeights;
};

class RangeKernel final : public OptimizerKernel {
 public:
  // `pieces` cover the range, in order. `biases` and `statistics` may be null where no
  // piece is of them.
  RangeKernel(std::unique_ptr<OptimizerKernel> weights, std::unique_ptr<OptimizerKernel> biases,
              std::unique_ptr<OptimizerKernel> statistics, std::vector<Piece> pieces)
      : weights_(std::move(weights)),
        biases_(std::move(biases)),
        statistics_(std::move(statistics)),
        pieces_(std::move(pieces)) {}

  int state_slots() const override { return weights_->state_slots(); }
  float initial_state() const override { return weights_->initial_state(); }

  void Apply(PushNumber k, std::span<float> w, OptimizerState state,
             std::span<const float> g) const override {
    ForEachPiece(w, state,
                 [&](const OptimizerKernel& kernel, const Slice& piece, std::span<float> part,
                     OptimizerState part_state) {
                   kernel.Apply(k, part, part_state, g.subspan(piece.begin, piece.size()));
                 });
  }

  void ApplyScaled(PushNumber k, std::span<float> w, OptimizerState state, std::span<const float> g,
                   float scale) const override {
    ForEachPiece(w, state,
                 [&](const OptimizerKernel& kernel, const Slice& piece, std::span<float> part,
                     OptimizerState part_state) {
                   const std::span<const float> part_g = g.subspan(piece.begin, piece.size());
                   if (&kernel == statistics_.get()) {
                     kernel.Apply(k, part, part_state, part_g);
                   } else {
                     kernel.ApplyScaled(k, part, part_state, part_g, scale);
                   }
                 });
  }

  void ApplyPush(PushNumber k, std::span<float> w, OptimizerState state, std::span<const float> g,
                 const PushTerms& terms) const override {
    ApplyPushWithin(0, w.size(), k, w, state, g, terms);
  }

  void ApplyAndTell(PushNumber k, std::span<float> w, OptimizerState state,
                    std::span<const float> g, std::span<float> moved, bool fresh) const override {
    ForEachPiece(w, state,
                 [&](const OptimizerKernel& kernel, const Slice& piece, std::span<float> part,
                     OptimizerState part_state) {
                   kernel.ApplyAndTell(k, part, part_state, g.subspan(piece.begin, piece.size()),
                                       moved.subspan(piece.begin, piece.size()), fresh);
                 });
  }

 protected:
  void ApplyPushWithin(size_t begin, size_t end, PushNumber k, std::span<float> w,
                       OptimizerState state, std::span<const float> g,
                       const PushTerms& terms) const override {
    ForEachPieceWithin({begin, end}, w, state,
                       [&](const OptimizerKernel& kernel, const Slice& piece, std::span<float> part,
                           OptimizerState part_state) {
                         const std::span<const float> part_g = g.subspan(piece.begin, piece.size());
                         if (&kernel == statistics_.get()) {
                           MoveStatistics(part_g, terms, part);
                         } else {
                           kernel.ApplyPush(k, part, part_state, part_g, terms);
                         }
                       });
  }

 private:
  static void MoveStatistics(std::span<const float> g, const PushTerms& push, std::span<float> w) {
    const float share = push.share;
    for (size_t i = 0; i < w.size(); ++i) {
      // Of values a mean of both: never beyond either.
      w[i] = push.values ? share * g[i] + (1.0f - share) * w[i] : w[i] - share * g[i];
    }
  }

  const OptimizerKernel& KernelOf(Part part) const {
    return part == Part::kWeights ? *weights_ : part == Part::kBiases ? *biases_ : *statistics_;
  }

  template <typename Update>
  void ForEachPiece(std::span<float> w, OptimizerState state, Update update) const {
    ForEachPieceWithin({0, w.size()}, w, state, update);
  }

  // What the pieces have within `within`.
  template <typename Update>
  void ForEachPieceWithin(const Slice& within, std::span<float> w, OptimizerState state,
                          Update update) const {
    CHECK_EQ(w.size(), pieces_.back().range.end);
    for (const Piece& piece : pieces_) {
      const Slice range{std::max(piece.range.begin, within.begin),
                        std::min(piece.range.end, within.end)};
      if (range.begin >= range.end) {
        continue;
      }
      update(KernelOf(piece.part), range, w.subspan(range.begin, range.size()),
             piece.part == Part::kStatistics ? OptimizerState()
                                             : state.Part(range.begin, range.size(), w.size()));
    }
  }

  const std::unique_ptr<OptimizerKernel> weights_;
  const std::unique_ptr<OptimizerKernel> biases_;
  const std::unique_ptr<OptimizerKernel> statistics_;
  const std::vector<Piece> pieces_;
};

// `range` cut into the parts that are named and the weights between them.
std::vector<Piece> Cut(const std::vector<Slice>& biases, const std::vector<Slice>& statistics,
                       const Slice& range) {
  std::vector<Piece> named;
  for (const Slice& bias : biases) {
    named.push_back({bias, Part::kBiases});
  }
  for (const Slice& statistic : statistics) {
    named.push_back({statistic, Part::kStatistics});
  }
  std::ranges::sort(named, {}, [](const Piece& piece) { return piece.range.begin; });
  std::vector<Piece> pieces;
  uint64_t end = 0;  // of the pieces so far
  for (const Piece& piece : named) {
    CHECK(piece.range.begin >= range.begin + end && piece.range.end <= range.end);
    const uint64_t begin = piece.range.begin - range.begin;
    if (end < begin) {
      pieces.push_back({{end, begin}, Part::kWeights});
    }
    end = piece.range.end - range.begin;
    pieces.push_back({{begin, end}, piece.part});
  }
  if (end < range.size()) {
    pieces.push_back({{end, range.size()}, Part::kWeights});
  }
  return pieces;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OptimizerKernel>> CreateRangeKernel(
    const Optimizer& optimizer, const std::vector<Slice>& biases,
    const std::vector<Slice>& statistics, const Slice& range,
    const std::shared_ptr<const RateReductions>& reductions) {
  ASSIGN_OR_RETURN(std::unique_ptr<OptimizerKernel> weights,
                   OptimizerKernel::Create(optimizer, reductions));
  const bool spares_biases =
      optimizer.weight_decay_weights_only() && Decays(optimizer) && !biases.empty();
  if (!spares_biases && statistics.empty()) {
    return weights;
  }
  std::unique_ptr<OptimizerKernel> without;
  if (spares_biases) {
    ASSIGN_OR_RETURN(without, OptimizerKernel::Create(WithoutDecay(optimizer), reductions));
  }
  std::unique_ptr<OptimizerKernel> subtract;
  if (!statistics.empty()) {
    Optimizer as_it_is;
    as_it_is.mutable_sgd()->set_rate(1.0);
    ASSIGN_OR_RETURN(subtract, OptimizerKernel::Create(as_it_is));
  }
  return std::make_unique<RangeKernel>(
      std::move(weights), std::move(without), std::move(subtract),
      Cut(spares_biases ? biases : std::vector<Slice>(), statistics, range));
}

}  // namespace monsoon
