#include "common/base/finite.h"

#include <algorithm>
#include <bit>

namespace monsoon {
namespace {

constexpr uint32_t kExponent = 0x7f800000;
// A block is scanned without a branch and looked at closely only when it holds
// such a value.
constexpr size_t kBlock = 1024;

bool NonFinite(float value) { return (std::bit_cast<uint32_t>(value) & kExponent) == kExponent; }

}  // namespace

std::optional<uint64_t> FirstNonFinite(std::span<const float> values) {
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(values.size(), begin + kBlock);
    uint32_t found = 0;
    for (size_t i = begin; i < end; ++i) {
      found |= static_cast<uint32_t>(NonFinite(values[i]));
    }
    if (found == 0) {
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      if (NonFinite(values[i])) {
        return i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace monsoon
