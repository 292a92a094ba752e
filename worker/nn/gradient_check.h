// The finite-difference check used for every layer's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace monsoon {

struct GradientError {
  // Largest |given - numeric| / max(|given|, |numeric|, kGradientFloor).
  double relative = 0;
  size_t index = 0;  // where
  double given = 0;
  double numeric = 0;
};

// Below this size differences are judged absolutely: rounding of the loss
// (about 1e-16 / step) would dominate.
inline constexpr double kGradientFloor = 1e-3;

// Compares `gradient` of `loss` at `at` with central differences of half width
// `step`, at each index where `use` is true.
GradientError CheckGradient(const std::function<double(std::span<const double>)>& loss,
                            std::span<const double> at, std::span<const double> gradient,
                            const std::function<bool(size_t)>& use, double step = 1e-6);

}  // namespace monsoon
