#include "common/optimizer/range_kernel.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/optimizer/muon.h"
#include "common/optimizer/optimizer_groups.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/schedule.h"

namespace monsoon {
namespace {

struct Piece {
  Slice range;  // from the kernel's begin
  // Null: it is frozen.
  const OptimizerKernel* kernel = nullptr;
};

class RangeKernel final : public OptimizerKernel {
 public:
  // `pieces` cover the range, in order, with kernels of `kernels`, of which the first is the
  // optimizer's own; `statistics` are one of them, or null.
  RangeKernel(std::vector<std::unique_ptr<OptimizerKernel>> kernels,
              const OptimizerKernel* statistics, std::vector<Piece> pieces)
      : kernels_(std::move(kernels)),
        statistics_(statistics),
        pieces_(std::move(pieces)),
        slots_(MostSlots(kernels_)) {}

  int state_slots() const override { return slots_; }
  float initial_state() const override { return kernels_[0]->initial_state(); }

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
                   if (&kernel == statistics_) {
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
    for (const Piece& piece : pieces_) {
      if (fresh && piece.kernel == nullptr) {
        std::ranges::fill(moved.subspan(piece.range.begin, piece.range.size()), 0.0f);
      }
    }
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
                         if (&kernel == statistics_) {
                           MoveStatistics(part_g, terms, part);
                         } else {
                           kernel.ApplyPush(k, part, part_state, part_g, terms);
                         }
                       });
  }

 private:
  static int MostSlots(const std::vector<std::unique_ptr<OptimizerKernel>>& kernels) {
    int most = 0;
    for (const std::unique_ptr<OptimizerKernel>& kernel : kernels) {
      most = std::max(most, kernel == nullptr ? 0 : kernel->state_slots());
    }
    return most;
  }

  static void MoveStatistics(std::span<const float> g, const PushTerms& push, std::span<float> w) {
    const float share = push.share;
    for (size_t i = 0; i < w.size(); ++i) {
      // Of values a mean of both: never beyond either.
      w[i] = push.values ? share * g[i] + (1.0f - share) * w[i] : w[i] - share * g[i];
    }
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
      if (range.begin >= range.end || piece.kernel == nullptr) {
        continue;
      }
      update(*piece.kernel, range, w.subspan(range.begin, range.size()),
             piece.kernel->state_slots() == 0
                 ? OptimizerState()
                 : state.Part(range.begin, range.size(), w.size())
                       .First(piece.kernel->state_slots(), slots_, range.size()));
    }
  }

  const std::vector<std::unique_ptr<OptimizerKernel>> kernels_;
  const OptimizerKernel* const statistics_;
  const std::vector<Piece> pieces_;
  const int slots_;  // the most of any kernel; each has the first ones
};

bool Has(const std::vector<Slice>& parts, uint64_t index) {
  const auto part = std::ranges::upper_bound(parts, index, {}, &Slice::end);
  return part != parts.end() && part->begin <= index;
}

// What decides about a parameter.
struct Rule {
  bool statistic = false;
  bool bare = false;             // without decay
  std::optional<int> group;      // Optimizer.group
  std::optional<size_t> matrix;  // of tensors.matrices
  bool operator==(const Rule&) const = default;
};

std::optional<size_t> MatrixAt(const std::vector<WeightMatrix>& matrices, uint64_t index) {
  const auto matrix = std::ranges::upper_bound(matrices, index, {}, &WeightMatrix::end);
  if (matrix == matrices.end() || index < matrix->begin) {
    return std::nullopt;
  }
  return static_cast<size_t>(matrix - matrices.begin());
}

Rule RuleAt(const Optimizer& optimizer, const TensorRanges& tensors, uint64_t index) {
  if (Has(tensors.statistics, index)) {
    return {.statistic = true};
  }
  if (const auto matrix = MatrixAt(tensors.matrices, index)) {
    return {.matrix = matrix};
  }
  Rule rule{.bare = optimizer.weight_decay_weights_only() && Has(tensors.biases, index)};
  for (size_t i = 0; i < tensors.groups.size() && !rule.group.has_value(); ++i) {
    if (Has(tensors.groups[i], index)) {
      rule.group = static_cast<int>(i);
    }
  }
  return rule;
}

struct RulePiece {
  Slice range;  // from the range's begin
  Rule rule;
};

