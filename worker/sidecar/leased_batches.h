// LeasedBatches: the blocks that a program is leased, cut into batches: which it has drawn,
// and which its steps have counted.
//
// As a BlockReader it gives the session an empty batch for each step as long as any batch is
// not counted: what the program computes on is its own affair.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "worker/data/block_reader.h"
#include "worker/data/permutation.h"

namespace monsoon {

class Job;

class LeasedBatches : public BlockReader {
 public:
  // `examples` is what the coordinator plans with.
  LeasedBatches(const Job& job, uint64_t examples);

  // InvalidArgument for a block that the data set does not have.
  absl::Status Append(const BlockId& block) override;
  // Of those that are not counted.
  size_t blocks_left() const override;
  bool wants_more(size_t) const override { return undrawn_.empty(); }
  absl::StatusOr<Piece> Next() override { return Piece{&empty_, std::nullopt}; }

  // All batches that are not drawn, as kDraw is answered; "" where there is none.
  std::string Draw();
  // Drawn, and not counted.
  size_t outstanding() const { return drawn_.size(); }
  // A step counts so many batches: the blocks that they end. InvalidArgument for more than
  // are outstanding.
  absl::StatusOr<std::vector<BlockId>> Count(size_t batches);
  // There are no samples for the rest: the blocks that it ends.
  std::vector<BlockId> CountAll();
  // The program takes no more: what is not counted, and what is leased from now on, is dropped,
  // and ends no block.
  void Close();

 private:
  struct Leased {
    BlockId block;
    uint64_t batch = 0;  // within the block
    bool last = false;
  };
  // The samples of a batch.
  std::vector<uint32_t> SamplesOf(const Leased& batch);

  const uint64_t seed_;
  const bool unnumbered_;
  const BlockLayout layout_;
  Batch empty_;
  bool closed_ = false;
  std::deque<Leased> undrawn_;
  std::deque<Leased> drawn_;
  // Of the epoch used last.
  std::optional<uint32_t> epoch_;
  std::vector<uint32_t> permutation_;
};

}  // namespace monsoon
