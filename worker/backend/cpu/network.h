// CpuNetwork: the oneDNN backend. A sequence of layers is made for each batch
// size when it is first seen (training and evaluation apart) and kept; the
// least recently used one goes when there are more than kMaxSequences.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "worker/backend/cpu/layer_sequence.h"
#include "worker/nn/network.h"
#include "worker/nn/network_plan.h"

namespace monsoon::cpu {

class CpuNetwork : public Network {
 public:
  // `threads` >= 1. Unimplemented, with oneDNN's message, for a model it
  // cannot run.
  static absl::StatusOr<std::unique_ptr<Network>> Create(NetworkPlan plan, int threads);

  void SetParameters(std::span<const float> parameters) override;
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override;
  void TellReady(GradientReady ready) override { ready_ = std::move(ready); }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override;
  absl::Status Predict(const Batch& batch, const PredictionSpans& predictions) override;
  std::string Fingerprint() const override;

 private:
  // A batch size, its tail, and the same two for evaluation, twice.
  static constexpr size_t kMaxSequences = 8;

  struct Entry {
    size_t examples = 0;
    bool training = false;
    uint64_t generation = 0;  // of the parameters it has packed; 0: none
    std::unique_ptr<LayerSequence> sequence;
  };

  CpuNetwork(NetworkPlan plan, int threads) : plan_(std::move(plan)), threads_(threads) {}

  // The layers for the batch, which was checked, with the current parameters.
  absl::StatusOr<LayerSequence*> Prepare(const Batch& batch, bool training);
  absl::StatusOr<Entry*> FindOrMake(size_t examples, bool training);

  NetworkPlan plan_;
  int threads_;
  GradientReady ready_;
  std::span<const float> parameters_;
  uint64_t generation_ = 0;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace monsoon::cpu
