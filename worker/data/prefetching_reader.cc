#include "worker/data/prefetching_reader.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

// Gathering a batch copies memory or reads some samples: so long means that the machine or
// its disk stands still.
constexpr absl::Duration kGatherLimit = absl::Seconds(60);

Prefetcher::Options OptionsOf(const Job& job, uint32_t batches) {
  Prefetcher::Options options;
  options.seed = job.seed();
  options.batch_size = job.batch_size();
  options.block_examples = BlockExamples(job.block_examples(), job.batch_size());
  options.depth = std::max<size_t>(options.depth, 2 * size_t{batches});
  return options;
}

}  // namespace

PrefetchingReader::PrefetchingReader(const DataSource* source, const Job& job, uint32_t batches)
    : prefetcher_(source, OptionsOf(job, batches)) {}

absl::Status PrefetchingReader::Append(const BlockId& block) {
  if (block.block() >= prefetcher_.layout().blocks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("block ", block.block(), " was leased, but the data set has ",
                     prefetcher_.layout().blocks(), " blocks of ",
                     prefetcher_.layout().block_examples, " examples"));
  }
  prefetcher_.AddBlock({block.epoch(), block.block(), block.examples()});
  blocks_.push_back(block);
  return absl::OkStatus();
}

absl::StatusOr<BlockReader::Piece> PrefetchingReader::Next() {
  CHECK(!blocks_.empty());
  if (current_ != nullptr) {
    prefetcher_.Recycle(std::move(current_));
  }
  ASSIGN_OR_RETURN(current_, prefetcher_.Next(kGatherLimit));
  Piece piece{&current_->batch, std::nullopt};
  if (current_->last_of_block) {
    piece.last_of = blocks_.front();
    blocks_.pop_front();
  }
  return piece;
}

}  // namespace monsoon
