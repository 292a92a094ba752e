#include "worker/data/permutation.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"

namespace monsoon {

std::vector<uint32_t> EpochPermutation(uint64_t seed, uint32_t epoch, uint32_t examples) {
  std::vector<uint32_t> order(examples);
  std::iota(order.begin(), order.end(), 0u);
  const PhiloxStream stream(seed, StreamKind::kPermutation, epoch);
  for (uint32_t i = examples; i > 1; --i) {
    std::swap(order[i - 1], order[stream.Below(i, i)]);
  }
  return order;
}

std::vector<uint32_t> BatchSample(uint64_t seed, uint64_t size, uint32_t examples) {
  // No job gets to this epoch, so no epoch's order shows the sample.
  constexpr uint32_t kEpoch = std::numeric_limits<uint32_t>::max();
  if (size == 0 || size >= examples) {
    std::vector<uint32_t> all(examples);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  std::vector<uint32_t> sample = EpochPermutation(seed, kEpoch, examples);
  sample.resize(size);
  std::sort(sample.begin(), sample.end());
  return sample;
}

uint64_t BlockLayout::size(uint64_t block, uint64_t granted) const {
  CHECK_LT(block, blocks());
  const uint64_t size = std::min<uint64_t>(block_examples, examples - block * block_examples);
  return granted == 0 ? size : std::min(size, granted);
}

uint64_t BlockLayout::batches(uint64_t block, uint64_t granted) const {
  return (size(block, granted) + batch_size - 1) / batch_size;
}

std::span<const uint32_t> BlockLayout::Batch(std::span<const uint32_t> permutation, uint64_t block,
                                             uint64_t batch, uint64_t granted) const {
  CHECK_EQ(permutation.size(), examples);
  CHECK_LT(batch, batches(block, granted));
  const uint64_t begin = batch * batch_size;
  return permutation.subspan(block * block_examples + begin,
                             std::min<uint64_t>(batch_size, size(block, granted) - begin));
}

uint32_t BlockExamples(uint32_t block_examples, uint32_t batch_size) {
  constexpr uint32_t kDefaultBatches = 8;
  return block_examples == 0 ? kDefaultBatches * batch_size : block_examples;
}

}  // namespace monsoon
