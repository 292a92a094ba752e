// EstimateNoise: how much of a function's values is rounding (More and Wild,
// "Estimating Computational Noise", SIAM J. Sci. Comput. 33(3), 2011: ECNoise). The
// k-th differences of a smooth function at close, evenly spaced points vanish as k
// grows; those of noise with standard deviation e have the mean square
// e^2 (2k)! / (k!)^2, which tells e where three orders agree.
//
// Pure.
#pragma once

#include <optional>
#include <span>

namespace monsoon {

// Points that are enough for an estimate.
inline constexpr int kNoisePoints = 7;

// The noise of `values`, at least 4 and finite, in their unit; nothing when no three
// orders of differences agree: the points are too far apart, or too close to differ.
std::optional<double> EstimateNoise(std::span<const double> values);

}  // namespace monsoon
