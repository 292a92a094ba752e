// ContributionReader: cuts the contributions of a batch job into batches, and
// gathers the next batch, be it of the same contribution or of the one after
// it, in a thread of its own while the current one computes.
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
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "worker/data/data_source.h"
#include "worker/nn/batch.h"
#include "worker/replica/background_call.h"

namespace monsoon {

class ContributionReader {
 public:
  struct Piece {
    const Batch* batch = nullptr;       // valid until the next call of Next or Clear
    std::span<const uint32_t> samples;  // the data set's indices of the batch
    bool ends_chunk = false;
    bool ends_contribution = false;
  };

  // `source` must outlive this; the batch is the job's sample of it.
  ContributionReader(const DataSource* source, const Job& job);
  // Waits for the batch that is being gathered.
  ~ContributionReader() = default;

  // Reads it after those appended before; begins to gather at once.
  // InvalidArgument for positions that the batch does not have: the coordinator
  // counts other samples than this worker reads.
  absl::Status Append(const NextWorkReply::Contribution& contribution);

  // Pieces that Next did not give yet.
  size_t pieces_left() const { return cuts_.size(); }

  // The next batch; only when pieces_left() > 0. Blocks until it is gathered.
  Piece Next();

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
  void AwaitGathered();

  const DataSource* const source_;
  const uint32_t batch_size_;
  const uint32_t chunk_examples_;
  const std::vector<uint32_t> order_;  // position in the batch -> index in the data set
  std::deque<Cut> cuts_;
  Batch current_;
  Batch next_;
  bool ahead_ = false;  // next_ is, or is being, filled for the first cut
  // Last: its thread uses the ones above.
  BackgroundCall<bool> gatherer_;
};

}  // namespace monsoon
