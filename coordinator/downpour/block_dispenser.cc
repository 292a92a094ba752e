#include "coordinator/downpour/block_dispenser.h"

#include <algorithm>

#include "common/base/check.h"

namespace monsoon {

BlockDispenser::BlockDispenser(const Options& options)
    : options_(options),
      blocks_per_epoch_((options.examples + options.block_examples - 1) / options.block_examples) {
  CHECK(options.examples > 0 && options.block_examples > 0);
  next_epoch_ = options.first_epoch;
  SkipDone();
}

void BlockDispenser::SkipDone() {
  for (const BlockRef& block : options_.done) {
    if (Epoch* const epoch = Start(block)) {
      ++epoch->done;
    }
  }
  for (const auto& [block, worker] : options_.held) {
    if (Start(block) != nullptr) {
      leases_[block] = worker;
    }
  }
  while (!epochs_.empty() && epochs_.front().done == epochs_.front().blocks) {
    epochs_.pop_front();
  }
}

BlockDispenser::Epoch* BlockDispenser::Start(BlockRef block) {
  while (next_epoch_ <= block.epoch && BlocksOf(next_epoch_) > 0) {
    AddEpoch();
  }
  for (Epoch& epoch : epochs_) {
    if (epoch.number == block.epoch && block.block < epoch.blocks && !epoch.started[block.block]) {
      epoch.started[block.block] = true;
      --epoch.unstarted;
      return &epoch;
    }
  }
  return nullptr;
}

void BlockDispenser::SetReplicas(const std::set<uint32_t>& workers) {
  position_.clear();
  uint32_t position = 0;
  for (const uint32_t worker : workers) {
    position_[worker] = position++;
  }
  for (Epoch& epoch : epochs_) {
    epoch.own_next.clear();
  }
}

uint32_t BlockDispenser::BlocksOf(uint64_t number) const {
  if (number >= options_.total_blocks / blocks_per_epoch_ + 1) {
    return 0;
  }
  const uint64_t left = options_.total_blocks - number * blocks_per_epoch_;
  return static_cast<uint32_t>(std::min(left, blocks_per_epoch_));
}

bool BlockDispenser::OpenEpoch() {
  if (stopped_ || BlocksOf(next_epoch_) == 0) {
    return false;
  }
  if (!epochs_.empty() &&
      next_epoch_ > uint64_t{epochs_.front().number} + options_.max_epochs_ahead) {
    return false;
  }
  AddEpoch();
  return true;
}

void BlockDispenser::AddEpoch() {
  Epoch epoch;
  epoch.number = static_cast<uint32_t>(next_epoch_);
  epoch.blocks = epoch.unstarted = epoch.steal_end = BlocksOf(next_epoch_);
  epoch.started.resize(epoch.blocks, false);
  epochs_.push_back(std::move(epoch));
  ++next_epoch_;
}

std::optional<uint32_t> BlockDispenser::Take(Epoch* epoch, uint32_t worker) {
  if (epoch->unstarted == 0) {
    return std::nullopt;
  }
  const auto position = position_.find(worker);
  CHECK(position != position_.end());
  const auto replicas = static_cast<uint32_t>(position_.size());
  const auto [next, inserted] = epoch->own_next.try_emplace(worker, position->second);
  std::optional<uint32_t> taken;
  while (next->second < epoch->blocks && !taken) {
    if (!epoch->started[next->second]) {
      taken = next->second;
    }
    next->second += replicas;
  }
  while (!taken) {
    CHECK(epoch->steal_end > 0);
    --epoch->steal_end;
    if (!epoch->started[epoch->steal_end]) {
      taken = epoch->steal_end;
    }
  }
  epoch->started[*taken] = true;
  --epoch->unstarted;
  return taken;
}

std::optional<BlockRef> BlockDispenser::Lease(uint32_t worker) {
  if (stopped_) {
    return std::nullopt;
  }
  if (!released_.empty()) {
    const BlockRef block = *released_.begin();
    released_.erase(released_.begin());
    leases_[block] = worker;
    return block;
  }
  for (size_t i = 0; i < epochs_.size() || OpenEpoch(); ++i) {
    if (const std::optional<uint32_t> taken = Take(&epochs_[i], worker)) {
      const BlockRef block{epochs_[i].number, *taken};
      leases_[block] = worker;
      return block;
    }
  }
  return std::nullopt;
}

bool BlockDispenser::Done(uint32_t worker, BlockRef block) {
  const auto lease = leases_.find(block);
  if (lease == leases_.end() || lease->second != worker) {
    return false;
  }
  leases_.erase(lease);
  ++blocks_done_;
  ++done_by_[worker];
  examples_done_ += examples_of(block);
  for (Epoch& epoch : epochs_) {
    if (epoch.number == block.epoch) {
      ++epoch.done;
    }
  }
  while (!epochs_.empty() && epochs_.front().done == epochs_.front().blocks) {
    epochs_.pop_front();
  }
  return true;
}

uint64_t BlockDispenser::Release(uint32_t worker) {
  uint64_t count = 0;
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    if (lease->second != worker) {
      ++lease;
      continue;
    }
    if (!stopped_) {
      released_.insert(lease->first);
      ++count;
    }
    lease = leases_.erase(lease);
  }
  blocks_released_ += count;
  return count;
}

void BlockDispenser::Stop() {
  stopped_ = true;
  released_.clear();
}

bool BlockDispenser::exhausted() const {
  if (stopped_) {
    return true;
  }
  if (!released_.empty() || BlocksOf(next_epoch_) > 0) {
    return false;
  }
  return std::all_of(epochs_.begin(), epochs_.end(),
                     [](const Epoch& epoch) { return epoch.unstarted == 0; });
}

bool BlockDispenser::HoldsUp(uint32_t worker) const {
  if (epochs_.empty()) {
    return false;
  }
  // Leases are ordered by epoch, and no open epoch is older than the first.
  for (const auto& [block, holder] : leases_) {
    if (block.epoch != epochs_.front().number) {
      break;
    }
    if (holder == worker) {
      return true;
    }
  }
  return false;
}

uint64_t BlockDispenser::held(uint32_t worker) const {
  return static_cast<uint64_t>(
      std::count_if(leases_.begin(), leases_.end(),
                    [worker](const auto& lease) { return lease.second == worker; }));
}

uint64_t BlockDispenser::blocks_done_by(uint32_t worker) const {
  const auto found = done_by_.find(worker);
  return found == done_by_.end() ? 0 : found->second;
}

uint64_t BlockDispenser::examples_of(BlockRef block) const {
  const uint64_t size = size_of(block.block);
  const uint64_t number = block.epoch * blocks_per_epoch_ + block.block;
  const bool last = options_.last_block_examples > 0 && number + 1 == options_.total_blocks;
  return last ? std::min(size, options_.last_block_examples) : size;
}

uint64_t BlockDispenser::size_of(uint32_t block) const {
  return block + 1 < blocks_per_epoch_
             ? options_.block_examples
             : options_.examples - (blocks_per_epoch_ - 1) * options_.block_examples;
}

}  // namespace monsoon
