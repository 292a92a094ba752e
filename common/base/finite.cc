#include "common/base/finite.h"

#include <bit>

namespace monsoon {
namespace {

constexpr uint32_t kExponent = 0x7f800000;
constexpr uint32_t kLowestOfExponent = 0x00800000;
// So many places of an array are read in turn: a core fetches several runs of
// lines faster than one.
constexpr size_t kRuns = 4;

// The top bit is set if all bits of the exponent are: the sum carries over.
uint32_t Carry(float value) {
  return (std::bit_cast<uint32_t>(value) & kExponent) + kLowestOfExponent;
}

// Without a branch; FirstNonFinite looks closely only where it is true.
bool AnyNonFinite(std::span<const float> values) {
  const size_t run = values.size() / kRuns;
  const float* const a = values.data();
  const float* const b = a + run;
  const float* const c = b + run;
  const float* const d = c + run;
  uint32_t found = 0;
  for (size_t i = 0; i < run; ++i) {
    found |= Carry(a[i]) | Carry(b[i]) | Carry(c[i]) | Carry(d[i]);
  }
  for (const float value : values.subspan(kRuns * run)) {
    found |= Carry(value);
  }
  return (found >> 31) != 0;
}

}  // namespace

bool AllFinite(std::span<const float> values) { return !AnyNonFinite(values); }

std::optional<uint64_t> FirstNonFinite(std::span<const float> values) {
  if (AllFinite(values)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if ((Carry(values[i]) >> 31) != 0) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace monsoon
