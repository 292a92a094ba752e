// The data order: each epoch is one permutation of the data set, cut into
// blocks, the unit that workers lease; a block is cut into batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace monsoon {

// Fisher and Yates' shuffle of 0 .. examples - 1 (Durstenfeld 1964), drawn from
// a Philox stream keyed by (seed, epoch): the same in every process.
std::vector<uint32_t> EpochPermutation(uint64_t seed, uint32_t epoch, uint32_t examples);

// The fixed sample of a batch job, as ascending indices: the first `size` of a
// permutation of its own, so the same in every process. `size` 0 or not below
// `examples`: all of them, in order.
std::vector<uint32_t> BatchSample(uint64_t seed, uint64_t size, uint32_t examples);

// Block sizes for a data set; the last block may be short.
struct BlockLayout {
  uint64_t examples = 0;
  uint32_t block_examples = 1;
  uint32_t batch_size = 1;

  uint64_t blocks() const { return (examples + block_examples - 1) / block_examples; }
  // Samples of block `block`, of which `granted` may be trained on; 0: all.
  uint64_t size(uint64_t block, uint64_t granted = 0) const;
  // Batches of these samples; the last one may be short.
  uint64_t batches(uint64_t block, uint64_t granted = 0) const;
  // The slice of the epoch's permutation that batch `batch` of `block` has.
  std::span<const uint32_t> Batch(std::span<const uint32_t> permutation, uint64_t block,
                                  uint64_t batch, uint64_t granted = 0) const;
};

// The job's block size: `block_examples`, or 8 batches where it is 0.
uint32_t BlockExamples(uint32_t block_examples, uint32_t batch_size);

}  // namespace monsoon
