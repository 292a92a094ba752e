// PushLedger: what has become of a session's pushes: which sequence the next one has, which all
// shards have, and which blocks of the data are done with them.
//
// A push that was sent is acknowledged once all shards have it, which is later where one is
// away. A block's last step is in a push; the block is done when each fragment has left since,
// with the acknowledgement of fragments - 1 pushes more. A refused push is given up, and its
// blocks count as visited.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "proto/coordinator.pb.h"

namespace monsoon {

class PushLedger {
 public:
  // `fragments`: as many pushes take the whole model, at least 1.
  explicit PushLedger(uint32_t fragments) : fragments_(fragments) {}

  // The newest sequence that shards were sent; 0: none.
  uint64_t last() const { return last_; }
  // Of the push that is made, or in flight.
  uint64_t next() const { return last_ + 1; }

  // The push next() was sent. A push that was refused before that leaves its sequence to the
  // one after it.
  void Sent() { ++last_; }
  // The push of that sequence is over, and has the last steps of `blocks`.
  void Over(uint64_t sequence, bool refused, std::vector<BlockId> blocks);

  // All shards have what was pushed up to `sequence`. Gives the pushes of which this is news,
  // rising; without those that were refused.
  std::vector<uint64_t> Acknowledge(uint64_t sequence);

  // All that there was has left and is acknowledged, or was given up: no block waits for a push
  // any more, nor do `blocks`. A push that was refused before it was sent, and one fragment of
  // many, wait for a later push, which does not come where all later steps are dropped.
  void FinishAll(std::vector<BlockId> blocks);
  // Blocks that are done, each once.
  std::vector<BlockId> TakeDone();

 private:
  struct Unacknowledged {
    uint64_t sequence = 0;
    bool refused = false;
    std::vector<BlockId> blocks;
  };
  struct Unfinished {
    uint64_t with_push = 0;
    std::vector<BlockId> blocks;
  };

  void Finish(std::vector<BlockId> blocks);

  const uint32_t fragments_;
  uint64_t last_ = 0;
  std::deque<Unacknowledged> unacknowledged_;  // sequences do not fall
  std::deque<Unfinished> unfinished_;          // acknowledged
  std::vector<BlockId> done_;
};

}  // namespace monsoon