// `range` cut wherever the rule changes.
std::vector<RulePiece> Cut(const Optimizer& optimizer, const TensorRanges& tensors,
                           const Slice& range) {
  std::vector<uint64_t> cuts = {range.begin};
  const auto add_part = [&](uint64_t begin, uint64_t end) {
    CHECK(begin >= range.begin && end <= range.end);
    cuts.push_back(begin);
    cuts.push_back(end);
  };
  const auto add = [&](const std::vector<Slice>& parts) {
    for (const Slice& part : parts) {
      add_part(part.begin, part.end);
    }
  };
  add(tensors.biases);
  add(tensors.statistics);
  std::ranges::for_each(tensors.groups, add);
  for (const WeightMatrix& matrix : tensors.matrices) {
    add_part(matrix.begin, matrix.end());
  }
  std::ranges::sort(cuts);
  cuts.push_back(range.end);
  std::vector<RulePiece> pieces;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] == cuts[i + 1]) {
      continue;
    }
    const Slice part{cuts[i] - range.begin, cuts[i + 1] - range.begin};
    const Rule rule = RuleAt(optimizer, tensors, cuts[i]);
    if (!pieces.empty() && pieces.back().rule == rule) {
      pieces.back().range.end = part.end;
    } else {
      pieces.push_back({part, rule});
    }
  }
  return pieces;
}

// Makes the kernels of an optimizer.
class KernelMaker {
 public:
  // `optimizer` has its defaults where it has a muon.
  KernelMaker(const Optimizer& optimizer, const TensorRanges& tensors,
              std::shared_ptr<const RateReductions> reductions)
      : optimizer_(optimizer), tensors_(tensors), reductions_(std::move(reductions)) {}

  // Of all that no other rule has.
  absl::StatusOr<std::unique_ptr<OptimizerKernel>> Own() const {
    Optimizer own = Kind();
    own.clear_group();
    return OptimizerKernel::Create(own, reductions_);
  }

  // Of a rule that is not the optimizer's own; null: its parameters are frozen.
  absl::StatusOr<std::unique_ptr<OptimizerKernel>> Of(const Rule& rule) const {
    if (rule.statistic) {
      Optimizer as_it_is;
      as_it_is.mutable_sgd()->set_rate(1.0);
      return OptimizerKernel::Create(as_it_is);
    }
    if (rule.matrix.has_value()) {
      const WeightMatrix& matrix = tensors_.matrices[*rule.matrix];
      return std::make_unique<MuonKernel>(optimizer_, matrix.rows, matrix.columns, reductions_,
                                          scratch_);
    }
    Optimizer own = Kind();
    if (rule.group.has_value()) {
      const OptimizerGroup& group = optimizer_.group(*rule.group);
      if (group.frozen()) {
        return nullptr;
      }
      own = OfGroup(own, group);
    }
    return OptimizerKernel::Create(rule.bare && Decays(own) ? WithoutDecay(own) : own, reductions_);
  }

 private:
  // What moves all that is no matrix.
  Optimizer Kind() const {
    Optimizer kind = optimizer_;
    kind.clear_muon();
    return kind;
  }

  const Optimizer& optimizer_;
  const TensorRanges& tensors_;
  const std::shared_ptr<const RateReductions> reductions_;
  const std::shared_ptr<MuonScratch> scratch_ = std::make_shared<MuonScratch>();
};

absl::Status CheckMatrices(const Optimizer& filled, const TensorRanges& tensors) {
  if (filled.has_muon()) {
    RETURN_IF_ERROR(CheckOptimizer(filled));
    RETURN_IF_ERROR(ValidateSchedule(filled.schedule()));
    if (tensors.matrices.empty()) {
      return absl::InvalidArgumentError("optimizer.muon: there is no matrix for it");
    }
  }
  CHECK(filled.has_muon() || tensors.matrices.empty());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OptimizerKernel>> CreateRangeKernel(
    const Optimizer& optimizer, const TensorRanges& tensors, const Slice& range,
    const std::shared_ptr<const RateReductions>& reductions) {
  Optimizer filled = optimizer;
  FillOptimizerDefaults(&filled);
  RETURN_IF_ERROR(CheckMatrices(filled, tensors));
  const KernelMaker make(filled, tensors, reductions);
  std::vector<std::unique_ptr<OptimizerKernel>> kernels;
  ASSIGN_OR_RETURN(kernels.emplace_back(), make.Own());
  std::vector<Rule> rules = {Rule()};
  const OptimizerKernel* statistics = nullptr;
  std::vector<Piece> pieces;
  for (RulePiece& piece : Cut(filled, tensors, range)) {
    auto rule = std::ranges::find(rules, piece.rule);
    if (rule == rules.end()) {
      ASSIGN_OR_RETURN(kernels.emplace_back(), make.Of(piece.rule));
      rule = rules.insert(rules.end(), piece.rule);
      statistics = piece.rule.statistic ? kernels.back().get() : statistics;
    }
    pieces.push_back({piece.range, kernels[static_cast<size_t>(rule - rules.begin())].get()});
  }
  if (kernels.size() == 1) {
    return std::move(kernels.front());
  }
  return std::make_unique<RangeKernel>(std::move(kernels), statistics, std::move(pieces));
}

}  // namespace monsoon
