// Embeddings of ids and of positions.
#include <algorithm>

#include "worker/backend/reference/layer.h"

namespace monsoon::reference {
namespace {

// CheckSamples has judged the ids.
class Embedding : public ReferenceLayer {
 public:
  explicit Embedding(const LayerPlan& plan)
      : weight_(plan.weight), columns_(plan.output.features()) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t step = 0; step < in.size(); ++step) {
      for (size_t c = 0; c < columns_; ++c) {
        out[step * columns_ + c] = pass.parameters[Place(in[step], c)];
      }
    }
  }

  void Backward(const Pass& /*pass*/, std::span<const double> in, std::span<const double> /*out*/,
                std::span<const double> out_diff, std::span<double> in_diff,
                std::span<double> gradient) override {
    for (size_t step = 0; step < in.size(); ++step) {
      for (size_t c = 0; c < columns_; ++c) {
        gradient[Place(in[step], c)] += out_diff[step * columns_ + c];
      }
    }
    std::fill(in_diff.begin(), in_diff.end(), 0.0);
  }

 private:
  size_t Place(double id, size_t column) const {
    return weight_.offset + static_cast<size_t>(id) * columns_ + column;
  }

  TensorSlot weight_;
  size_t columns_;
};

class PositionEmbedding : public ReferenceLayer {
 public:
  explicit PositionEmbedding(const LayerPlan& plan) : weight_(plan.weight) {}

  void Forward(const Pass& pass, std::span<const double> in, std::span<double> out) override {
    for (size_t i = 0; i < in.size(); ++i) {
      out[i] = in[i] + pass.parameters[weight_.offset + i % weight_.size];
    }
  }

  void Backward(const Pass& /*pass*/, std::span<const double> /*in*/,
                std::span<const double> /*out*/, std::span<const double> out_diff,
                std::span<double> in_diff, std::span<double> gradient) override {
    for (size_t i = 0; i < out_diff.size(); ++i) {
      in_diff[i] = out_diff[i];
      gradient[weight_.offset + i % weight_.size] += out_diff[i];
    }
  }

 private:
  TensorSlot weight_;  // [steps, features]
};

}  // namespace

std::unique_ptr<ReferenceLayer> MakeEmbedding(const LayerPlan& plan) {
  return std::make_unique<Embedding>(plan);
}

std::unique_ptr<ReferenceLayer> MakePositionEmbedding(const LayerPlan& plan) {
  return std::make_unique<PositionEmbedding>(plan);
}

}  // namespace monsoon::reference
