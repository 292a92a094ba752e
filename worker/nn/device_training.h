// DeviceTraining: training with a network whose device has memory of its own. Between a
// fetch and a push nothing of the model's size crosses to the host: gradients stay where
// they are computed, are added up there, and move the parameters there. Network::
// device_training() gives it.
//
// Thread safety: as the network's, one call at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/nn/batch.h"
#include "worker/nn/step_key.h"
#include "worker/nn/step_result.h"
#include "worker/nn/vector_place.h"

namespace monsoon {

class DeviceTraining : public VectorPlace {
 public:
  // What steps compute with, layout.size() floats. After Network::SetParameters they are
  // on their way: Add to parts of them takes effect as they arrive.
  virtual std::span<float> parameters() = 0;
  // What the last step left, its padding zero.
  virtual std::span<float> gradient() = 0;

  // Network::LossAndGradient, of which the gradient stays.
  virtual absl::StatusOr<StepResult> Compute(const Batch& batch, const StepKey& key) = 0;

  // A copy to the host that is under way.
  class Reading {
   public:
    // Waits for it too.
    virtual ~Reading() = default;
    // Until it is there. Any thread, once.
    virtual absl::Status Await() = 0;
  };
  // Begins to copy what the calls before it leave in `from`. Later calls do not change
  // that; `to` must stay, and best be page-locked (Network::LockPages).
  virtual absl::StatusOr<std::unique_ptr<Reading>> Read(std::span<const float> from,
                                                        std::span<float> to) = 0;

  // For the calls below with `other`, which is of the same kind but may
  // be on another device. ResourceExhausted without room.
  virtual absl::Status PrepareFor(DeviceTraining& other) = 0;
  // gradient() += `theirs`, floats of `other`'s.
  virtual void AddToGradient(std::span<const float> theirs, DeviceTraining& other) = 0;
  // Sums of weight * theirs in double, as GradientSum's, to the same bits: `sum` is memory
  // of this place, twice as many floats. Not added to but set, if `fresh`.
  virtual void AddToSum(double weight, std::span<const float> theirs, DeviceTraining& other,
                        std::span<float> sum, bool fresh) = 0;
  // Rounds such a sum.
  virtual void Round(std::span<const float> sum, std::span<float> to) = 0;
  // from + residual as halves, and what that leaves out as the new residual, to the bits of
  // TensorCodec::EncodeWithFeedback; a value that is not finite stays so and leaves
  // nothing. `to` has room for half as many floats as the others.
  enum class Half { kBfloat16, kFloat16 };
  virtual void Encode(Half half, std::span<const float> from, std::span<float> residual,
                      std::span<float> to) = 0;
  // parameters() become the other's.
  virtual void TakeParameters(DeviceTraining& other) = 0;

  // Waits until all calls are done; their error.
  virtual absl::Status Finish() = 0;
  // The first error so far; of what was only begun it may come later.
  virtual absl::Status status() const = 0;
};

}  // namespace monsoon
