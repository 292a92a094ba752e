#include "common/collective/cost_table.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

constexpr float kFrameSeconds = 40e-6f;
constexpr float kByteSeconds = 0.4e-9f;

size_t PlaceOf(Algorithm algorithm) {
  const auto* const place = std::ranges::find(CostTable::kAlgorithms, algorithm);
  CHECK(place != CostTable::kAlgorithms.end());
  return place - CostTable::kAlgorithms.begin();
}

}  // namespace

Cost FitCost(std::span<const CostSample> samples) {
  CHECK(!samples.empty());
  // Weighted least squares with weights 1 / seconds^2.
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const CostSample& sample : samples) {
    const double weight = 1 / (sample.seconds * sample.seconds);
    w += weight;
    wx += weight * sample.bytes;
    wxx += weight * sample.bytes * sample.bytes;
    wy += weight * sample.seconds;
    wxy += weight * sample.bytes * sample.seconds;
  }
  const double determinant = w * wxx - wx * wx;
  double beta = determinant > 0 ? (w * wxy - wx * wy) / determinant : 0;
  beta = std::max(beta, 0.0);
  double alpha = (wy - beta * wx) / w;
  if (alpha < 0) {
    alpha = 0;
    beta = wxy / wxx;
  }
  return {static_cast<float>(alpha), static_cast<float>(beta)};
}

CostTable::CostTable(uint32_t members) {
  const auto n = static_cast<float>(members);
  const auto levels = static_cast<float>(std::bit_width(members - 1));
  const float others = n - 1;
  Set(Algorithm::kNaive, {2 * kFrameSeconds, 2 * others * kByteSeconds});
  Set(Algorithm::kTree, {2 * levels * kFrameSeconds, 2 * levels * kByteSeconds});
  Set(Algorithm::kRing, {2 * others * kFrameSeconds, 2 * others / n * kByteSeconds});
  Set(Algorithm::kDirect, {2 * kFrameSeconds, 2 * others / n * kByteSeconds});
  Set(Algorithm::kExchange, {kFrameSeconds, others * kByteSeconds});
}

const Cost& CostTable::at(Algorithm algorithm) const { return costs_[PlaceOf(algorithm)]; }

void CostTable::Set(Algorithm algorithm, Cost cost) { costs_[PlaceOf(algorithm)] = cost; }

Algorithm CostTable::Choose(SumOrder order, uint64_t bytes) const {
  Algorithm best = Algorithm::kNaive;
  const auto seconds = [&](Algorithm algorithm) {
    return at(algorithm).alpha + at(algorithm).beta * static_cast<float>(bytes);
  };
  for (const Algorithm algorithm : kAlgorithms) {
    const bool by_rank_costs = algorithm == Algorithm::kTree || algorithm == Algorithm::kRing;
    if ((order == SumOrder::kFixed || !by_rank_costs) && seconds(algorithm) < seconds(best)) {
      best = algorithm;
    }
  }
  return best;
}

std::vector<float> CostTable::ToFloats() const {
  std::vector<float> floats;
  for (const Cost& cost : costs_) {
    floats.push_back(cost.alpha);
    floats.push_back(cost.beta);
  }
  return floats;
}

void CostTable::FromFloats(std::span<const float> floats) {
  CHECK_EQ(floats.size(), kFloats);
  for (size_t i = 0; i < costs_.size(); ++i) {
    costs_[i] = {floats[2 * i], floats[2 * i + 1]};
  }
}

std::string CostTable::Describe() const {
  std::string text;
  for (const Algorithm algorithm : kAlgorithms) {
    absl::StrAppendFormat(&text, "%s%s %.1f us + %.3f ns/B", text.empty() ? "" : ", ",
                          Name(algorithm), at(algorithm).alpha * 1e6, at(algorithm).beta * 1e9);
  }
  return text;
}

}  // namespace monsoon
