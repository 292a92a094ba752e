#include "coordinator/downpour/resumed_progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/downpour/streams.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

// A job begins few epochs before an earlier one is done; each that is begun costs memory.
constexpr uint64_t kMaxEpochsBegun = 1024;
// stop.epochs has the same bound.
constexpr uint32_t kMaxEpochs = 1'000'000'000;
constexpr uint64_t kMaxCount = uint64_t{1} << 62;

absl::Status CheckCursor(const EpochCursor& cursor) {
  uint64_t end = 0;
  bool first = true;
  for (const EpochCursor::Run& run : cursor.done()) {
    if (run.first() >= run.end() || run.end() > cursor.blocks() || (!first && run.first() <= end)) {
      return absl::InvalidArgumentError(absl::StrCat("epoch ", cursor.epoch(), " has blocks [",
                                                     run.first(), ", ", run.end(), ") of ",
                                                     cursor.blocks(), " after those before ", end));
    }
    end = run.end();
    first = false;
  }
  return absl::OkStatus();
}

absl::Status CheckProgress(const DownpourProgress& progress) {
  if (progress.epochs_done() > kMaxEpochs || progress.steps() > kMaxCount ||
      progress.blocks_done() > kMaxCount || progress.examples_done() > kMaxCount) {
    return absl::InvalidArgumentError("more is done than can be");
  }
  RETURN_IF_ERROR(Streams::Check(progress.stream()));
  uint64_t least = progress.epochs_done();
  for (const EpochCursor& cursor : progress.epoch()) {
    if (cursor.epoch() < least || cursor.epoch() >= progress.epochs_done() + kMaxEpochsBegun) {
      return absl::InvalidArgumentError(absl::StrCat("epoch ", cursor.epoch(), " is begun, after ",
                                                     progress.epochs_done(),
                                                     " that are done and others before ", least));
    }
    RETURN_IF_ERROR(CheckCursor(cursor));
    least = uint64_t{cursor.epoch()} + 1;
  }
  return absl::OkStatus();
}

// What of the epochs that are begun is done, in blocks and in samples.
struct Begun {
  uint64_t blocks = 0;
  uint64_t examples = 0;
};

Begun CountBegun(const DownpourProgress& progress, uint64_t examples, uint64_t block_examples) {
  Begun begun;
  for (const EpochCursor& cursor : progress.epoch()) {
    for (const EpochCursor::Run& run : cursor.done()) {
      begun.blocks += run.end() - run.first();
      // Of a run beyond the data nothing counts; it does not add up then.
      const uint64_t per_epoch = (examples + block_examples - 1) / block_examples;
      begun.examples +=
          std::min(std::min<uint64_t>(run.end(), per_epoch) * block_examples, examples) -
          std::min(std::min<uint64_t>(run.first(), per_epoch) * block_examples, examples);
    }
  }
  return begun;
}

}  // namespace

absl::StatusOr<ResumedProgress> ResumeProgress(const CheckpointContext& context, uint64_t examples,
                                               uint64_t block_examples) {
  const DownpourProgress& from = context.downpour();
  if (const absl::Status status = CheckProgress(from); !status.ok()) {
    return Annotate(status, "the checkpoint's progress");
  }
  const uint64_t per_epoch = (examples + block_examples - 1) / block_examples;
  const Begun begun = CountBegun(from, examples, block_examples);
  const bool same_count =
      std::ranges::all_of(from.epoch(),
                          [&](const EpochCursor& each) { return each.blocks() == per_epoch; }) &&
      from.blocks_done() == from.epochs_done() * per_epoch + begun.blocks &&
      from.examples_done() <= from.epochs_done() * examples + begun.examples;
  const uint64_t size_before = context.job().block_examples();

  ResumedProgress resumed;
  resumed.progress.set_steps(from.steps());
  resumed.progress.set_epochs_done(from.epochs_done());
  for (const StreamPosition& position : from.stream()) {
    StreamPosition* const stream = resumed.progress.add_stream();
    stream->set_name(position.name());
    stream->set_state(position.state());
  }
  std::ranges::sort(*resumed.progress.mutable_stream(), {}, &StreamPosition::name);
  if (same_count && size_before == block_examples) {
    *resumed.progress.mutable_epoch() = from.epoch();
    resumed.progress.set_blocks_done(from.blocks_done());
    resumed.progress.set_examples_done(from.examples_done());
    return resumed;
  }
  resumed.progress.set_blocks_done(from.epochs_done() * per_epoch);
  resumed.progress.set_examples_done(from.epochs_done() * examples);
  const std::string why =
      size_before != block_examples
          ? absl::StrCat("blocks have ", block_examples, " samples, and had ", size_before)
          : absl::StrCat("an epoch has ", per_epoch, " blocks, and had others");
  resumed.note = absl::StrCat(
      why, begun.blocks > 0
               ? absl::StrCat("; what was done after epoch ", from.epochs_done(), " is done again")
               : "");
  return resumed;
}

}  // namespace monsoon
