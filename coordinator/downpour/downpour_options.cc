#include "coordinator/downpour/downpour_options.h"

namespace monsoon {
namespace {

constexpr uint32_t kDefaultBlockBatches = 8;

// A stopped replica holds its blocks until it is lost (3 s). The others must not
// wait for it meanwhile, and a small data set's epoch takes well under a second.
constexpr uint32_t kMaxEpochsAhead = 8;

// Of samples without numbers: few enough to keep a mark for each, and so many that epochs
// begin rarely.
constexpr uint64_t kUnnumberedBlocks = 65536;

}  // namespace

DownpourOptions DownpourOptions::FromJob(const Job& job, uint64_t examples) {
  DownpourOptions options;
  options.examples = examples;
  options.batch_size = job.batch_size();
  options.block_examples = job.block_examples() != 0
                               ? job.block_examples()
                               : uint64_t{kDefaultBlockBatches} * job.batch_size();
  if (job.train().joiners().unnumbered()) {
    options.unnumbered = true;
    options.examples = options.block_examples * kUnnumberedBlocks;
  }
  options.stop = job.stop();
  options.warmstart = job.downpour().warmstart();
  options.has_test = job.has_test();
  options.keep_best = job.checkpoint().keep_best();
  options.evaluate_every_epochs = job.evaluation().every_epochs();
  if (job.stop().target_accuracy() > 0 && options.evaluate_every_epochs <= 0) {
    options.evaluate_every_epochs = 1;
  }
  if (job.downpour().optimizer().schedule().has_plateau()) {
    options.plateau = job.downpour().optimizer().schedule().plateau();
  }
  options.max_epochs_ahead = kMaxEpochsAhead;
  if (job.downpour().has_staleness_bound() &&
      job.downpour().staleness_policy() == WAIT_FOR_SLOWEST) {
    options.staleness_bound = job.downpour().staleness_bound();
  }
  options.hands_over = job.has_sandblaster();
  return options;
}

}  // namespace monsoon
