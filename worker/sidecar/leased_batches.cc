#include "worker/sidecar/leased_batches.h"

#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "worker/client/exchange.h"

namespace monsoon {

LeasedBatches::LeasedBatches(const Job& job, uint64_t examples)
    : seed_(job.seed()),
      unnumbered_(job.train().joiners().unnumbered()),
      layout_{examples, BlockExamples(job.block_examples(), job.batch_size()), job.batch_size()} {}

absl::Status LeasedBatches::Append(const BlockId& block) {
  if (block.block() >= layout_.blocks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("block ", block.block(), " of ", layout_.blocks(), " was leased"));
  }
  if (closed_) {
    return absl::OkStatus();
  }
  const uint64_t batches = layout_.batches(block.block(), block.examples());
  for (uint64_t batch = 0; batch < batches; ++batch) {
    undrawn_.push_back({block, batch, batch + 1 == batches});
  }
  return absl::OkStatus();
}

size_t LeasedBatches::blocks_left() const {
  size_t blocks = 0;
  for (const auto* const batches : {&undrawn_, &drawn_}) {
    for (const Leased& batch : *batches) {
      blocks += batch.last ? 1 : 0;
    }
  }
  return blocks;
}

std::vector<uint32_t> LeasedBatches::SamplesOf(const Leased& batch) {
  const uint64_t block = batch.block.block();
  if (unnumbered_) {
    const uint64_t granted = layout_.size(block, batch.block.examples());
    const uint64_t first = batch.batch * layout_.batch_size;
    std::vector<uint32_t> samples(std::min<uint64_t>(layout_.batch_size, granted - first));
    std::iota(samples.begin(), samples.end(), 0u);
    return samples;
  }
  if (epoch_ != batch.block.epoch()) {
    epoch_ = batch.block.epoch();
    permutation_ = EpochPermutation(seed_, *epoch_, static_cast<uint32_t>(layout_.examples));
  }
  const std::span<const uint32_t> samples =
      layout_.Batch(permutation_, block, batch.batch, batch.block.examples());
  return {samples.begin(), samples.end()};
}

std::string LeasedBatches::Draw() {
  if (undrawn_.empty()) {
    return "";
  }
  FieldWriter fields;
  fields.Number(static_cast<uint32_t>(undrawn_.size()));
  for (; !undrawn_.empty(); undrawn_.pop_front()) {
    const std::vector<uint32_t> samples = SamplesOf(undrawn_.front());
    fields.Number(uint32_t{undrawn_.front().block.epoch()});
    fields.Number(static_cast<uint32_t>(samples.size()));
    fields.Bytes(samples.data(), samples.size() * sizeof(uint32_t));
    drawn_.push_back(std::move(undrawn_.front()));
  }
  return fields.bytes();
}

absl::StatusOr<std::vector<BlockId>> LeasedBatches::Count(size_t batches) {
  if (batches > drawn_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step counts ", batches, " batches, and ", drawn_.size(), " are drawn"));
  }
  std::vector<BlockId> ended;
  for (; batches > 0; --batches) {
    if (drawn_.front().last) {
      ended.push_back(drawn_.front().block);
    }
    drawn_.pop_front();
  }
  return ended;
}

std::vector<BlockId> LeasedBatches::CountAll() {
  std::vector<BlockId> ended;
  for (auto* const batches : {&drawn_, &undrawn_}) {
    for (const Leased& batch : *batches) {
      if (batch.last) {
        ended.push_back(batch.block);
      }
    }
    batches->clear();
  }
  return ended;
}

void LeasedBatches::Close() {
  closed_ = true;
  drawn_.clear();
  undrawn_.clear();
}

}  // namespace monsoon
