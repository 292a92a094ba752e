// ExpectedModel: what a model must hold after so many pushes, so that every
// result can be checked while it is timed. All values repeat with a period of
// 1024 floats, and an optimizer's bits do not depend on how a vector is cut, so
// one period tells the whole vector.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace monsoon {

// Changes w and state by g; the arguments of OptimizerKernel::Apply.
using ApplyFunction = std::function<void(uint64_t k, std::span<float> w, std::span<float> state,
                                         std::span<const float> g)>;

class ExpectedModel {
 public:
  static constexpr size_t kPeriod = 1024;

  ExpectedModel();

  // Repeats a period over `out`.
  static void Fill(const std::vector<float>& period, std::span<float> out);

  const std::vector<float>& parameters() const { return parameters_; }
  const std::vector<float>& state() const { return state_; }
  const std::vector<float>& gradient() const { return gradient_; }

  // One more push of gradient().
  void Push(const ApplyFunction& apply);

  // Makes every 16384th float, and the last one, wrong, so that what a fetch
  // leaves out is seen by CheckSamples.
  static void Spoil(std::span<float> parameters);
  // DataLoss with the first index that differs: of those floats, or of all.
  absl::Status CheckSamples(std::span<const float> parameters) const;
  absl::Status CheckAll(std::span<const float> parameters) const;

 private:
  std::vector<float> parameters_;
  std::vector<float> state_;
  std::vector<float> gradient_;
  uint64_t pushes_ = 0;
};

}  // namespace monsoon
