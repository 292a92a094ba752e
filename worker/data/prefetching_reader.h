// PrefetchingReader: the BlockReader of real sessions, over the prefetcher's
// thread.
#pragma once

#include <deque>
#include <memory>

#include "worker/data/block_reader.h"
#include "worker/data/data_source.h"
#include "worker/data/prefetcher.h"

namespace monsoon {

class Job;

class PrefetchingReader : public BlockReader {
 public:
  // `source` must outlive this. Reads so far ahead that `batches` can be taken
  // at once while as many more are gathered. Starts the prefetcher's thread.
  PrefetchingReader(const DataSource* source, const Job& job, uint32_t batches = 1);

  // InvalidArgument for a block the data set does not have: the coordinator
  // counts other samples than this worker reads.
  absl::Status Append(const BlockId& block) override;
  size_t blocks_left() const override { return blocks_.size(); }
  absl::StatusOr<Piece> Next() override;

 private:
  Prefetcher prefetcher_;
  std::deque<BlockId> blocks_;
  std::unique_ptr<PrefetchedBatch> current_;
};

}  // namespace monsoon
