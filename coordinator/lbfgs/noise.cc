#include "coordinator/lbfgs/noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/check.h"

namespace monsoon {
namespace {

// Orders that agree within this factor show the same noise, as ECNoise has it.
constexpr double kAgreement = 4.0;
constexpr size_t kAgreeing = 3;

}  // namespace

std::optional<double> EstimateNoise(std::span<const double> values) {
  CHECK_GT(values.size(), kAgreeing);
  std::vector<double> differences(values.begin(), values.end());
  std::vector<double> levels;
  std::vector<bool> alternates;
  double gamma = 1.0;
  while (differences.size() > 1) {
    for (size_t i = 0; i + 1 < differences.size(); ++i) {
      differences[i] = differences[i + 1] - differences[i];
    }
    differences.pop_back();
    const auto order = static_cast<double>(levels.size() + 1);
    gamma *= order / (2.0 * (2.0 * order - 1.0));
    double squares = 0.0;
    for (const double difference : differences) {
      squares += difference * difference;
    }
    levels.push_back(std::sqrt(gamma * squares / static_cast<double>(differences.size())));
    const auto [least, most] = std::ranges::minmax(differences);
    alternates.push_back(least < 0.0 && most > 0.0);
  }
  for (size_t k = 0; k + kAgreeing <= levels.size(); ++k) {
    const auto [least, most] = std::ranges::minmax(std::span(levels).subspan(k, kAgreeing));
    if (alternates[k] && most <= kAgreement * least) {
      return levels[k];
    }
  }
  return std::nullopt;
}

}  // namespace monsoon
