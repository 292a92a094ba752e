#include "common/base/random.h"

#include <cmath>
#include <numbers>

namespace monsoon {

std::array<uint32_t, 4> Philox4x32(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  // Constants of the paper, table 2.
  constexpr uint32_t kMultiplier0 = 0xD2511F53;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;

  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

float PhiloxStream::Normal(uint64_t index) const {
  // Two words give one normal; the second of the pair is not used, so that the
  // i-th value needs no neighbour.
  const uint32_t a = Bits(2 * index);
  const uint32_t b = Bits(2 * index + 1);
  const double u1 = (static_cast<double>(a) + 0.5) * 0x1p-32;
  const double u2 = static_cast<double>(b) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2));
}

}  // namespace monsoon
