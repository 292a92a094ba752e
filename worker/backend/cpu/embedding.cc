// Embeddings of ids and of positions.
#include <algorithm>

#include "worker/backend/cpu/active_loops.h"
#include "worker/backend/cpu/layer.h"
#include "worker/backend/cpu/parallel.h"

namespace monsoon::cpu {
namespace {

// CheckSamples has judged the ids.
class Embedding : public CpuLayer {
 public:
  explicit Embedding(const LayerArguments& arguments)
      : input_(arguments.input),
        weight_(arguments.plan.weight),
        columns_(arguments.plan.output.features()),
        rows_(weight_.size / columns_),
        ids_(arguments.context.examples() * arguments.plan.output.steps),
        threads_(static_cast<size_t>(arguments.threads)) {
    AllocateOutput(arguments, MatrixDesc(arguments.context.examples(), arguments.plan.output),
                   arguments.plan.output);
  }

  void SetParameters(const float* parameters) override { weights_ = parameters + weight_.offset; }

  void Forward(const StepKey* /*key*/) override {
    const float* const ids = Data(input_.value);
    float* const out = Data(output_.value);
    const size_t parts = std::min(threads_, ids_);
    ForEachPart(parts, [&](size_t part) {
      for (size_t i = part * ids_ / parts; i < (part + 1) * ids_ / parts; ++i) {
        std::copy_n(weights_ + static_cast<size_t>(ids[i]) * columns_, columns_,
                    out + i * columns_);
      }
    });
  }

  // Each thread has rows of its own, so that their sums are the same for any number.
  void Backward(float* gradient) override {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const float* const ids = Data(input_.value);
    const float* const diff = Data(output_.diff);
    float* const weights = gradient + weight_.offset;
    const size_t parts = std::min(threads_, rows_);
    ForEachPart(parts, [&](size_t part) {
      const size_t first = part * rows_ / parts;
      const size_t end = (part + 1) * rows_ / parts;
      if (!weight_.shared) {
        std::fill(weights + first * columns_, weights + end * columns_, 0.0f);
      }
      for (size_t i = 0; i < ids_; ++i) {
        const auto id = static_cast<size_t>(ids[i]);
        if (id >= first && id < end) {
          float* const row = weights + id * columns_;
          loops.add(columns_, row, diff + i * columns_, row);
        }
      }
    });
  }

 private:
  const Port input_;
  const TensorSlot weight_;
  const size_t columns_;
  const size_t rows_;
  const size_t ids_;  // of the batch
  const size_t threads_;
  const float* weights_ = nullptr;
};

class PositionEmbedding : public CpuLayer {
 public:
  explicit PositionEmbedding(const LayerArguments& arguments)
      : input_(arguments.input),
        weight_(arguments.plan.weight),
        examples_(arguments.context.examples()),
        parts_(std::min(static_cast<size_t>(arguments.threads), examples_)) {
    AllocateOutput(arguments, MatrixDesc(examples_, arguments.plan.output), arguments.plan.output);
  }

  void SetParameters(const float* parameters) override { weights_ = parameters + weight_.offset; }

  void Forward(const StepKey* /*key*/) override {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const size_t floats = weight_.size;
    ForEachPart(parts_, [&](size_t part) {
      for (size_t n = part * examples_ / parts_; n < (part + 1) * examples_ / parts_; ++n) {
        loops.add(floats, Data(input_.value) + n * floats, weights_,
                  Data(output_.value) + n * floats);
      }
    });
  }

  void Backward(float* gradient) override {
    const SequenceLoops& loops = ActiveSequenceLoops();
    const size_t floats = weight_.size;
    const float* const diff = Data(output_.diff);
    if (input_.diff) {
      std::copy_n(diff, examples_ * floats, Data(input_.diff));
    }
    float* const weights = gradient + weight_.offset;
    if (!weight_.shared) {
      std::copy_n(diff, floats, weights);
    }
    for (size_t n = weight_.shared ? 0 : 1; n < examples_; ++n) {
      loops.add(floats, weights, diff + n * floats, weights);
    }
  }

 private:
  const Port input_;
  const TensorSlot weight_;  // [steps, features]
  const size_t examples_;
  const size_t parts_;
  const float* weights_ = nullptr;
};

}  // namespace

std::unique_ptr<CpuLayer> MakeEmbedding(const LayerArguments& arguments) {
  return std::make_unique<Embedding>(arguments);
}

std::unique_ptr<CpuLayer> MakePositionEmbedding(const LayerArguments& arguments) {
  return std::make_unique<PositionEmbedding>(arguments);
}

}  // namespace monsoon::cpu
