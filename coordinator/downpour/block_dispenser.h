// BlockDispenser: which replica trains on which block of which epoch.
//
// The data set is cut into blocks 0..B-1 of `block_examples` samples, the last
// one possibly shorter (the permutation of samples inside an epoch is the
// replica's). The live replica at position i of N owns the unstarted blocks
// b = i mod N and takes them in order; when it has none left it takes others'
// from the end. When an epoch has no unstarted block the next epoch begins, so
// there is no barrier between replicas, but no lease is more than
// `max_epochs_ahead` epochs past the oldest epoch that is not done.
//
// A job may end within a block: of the last one then only the first samples are
// granted, so that the replicas' samples add up to the limit exactly.
//
// Invariants: an unreleased block has one holder; each block up to the limit
// is done at least once before all_done(); with one replica the order is
// (0,0), (0,1) ... (0,B-1), (1,0) ...
//
// A pure state machine: no clock, no randomness. Not thread safe.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace monsoon {

struct BlockRef {
  uint32_t epoch = 0;
  uint32_t block = 0;
  auto operator<=>(const BlockRef&) const = default;
};

class BlockDispenser {
 public:
  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  struct Options {
    uint64_t examples = 0;        // > 0
    uint64_t block_examples = 0;  // > 0
    // Blocks of all epochs together; kNoLimit: until Stop().
    uint64_t total_blocks = kNoLimit;
    // Of the last of them; 0: all that it has.
    uint64_t last_block_examples = 0;
    uint32_t max_epochs_ahead = 1;
    // Done before: the epochs below this one, and these blocks of later ones.
    uint32_t first_epoch = 0;
    std::vector<BlockRef> done;
    // Leased before, and not done.
    std::vector<std::pair<BlockRef, uint32_t>> held;  // block, worker
  };

  explicit BlockDispenser(const Options& options);

  // The live replicas; their positions are in order of the worker number.
  // Unstarted blocks change owners, leases do not.
  void SetReplicas(const std::set<uint32_t>& workers);

  // The next block for `worker`, which must be one of the replicas. Released
  // blocks come first. Nothing when none may be leased now.
  std::optional<BlockRef> Lease(uint32_t worker);

  // All gradients of the block are acknowledged. False, and no change, unless
  // `worker` holds it (a repeated or late report).
  bool Done(uint32_t worker, BlockRef block);

  // Takes back what `worker` holds, to be leased again (after Stop: dropped).
  // Returns how many blocks will be leased again.
  uint64_t Release(uint32_t worker);

  // Nothing more is leased; what is held may still be done.
  void Stop();

  // Nothing is unstarted or released any more, but blocks may be held.
  bool exhausted() const;
  // Exhausted, and nothing is held.
  bool all_done() const { return exhausted() && leases_.empty(); }
  // `worker` holds a block of the oldest epoch that is not done.
  bool HoldsUp(uint32_t worker) const;
  // Blocks that `worker` holds.
  uint64_t held(uint32_t worker) const;

  uint64_t blocks_per_epoch() const { return blocks_per_epoch_; }
  // Those that were done before do not count, here and below.
  uint64_t blocks_done() const { return blocks_done_; }
  uint64_t blocks_done_by(uint32_t worker) const;
  uint64_t blocks_released() const { return blocks_released_; }
  // Samples in all blocks that are done, over all epochs.
  uint64_t examples_done() const { return examples_done_; }
  // Samples that a lease of the block grants.
  uint64_t examples_of(BlockRef block) const;
  // Whether that is all the block has.
  bool whole(BlockRef block) const { return examples_of(block) == size_of(block.block); }

 private:
  struct Epoch {
    uint32_t number = 0;
    uint32_t blocks = 0;  // that belong to it, fewer in a last, partial epoch
    uint32_t unstarted = 0;
    uint32_t done = 0;
    uint32_t steal_end = 0;  // all blocks from here on are started
    std::vector<bool> started;
    std::map<uint32_t, uint32_t> own_next;  // worker -> first block not looked at
  };

  uint64_t size_of(uint32_t block) const;
  // Blocks of epoch `number` under the limit.
  uint32_t BlocksOf(uint64_t number) const;
  // Opens the next epoch if the limits allow it.
  bool OpenEpoch();
  void AddEpoch();
  void SkipDone();
  // Marks it as started. Null: no open epoch has it, or it was started before.
  Epoch* Start(BlockRef block);
  std::optional<uint32_t> Take(Epoch* epoch, uint32_t worker);

  const Options options_;
  const uint64_t blocks_per_epoch_;
  bool stopped_ = false;
  std::map<uint32_t, uint32_t> position_;  // worker -> position
  std::deque<Epoch> epochs_;               // open ones, oldest first
  uint64_t next_epoch_ = 0;
  std::map<BlockRef, uint32_t> leases_;  // block -> worker
  std::set<BlockRef> released_;
  std::map<uint32_t, uint64_t> done_by_;
  uint64_t blocks_done_ = 0;
  uint64_t blocks_released_ = 0;
  uint64_t examples_done_ = 0;
};

}  // namespace monsoon
