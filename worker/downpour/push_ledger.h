// PushLedger: what has become of a session's pushes: which sequence the next one has, which all
// shards have, and which blocks of the data, and parts of streams, are done with them.
//
// A push that was sent is acknowledged once all shards have it, which is later where one is
// away. A part's last step is in a push; the part is done when each fragment has left since,
// with the acknowledgement of fragments - 1 pushes more. A refused push is given up, and its
// parts count as visited.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "proto/coordinator.pb.h"
#include "worker/session/done_part.h"

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
  // The push of that sequence is over, and has the last steps of `parts`.
  void Over(uint64_t sequence, bool refused, std::vector<DonePart> parts);

  // All shards have what was pushed up to `sequence`. Gives the pushes of which this is news,
  // rising; without those that were refused.
  std::vector<uint64_t> Acknowledge(uint64_t sequence);

  // All that there was has left and is acknowledged, or was given up: no part waits for a push
  // any more, nor do `parts`. A push that was refused before it was sent, and one fragment of
  // many, wait for a later push, which does not come where all later steps are dropped.
  void FinishAll(std::vector<DonePart> parts);
  // Parts that are done, each once, with their pushes.
  std::vector<DonePart> TakeDone();

 private:
  struct Unacknowledged {
    uint64_t sequence = 0;
    bool refused = false;
    std::vector<DonePart> parts;
  };
  struct Unfinished {
    uint64_t sequence = 0;
    uint64_t with_push = 0;
    std::vector<DonePart> parts;
  };

  void Finish(uint64_t sequence, std::vector<DonePart> parts);

  const uint32_t fragments_;
  uint64_t last_ = 0;
  std::deque<Unacknowledged> unacknowledged_;  // sequences do not fall
  std::deque<Unfinished> unfinished_;          // acknowledged
  std::vector<DonePart> done_;
};

}  // namespace monsoon
