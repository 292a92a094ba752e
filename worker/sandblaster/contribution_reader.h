// ContributionReader: cuts the contributions of a batch job into batches, and
// gathers the next batches, be they of the same contribution or of the one after
// it, in a thread of its own while the current ones compute.
//
// A contribution is cut into chunks of chunk_examples, a chunk into batches of
// batch_size; the last of each may be short. The cut depends on the
// contribution alone.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "worker/data/data_source.h"
#include "worker/nn/batch.h"
#include "worker/session/background_call.h"

namespace monsoon {

class Job;

class ContributionReader {
 public:
  struct Piece {
    // Valid until the next call of Next or Clear. May be swapped for another one
    // of the same capacity.
    Batch* batch = nullptr;
    std::span<const uint32_t> samples;  // the data set's indices of the batch
    bool ends_chunk = false;
    bool ends_contribution = false;
  };

  // `source` must outlive this; the batch is the job's sample of it. Gathers
  // `ahead` batches at a time: as many as are computed at once.
  ContributionReader(const DataSource* source, const Job& job, uint32_t ahead = 1);
  // Waits for the batches that are being gathered.
  ~ContributionReader() = default;

  // Reads it after those appended before; begins to gather at once.
  // InvalidArgument for positions that the batch does not have: the coordinator
  // counts other samples than this worker reads.
  absl::Status Append(const NextWorkReply::Contribution& contribution);

  // Pieces that Next did not give yet.
  size_t pieces_left() const { return cuts_.size(); }

  // The next batch; only when pieces_left() > 0. Blocks until it is gathered. The data set's
  // error where it cannot be; nothing but Clear may follow.
  absl::StatusOr<Piece> Next();

  // Forgets all that Next did not give.
  void Clear();

  // Samples in the batch.
  uint64_t examples() const { return order_.size(); }

 private:
  struct Cut {
    std::span<const uint32_t> samples;
    bool ends_chunk = false;
    bool ends_contribution = false;
  };

  void GatherAhead();
  absl::Status AwaitGathered();

  const DataSource* const source_;
  const uint32_t batch_size_;
  const uint32_t chunk_examples_;
  const std::vector<uint32_t> order_;  // position in the batch -> index in the data set
  std::deque<Cut> cuts_;
  std::vector<Batch> current_;
  std::vector<Batch> next_;
  size_t given_ = 0;  // of current_
  size_t ready_ = 0;  // in current_ behind those: of the first cuts
  size_t ahead_ = 0;  // in next_, filled or being filled: of the cuts after those
  // Last: its thread uses the ones above.
  BackgroundCall<absl::Status> gatherer_;
};

}  // namespace monsoon
