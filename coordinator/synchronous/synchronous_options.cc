#include "coordinator/synchronous/synchronous_options.h"

#include <algorithm>

namespace monsoon {
namespace {

// Checkpoint.every_seconds where it is not set.
constexpr double kStoreSeconds = 10;

}  // namespace

SynchronousOptions SynchronousOptions::FromJob(const Job& job, uint64_t examples, uint32_t workers,
                                               absl::Duration lost_after) {
  const double every = job.checkpoint().every_seconds();
  SynchronousOptions options;
  options.examples = examples;
  options.batch_size = job.batch_size();
  options.stop = job.stop();
  options.evaluate_every_epochs = job.evaluation().every_epochs();
  options.has_test = job.has_test();
  options.keep_best = job.checkpoint().keep_best();
  options.workers = std::max(1u, workers);
  options.patience = lost_after;
  options.store_every = absl::Seconds(every > 0 ? every : kStoreSeconds);
  return options;
}

}  // namespace monsoon
