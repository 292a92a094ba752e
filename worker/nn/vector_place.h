// VectorPlace: where the vectors of a replica lie between its steps, and who computes
// with them: the host's memory, or a device's (device_training.h).
//
// Spans may be the device's addresses: only the place that gave them follows them. Calls
// come in order; a device's are done some time before the next step of its network is,
// and an error shows there.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer.h"

namespace monsoon {

// Floats of a place, freed when this goes.
class PlacedFloats {
 public:
  virtual ~PlacedFloats() = default;
  std::span<float> span() const { return span_; }

 protected:
  explicit PlacedFloats(std::span<float> span) : span_(span) {}

 private:
  std::span<float> span_;
};

class VectorPlace {
 public:
  virtual ~VectorPlace() = default;

  // All `fill`. ResourceExhausted, and all else as before, where there is no room.
  virtual absl::StatusOr<std::unique_ptr<PlacedFloats>> Allocate(size_t floats, float fill) = 0;

  virtual void Fill(std::span<float> to, float value) = 0;
  // to += from, of the same length.
  virtual void Add(std::span<const float> from, std::span<float> to) = 0;
  virtual void Copy(std::span<const float> from, std::span<float> to) = 0;
  // kernel.ApplyAndTell(k, ...). A device's: of a kernel that has a step (StepAt).
  virtual void Apply(const OptimizerKernel& kernel, uint64_t k, std::span<float> w,
                     std::span<float> state, std::span<const float> g, std::span<float> moved,
                     bool fresh) = 0;
};

// The host's memory.
class HostPlace : public VectorPlace {
 public:
  absl::StatusOr<std::unique_ptr<PlacedFloats>> Allocate(size_t floats, float fill) override;
  void Fill(std::span<float> to, float value) override;
  void Add(std::span<const float> from, std::span<float> to) override;
  void Copy(std::span<const float> from, std::span<float> to) override;
  void Apply(const OptimizerKernel& kernel, uint64_t k, std::span<float> w, std::span<float> state,
             std::span<const float> g, std::span<float> moved, bool fresh) override;
};

}  // namespace monsoon
