// ReferenceNetwork: the whole network in double. Besides the Network interface
// it takes and gives doubles, for finite differences and comparisons.
#pragma once

#include <memory>
#include <vector>

#include "worker/backend/reference/layer.h"
#include "worker/nn/network.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/test_figures.h"

namespace monsoon::reference {

class ReferenceNetwork : public Network {
 public:
  explicit ReferenceNetwork(NetworkPlan plan);

  void SetParameters(std::span<const float> parameters) override;
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override;
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override;
  absl::Status Predict(const Batch& batch, const PredictionSpans& predictions) override;
  std::string Fingerprint() const override;

  // As above with all the digits; `gradient` may be empty: loss only.
  absl::StatusOr<StepResult> LossAndGradient(std::span<const double> parameters, const Batch& batch,
                                             const StepKey& key, std::span<double> gradient);

 private:
  ReferenceLayer::Values InputsOf(size_t layer) const;
  // Leaves the layers' outputs in values_.
  void Forward(const Pass& pass, const Batch& batch);

  NetworkPlan plan_;
  std::vector<std::unique_ptr<ReferenceLayer>> layers_;
  std::vector<std::vector<double>> values_;  // indexed as LayerPlan.inputs
  std::span<const float> parameters_;
  Judge judge_;
};

}  // namespace monsoon::reference
