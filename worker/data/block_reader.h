// BlockReader: turns leased blocks into batches, in order. An interface, so
// that a session is tested without a data set.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "worker/nn/batch.h"

namespace monsoon {

class BlockReader {
 public:
  struct Piece {
    // Valid until the next call of Next. May be swapped for another one of the
    // same capacity.
    Batch* batch = nullptr;
    std::optional<BlockId> last_of;  // the batch is the last one of this block
  };

  virtual ~BlockReader() = default;

  // Reads this block after those appended before; may begin at once.
  virtual absl::Status Append(const BlockId& block) = 0;

  // Blocks with batches that Next did not give yet.
  virtual size_t blocks_left() const = 0;

  // More blocks are to be asked for, so that one comes before the last is used up by rounds
  // of `room` batches.
  virtual bool wants_more(size_t room) const { return blocks_left() <= room; }

  // The next batch; only when blocks_left() > 0. Blocks until it is read.
  virtual absl::StatusOr<Piece> Next() = 0;
};

}  // namespace monsoon
