#include "worker/group/breaking_network.h"

#include <string>
#include <utility>

#include "common/base/status.h"

namespace monsoon {
namespace {

class BreakingNetwork : public Network {
 public:
  BreakingNetwork(std::unique_ptr<Network> network, uint64_t gradients)
      : network_(std::move(network)), left_(gradients) {}

  void SetParameters(std::span<const float> parameters) override {
    network_->SetParameters(parameters);
  }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    if (left_ == 0) {
      return Broken("gradient");
    }
    --left_;
    return network_->LossAndGradient(batch, key, gradient);
  }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override {
    if (left_ == 0) {
      return Broken("evaluation");
    }
    return network_->Evaluate(batch);
  }
  std::string Fingerprint() const override { return network_->Fingerprint(); }

 private:
  static absl::Status Broken(const char* what) {
    return absl::InternalError(absl::StrCat("the device broke in a ", what, " (--fault)"));
  }

  const std::unique_ptr<Network> network_;
  uint64_t left_;
};

}  // namespace

std::unique_ptr<Network> MakeBreakingNetwork(std::unique_ptr<Network> network, uint64_t gradients) {
  return std::make_unique<BreakingNetwork>(std::move(network), gradients);
}

}  // namespace monsoon
