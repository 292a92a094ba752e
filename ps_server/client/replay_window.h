// ReplayWindow: what a sender keeps of its pushes to one shard until they are durable
// there, and which of them is to be sent next. A shard acknowledges from memory; when
// it is started anew it has what a generation held, and the sender sends the rest
// again: the same bytes under the same sequences.
//
//   asks for marks -> sends from the first push that the shard has not got -> forgets
//   what is durable;  a new epoch or a new connection: asks for marks again.
//
// Rules, each of which closes a hole:
// - Nothing is sent before the marks of this connection were read; the epoch in a
//   record is stamped when it is sent, after that.
// - Acknowledgements and marks count only from the epoch that the coordinator named.
// - What is durable is what the older of the shard's two generations holds: the newest
//   may be damaged when it is needed.
//
// A pure state machine. Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "ps_server/client/kept_bytes.h"

namespace monsoon {

class ReplayWindow {
 public:
  struct Push {
    uint64_t sequence = 0;
    // Encoded once, never changed; of all stripes of the shard.
    std::shared_ptr<const KeptBytes> bytes;
    bool replayed = false;  // the shard had acknowledged it in an earlier life
  };

  // Keeps at most `limit_bytes`, and one push in any case.
  explicit ReplayWindow(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // ---- the sender's side ----
  // No room for another push of this many bytes: wait until some are durable.
  bool full(uint64_t bytes) const;
  // Pushes need not survive the shard any more: from now on what is acknowledged is not
  // kept.
  void Forgo();
  // The next push; its sequence, from 1.
  uint64_t Add(std::shared_ptr<const KeptBytes> bytes);

  // ---- the connection's side ----
  // The coordinator names the shard's epoch (OpenSession, or the news that it was
  // restored). Another one than before: marks must be read.
  void NameEpoch(uint64_t shard_epoch);
  // The connection was opened anew: what was sent on the last one may be lost.
  void Reconnect() { asks_ = true; }
  // The shard is in another epoch; the coordinator will name it.
  void OnRefusedEpoch() { asks_ = true; }

  // Marks are to be asked for, and nothing may be sent. Else they may be asked for, to
  // learn what has become durable.
  bool asks() const { return asks_; }
  // Of all stripes of the shard: the least that is applied, and the least that is
  // durable. Ignored unless they come from the epoch that was named. DataLoss, with the
  // range, where the shard has less than what it called durable.
  absl::Status OnMarks(uint64_t shard_epoch, uint64_t applied, uint64_t durable);

  // The push to send now, under epoch(); null: there is none.
  const Push* Next() const;
  void OnSent();
  // All stripes of the shard have acknowledged `sequence` in `shard_epoch`, where
  // `durable` is the least that they call so.
  void OnAcknowledged(uint64_t shard_epoch, uint64_t sequence, uint64_t durable);

  uint64_t epoch() const { return epoch_; }
  uint64_t last() const { return last_; }                            // added
  uint64_t acknowledged() const { return acknowledged_; }            // in the epoch that was named
  uint64_t once_acknowledged() const { return once_acknowledged_; }  // in any
  uint64_t durable() const { return durable_; }
  uint64_t bytes() const { return bytes_; }
  // All that was acknowledged in an earlier epoch is acknowledged in this one: its
  // parameters may be installed.
  bool caught_up() const { return !asks_ && acknowledged_ >= once_acknowledged_; }

 private:
  void Forget(uint64_t durable);

  const uint64_t limit_bytes_;
  uint64_t epoch_ = 0;
  bool asks_ = true;
  std::deque<Push> kept_;  // sequences durable_ + 1 .. last_
  uint64_t bytes_ = 0;
  uint64_t last_ = 0;
  uint64_t next_ = 1;  // the cursor: to be sent
  uint64_t acknowledged_ = 0;
  uint64_t once_acknowledged_ = 0;  // in any epoch
  uint64_t durable_ = 0;
  bool forgoes_ = false;
};

}  // namespace monsoon
