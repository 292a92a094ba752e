// CostTable: what an all-reduce costs by each algorithm, seconds = alpha + beta * bytes, fitted to
// what was measured, and which is the cheapest. All members must have the same table, or they
// would not make the same calls: one measures and sends it.
//
// Plain values; thread safe as such.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/collective/collective.h"

namespace monsoon {

struct Cost {
  float alpha = 0;  // seconds
  float beta = 0;   // seconds a byte
};

// One measured call.
struct CostSample {
  double bytes = 0;
  double seconds = 0;
};

// The line that fits best, by the squares of relative errors: a small size counts as much as a
// large one. Neither number is negative. At least one sample.
Cost FitCost(std::span<const CostSample> samples);

class CostTable {
 public:
  // What kAuto chooses from.
  static constexpr std::array<Algorithm, 5> kAlgorithms = {Algorithm::kNaive, Algorithm::kTree,
                                                           Algorithm::kRing, Algorithm::kDirect,
                                                           Algorithm::kExchange};
  static constexpr size_t kFloats = 2 * kAlgorithms.size();

  // By the formulas of collective.h, for a host of memory and frames as were measured on
  // 2 cores (docs/benchmarks.md): 40 us a frame, 0.4 ns a byte.
  explicit CostTable(uint32_t members);

  const Cost& at(Algorithm algorithm) const;
  void Set(Algorithm algorithm, Cost cost);

  // kByRank: among those whose cost does not depend on the order.
  Algorithm Choose(SumOrder order, uint64_t bytes) const;

  // As it travels.
  std::vector<float> ToFloats() const;
  void FromFloats(std::span<const float> floats);

  // "TREE 80 us + 0.80 ns/B, ...".
  std::string Describe() const;

 private:
  std::array<Cost, kAlgorithms.size()> costs_;
};

}  // namespace monsoon
