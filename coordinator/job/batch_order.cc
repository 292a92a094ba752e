#include "coordinator/job/batch_order.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// Shares such as 0.3 epochs are not exact.
constexpr double kRounding = 1e-9;
// No job comes so far, and sums of two such numbers have 64 bits.
constexpr uint64_t kMost = uint64_t{1} << 62;
constexpr uint32_t kMostEpochs = 1'000'000'000;

uint64_t Quotient(uint64_t value, uint64_t divisor) { return (value + divisor - 1) / divisor; }

// Samples of the epoch after those that are done which are done from its beginning on, without a
// gap; and whether others are done behind it.
struct Begun {
  uint64_t examples = 0;
  bool others = false;
};

Begun FindBegun(const DownpourProgress& progress, uint64_t block_examples) {
  Begun begun;
  for (const EpochCursor& cursor : progress.epoch()) {
    const bool first = cursor.epoch() == progress.epochs_done() && cursor.done_size() > 0 &&
                       cursor.done(0).first() == 0;
    if (first) {
      begun.examples = uint64_t{cursor.done(0).end()} * block_examples;
    }
    begun.others |= cursor.done_size() > (first ? 1 : 0);
  }
  return begun;
}

}  // namespace

uint64_t BatchOrder::ExamplesOf(uint64_t batches) const {
  return batches / per_epoch() * examples_ +
         std::min(batches % per_epoch() * batch_size_, examples_);
}

double BatchOrder::EpochOf(uint64_t batches) const {
  return static_cast<double>(ExamplesOf(batches)) / static_cast<double>(examples_);
}

uint64_t BatchOrder::BatchesOf(double epochs) const {
  const double whole = std::floor(epochs + kRounding);
  const double rest = std::max(0.0, epochs - whole) * static_cast<double>(examples_);
  const auto more = static_cast<uint64_t>(std::ceil(rest - kRounding * rest));
  return static_cast<uint64_t>(whole) * per_epoch() + Quotient(more, batch_size_);
}

std::optional<uint64_t> BatchOrder::EndOf(const Stop& stop) const {
  std::optional<uint64_t> end;
  if (stop.epochs() > 0) {
    end = std::max<uint64_t>(1, BatchesOf(stop.epochs()));
  }
  if (stop.steps() > 0) {
    end = std::min(end.value_or(stop.steps()), stop.steps());
  }
  return end;
}

absl::StatusOr<SynchronousPosition> BatchOrder::Resume(const CheckpointContext& context,
                                                       std::string* note) const {
  SynchronousPosition position;
  const DownpourProgress& progress = context.downpour();
  if (context.has_synchronous() && context.job().batch_size() == batch_size_) {
    position = context.synchronous();
    if (position.updates() > kMost || position.batches() > kMost) {
      return absl::InvalidArgumentError("the checkpoint's progress: more is done than can be");
    }
    return position;
  }
  if (progress.epochs_done() > kMostEpochs) {
    return absl::InvalidArgumentError("the checkpoint's progress: more is done than can be");
  }
  position.set_updates(context.synchronous().updates());
  const Begun begun = FindBegun(progress, context.job().block_examples());
  const uint64_t whole = std::min(begun.examples, examples_) / batch_size_;
  position.set_batches(progress.epochs_done() * per_epoch() + whole);
  if (begun.others || begun.examples % batch_size_ != 0) {
    *note = absl::StrCat("what was done after batch ", whole, " of epoch ", progress.epochs_done(),
                         " is done again: a synchronous job knows no gaps");
  }
  return position;
}

DownpourProgress BatchOrder::ProgressAt(const SynchronousPosition& position,
                                        uint64_t block_examples) const {
  DownpourProgress progress;
  const uint64_t epoch = position.batches() / per_epoch();
  const uint64_t within = position.batches() % per_epoch() * batch_size_;
  const uint64_t blocks = Quotient(examples_, block_examples);
  const uint64_t done = within / block_examples;
  progress.set_steps(position.batches());
  progress.set_epochs_done(static_cast<uint32_t>(epoch));
  progress.set_blocks_done(epoch * blocks + done);
  progress.set_examples_done(epoch * examples_ + done * block_examples);
  if (done > 0) {
    EpochCursor* const cursor = progress.add_epoch();
    cursor->set_epoch(static_cast<uint32_t>(epoch));
    cursor->set_blocks(static_cast<uint32_t>(blocks));
    EpochCursor::Run* const run = cursor->add_done();
    run->set_first(0);
    run->set_end(static_cast<uint32_t>(done));
  }
  return progress;
}

}  // namespace monsoon
