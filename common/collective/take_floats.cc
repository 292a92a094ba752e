#include "common/collective/take_floats.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/collective/sum_loops.h"
#include "common/simd/simd_level.h"

namespace monsoon {
namespace {

// What lies in several pieces goes through memory of this size, which stays in the first cache.
constexpr size_t kBlockFloats = 2048;

const SumLoops& Loops() {
  return ActiveLoops(simd_baseline::kSumLoops, simd_avx2::kSumLoops, simd_avx512::kSumLoops);
}

}  // namespace

void CopyFloats(ChunkCursor* payload, std::span<float> to) {
  payload->Copy(to.size_bytes(), to.data());
}

void AddFloats(ChunkCursor* payload, std::span<float> to) {
  if (const std::byte* const whole = payload->Peek(to.size_bytes(), alignof(float))) {
    Loops().add(to.size(), reinterpret_cast<const float*>(whole), to.data());
    payload->Skip(to.size_bytes());
    return;
  }
  std::array<float, kBlockFloats> block;
  while (!to.empty()) {
    const size_t size = std::min(to.size(), block.size());
    payload->Copy(size * sizeof(float), block.data());
    Loops().add(size, block.data(), to.data());
    to = to.subspan(size);
  }
}

void SumFloats(std::span<const std::span<const float>> operands, std::span<float> to) {
  CHECK(!operands.empty());
  // `to` may be an operand, so the sum grows elsewhere.
  std::array<float, kBlockFloats> sum;
  for (size_t begin = 0; begin < to.size(); begin += sum.size()) {
    const size_t size = std::min(to.size() - begin, sum.size());
    std::memcpy(sum.data(), operands[0].data() + begin, size * sizeof(float));
    for (const std::span<const float> operand : operands.subspan(1)) {
      Loops().add(size, operand.data() + begin, sum.data());
    }
    std::memcpy(to.data() + begin, sum.data(), size * sizeof(float));
  }
}

}  // namespace monsoon
