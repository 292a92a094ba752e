#include "common/config/synchronous_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

// What has no meaning where all replicas take each step together.
void CheckDownpourBeside(const Job& job, Reporter* reporter) {
  const Downpour& downpour = job.downpour();
  // A job that was judged before has what SHARDS stands for.
  Downpour derived;
  TrainInRoundsOfSteps(job.synchronous(), downpour.workers(), &derived);
  const bool shards = job.synchronous().reduce() == Synchronous::SHARDS;
  const bool same_rounds =
      shards && downpour.rounds().SerializeAsString() == derived.rounds().SerializeAsString();
  const bool same_bound = shards && downpour.staleness_bound() == derived.staleness_bound() &&
                          downpour.staleness_policy() == derived.staleness_policy();
  const std::vector<std::pair<const char*, bool>> fields = {
      {"local", downpour.has_local()},
      {"rounds", downpour.has_rounds() && !same_rounds},
      {"warmstart", downpour.has_warmstart()},
      {"staleness_bound", downpour.has_staleness_bound() && !same_bound},
      {"push_format", downpour.push_format() != FLOAT32},
      {"fetch_format", downpour.fetch_format() != FLOAT32},
      {"fetch_changes", downpour.fetch_changes() != FLOAT32},
      {"programs", downpour.programs() != 0},
  };
  for (const auto& [name, set] : fields) {
    if (set) {
      reporter->Error(absl::StrCat("downpour.", name),
                      "means nothing in a synchronous job: replicas fetch and push nothing",
                      "leave it out, or leave out synchronous");
    }
  }
  if (std::max(downpour.n_push(), downpour.n_fetch()) > 1) {
    reporter->Error(downpour.n_push() > 1 ? "downpour.n_push" : "downpour.n_fetch",
                    "means nothing in a synchronous job: each step is all replicas' step",
                    "leave it out, or leave out synchronous");
  }
  if (downpour.optimizer().schedule().has_plateau()) {
    reporter->Error("downpour.optimizer.schedule.plateau",
                    "the shards reduce such rates, and in a synchronous job they have no optimizer",
                    "another schedule");
  }
}

void CheckShards(const Job& job, Reporter* reporter) {
  const Synchronous& synchronous = job.synchronous();
  if (synchronous.sum_order() == Synchronous::BY_RANK) {
    reporter->Error("synchronous.sum_order",
                    "the shards add in whole numbers, which have no order: the sum is the same in "
                    "any",
                    "leave it out");
  }
  if (synchronous.has_fuse_mib()) {
    reporter->Error("synchronous.fuse_mib",
                    "means nothing where gradients go to the shards, in stripes (stripe_kib)",
                    "leave it out");
  }
  const uint32_t workers = job.downpour().workers();
  if (synchronous.backup_workers() != 0 && workers <= synchronous.backup_workers()) {
    reporter->Error(
        "synchronous.backup_workers",
        workers == 0
            ? "a step takes the gradients of all workers but so many: of how many?"
            : absl::StrCat(synchronous.backup_workers(), " of ", workers, " workers leave none"),
        "as in downpour { workers: 5 } synchronous { backup_workers: 1 }");
  }
}

}  // namespace

void TrainInRoundsOfSteps(const Synchronous& synchronous, uint32_t workers, Downpour* downpour) {
  downpour->mutable_rounds();
  downpour->set_overlap(NONE);
  downpour->clear_local_update();
  if (const uint32_t backup = synchronous.backup_workers(); backup > 0 && workers > backup) {
    downpour->mutable_rounds()->set_quorum(workers - backup);
    downpour->set_staleness_bound(0);
    downpour->set_staleness_policy(DROP_OLDER);
  }
}

void CheckSynchronous(const Job& job, Reporter* reporter) {
  const Synchronous& synchronous = job.synchronous();
  if (job.has_sandblaster()) {
    reporter->Error("sandblaster", "not with synchronous: a batch is computed by all anyway",
                    "leave one of them out");
  }
  if (!job.has_downpour()) {
    reporter->Error("downpour", "a synchronous job takes its optimizer from here",
                    "add downpour { optimizer { ... } }");
    return;
  }
  if (job.model().table_size() > 0) {
    reporter->Error("synchronous", "the model has tables, whose rows live on the shards alone",
                    "leave out synchronous");
  }
  if (synchronous.reduce() == Synchronous::SHARDS) {
    CheckShards(job, reporter);
  } else if (synchronous.backup_workers() != 0) {
    reporter->Error("synchronous.backup_workers",
                    "means nothing where each replica has to have the whole sum",
                    "leave it out, or write reduce: SHARDS");
  }
  CheckDownpourBeside(job, reporter);
}

}  // namespace monsoon
