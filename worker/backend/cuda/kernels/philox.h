// Philox 4x32-10 and the dropout streams made of it, bit for bit those of
// common/base/random.h and worker/nn/dropout_mask.h.
#pragma once

#include <cstdint>

#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

struct PhiloxBlock {
  uint32_t word[4];
};

// Constants: Salmon et al. 2011, table 2.
MONSOON_PORTABLE PhiloxBlock Philox(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock c = {{static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                    static_cast<uint32_t>(counter_high),
                    static_cast<uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(0xD2511F53u) * c.word[0];
    const uint64_t product1 = static_cast<uint64_t>(0xCD9E8D57u) * c.word[2];
    c = {{static_cast<uint32_t>(product1 >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ c.word[3] ^ key1,
          static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

// StreamKind::kDropout, kSampleDropout and kAugmentation, in the high half of a stream.
inline constexpr uint64_t kDropoutStream = uint64_t{3} << 32;
inline constexpr uint64_t kSampleDropoutStream = uint64_t{5} << 32;
inline constexpr uint64_t kAugmentationStream = uint64_t{6} << 32;

// The key of a step's masks or augmentations, or of one sample's masks.
MONSOON_PORTABLE uint64_t DropoutKey(uint64_t seed, uint64_t high, uint64_t low) {
  const PhiloxBlock bits = Philox(seed, high, low);
  return (static_cast<uint64_t>(bits.word[1]) << 32) | bits.word[0];
}

// Where a layer's mask comes from, fixed when the network is made.
struct DropoutLayer {
  uint64_t stream;      // kDropoutStream | layer
  uint64_t drop_below;  // rate * 2^32
  float kept;           // 1 / (1 - rate)
};

// Of the element whose word it is.
MONSOON_PORTABLE float DropoutFactor(const DropoutLayer& layer, uint32_t word) {
  return word < layer.drop_below ? 0.0f : layer.kept;
}

// Element e takes word e % 4 of block e / 4.
MONSOON_PORTABLE float DropoutFactor(const DropoutLayer& layer, uint64_t key, uint64_t stream,
                                     uint32_t element) {
  return DropoutFactor(layer, Philox(key, stream, element / 4).word[element % 4]);
}

}  // namespace monsoon::cuda
