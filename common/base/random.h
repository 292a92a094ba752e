// Philox 4x32-10 (Salmon et al. 2011), a counter-based generator: the value at
// a counter depends on (key, counter) only, so any slice of a stream can be
// made anywhere with the same bits.
#pragma once

#include <array>
#include <cstdint>

namespace monsoon {

// The 128-bit block at `counter` under the 64-bit `key`.
std::array<uint32_t, 4> Philox4x32(uint64_t key, uint64_t counter_high, uint64_t counter_low);

// What a stream is for: keeps uses of one seed apart (it is the high half of
// the counter, mixed with `index`).
enum class StreamKind : uint32_t {
  kInitializer = 1,
  kPermutation = 2,
  kDropout = 3,
  kSynthetic = 4,
  kSampleDropout = 5,
  kAugmentation = 6,
  kTest = 100,
};

// A stateless stream of uniform values: Bits(i) is the i-th 32-bit word.
class PhiloxStream {
 public:
  // `sub` tells streams of one kind apart: the epoch, the (worker, step)...
  PhiloxStream(uint64_t seed, StreamKind kind, uint32_t sub = 0)
      : seed_(seed), high_((static_cast<uint64_t>(kind) << 32) | sub) {}

  uint32_t Bits(uint64_t index) const { return Philox4x32(seed_, high_, index >> 2)[index & 3]; }
  // In [0, 1), a multiple of 2^-24.
  float Uniform(uint64_t index) const { return static_cast<float>(Bits(index) >> 8) * 0x1p-24f; }
  // N(0, 1) by Box and Muller from words 2i and 2i + 1; deterministic across
  // machines to the last bit of libm's log, cos in double, rounded to float.
  float Normal(uint64_t index) const;
  // Uniform in [0, bound) without modulo bias beyond 2^-32; bound >= 1.
  uint32_t Below(uint64_t index, uint32_t bound) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(Bits(index)) * bound) >> 32);
  }

 private:
  uint64_t seed_;
  uint64_t high_;
};

}  // namespace monsoon
