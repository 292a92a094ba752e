#include "common/config/joined_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/config/location_map.h"
#include "common/optimizer/optimizer_kinds.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

// The coordinator keeps a mark for each block of an epoch.
constexpr uint64_t kMaxBlocks = 1 << 24;
constexpr uint32_t kDefaultBlockBatches = 8;
// A lost replica's block is done again as a whole; with local steps so is what it has not
// pushed, and a block need not be smaller than a part of that.
constexpr uint32_t kBlocksOfLocalSteps = 4;
constexpr uint32_t kMaxDefaultBlockBatches = 64;
constexpr uint32_t kLeastBlocks = 32;  // an epoch, for blocks that are larger

constexpr char kItsPrograms[] = "is the affair of the programs that join the job";

void CheckJoiners(const std::string& field, const Dataset& data, Reporter* reporter) {
  if (data.source_case() != Dataset::kJoiners) {
    reporter->Error(field, "a model that lists its tensors has its data in the programs that join",
                    absl::StrCat("as in ", field, " { joiners { } }"));
    return;
  }
  const auto meaningless = [&](bool is_set, const char* name) {
    if (is_set) {
      reporter->Error(JoinPath(field, name), absl::StrCat("how samples are read ", kItsPrograms),
                      "leave it out");
    }
  };
  meaningless(data.limit() != 0, "limit");
  meaningless(data.mean() != 0.0, "mean");
  meaningless(data.scale() != 0.0 && data.scale() != 1.0, "scale");
  meaningless(data.layout() != Dataset::MODEL_ORDER, "layout");
}

void CheckTrain(const Job& job, Reporter* reporter) {
  CheckJoiners("train", job.train(), reporter);
  const JoinersSource& joiners = job.train().joiners();
  if (!job.train().has_joiners()) {
    return;
  }
  if (joiners.unnumbered() && joiners.examples() != 0) {
    reporter->Error("train.joiners.unnumbered", "samples without numbers are not counted either",
                    "keep one of examples and unnumbered");
  } else if (!joiners.unnumbered() && joiners.examples() == 0) {
    reporter->Error("train.joiners.examples", "must be at least 1",
                    "or write unnumbered: true where nobody knows");
  }
  const uint64_t block = job.block_examples() != 0
                             ? job.block_examples()
                             : uint64_t{DefaultBlockBatches(job)} * job.batch_size();
  if (block != 0 && joiners.examples() / block >= kMaxBlocks) {
    reporter->Error("train.joiners.examples",
                    absl::StrCat(joiners.examples(), " samples are more than ", kMaxBlocks,
                                 " blocks of ", block),
                    "choose a larger block_examples, a multiple of batch_size");
  }
  if (joiners.unnumbered() && job.stop().epochs() != 0.0) {
    reporter->Error("stop.epochs", "samples without numbers have no epochs",
                    "the job ends when its programs have no more; stop.steps and stop.seconds end "
                    "it earlier");
  }
  if (joiners.unnumbered() && job.stop().target_accuracy() != 0.0) {
    reporter->Error("stop.target_accuracy",
                    "samples without numbers have no epochs after which it would be checked",
                    "leave it out: a program may end by itself");
  }
  if (joiners.unnumbered() && job.evaluation().every_epochs() != 0.0) {
    reporter->Error("evaluation.every_epochs", "samples without numbers have no epochs",
                    "leave it out: the final parameters are tested");
  }
}

void CheckLocalSteps(const Downpour& downpour, Reporter* reporter) {
  if (!downpour.has_local()) {
    return;
  }
  const uint32_t steps = downpour.local().steps();
  if (steps == 0) {
    reporter->Error("downpour.local.steps", "says nothing of how many steps a difference has",
                    "as in local { steps: 50 }");
    return;  // What else there is to say rests on it.
  }
  // What FillJobDefaults fills in says the same.
  const auto beside = [&](bool is_other, const std::string& name, const char* why) {
    if (is_other) {
      reporter->Error(JoinPath("downpour", name), why, "leave it out");
    }
  };
  beside(downpour.n_fetch() > 1, "n_fetch", "with local steps each difference is one fetch");
  beside(downpour.n_push() > 1, "n_push", "with local steps each difference is one push");
  beside(downpour.local_update().has_sgd_rate() || downpour.local_update().has_adagrad_rate(),
         "local_update", "with local steps a replica moves its parameters by its own optimizer");
  const Optimizer& outer = downpour.optimizer();
  constexpr char kNotOfDifferences[] =
      "with local steps the outer optimizer gets differences, which are no gradients to decay "
      "or to clip";
  beside(outer.weight_decay() != 0.0, "optimizer.weight_decay", kNotOfDifferences);
  if (const OptimizerKind* const kind = FindKind(outer); kind != nullptr) {
    beside(kind->own_decay != nullptr, absl::StrCat("optimizer.", kind->name()), kNotOfDifferences);
  }
  beside(outer.clip_value() != 0.0, "optimizer.clip_value", kNotOfDifferences);
  // Of a network's difference it is a guard.
  beside(outer.clip_norm() != 0.0 && !downpour.local().has_inner(), "optimizer.clip_norm",
         kNotOfDifferences);
}

// Of programs, which each take all their steps between two pushes at once.
void CheckProgramSteps(const Downpour& downpour, Reporter* reporter) {
  if (downpour.local().landing_steps() != 0) {
    reporter->Error("downpour.local.landing_steps",
                    "with programs what is fetched lands before their next step", "leave it out");
  }
  const uint32_t fragments = std::max(1u, downpour.local().fragments().count());
  const uint32_t steps = downpour.local().steps();
  if (steps % fragments != 0) {
    reporter->Error(
        "downpour.local.steps",
        absl::StrCat(steps, " is no multiple of the ", fragments,
                     " fragments; programs push each after equally many steps"),
        absl::StrCat("as in local { steps: ", (steps / fragments + 1) * fragments, " }"));
  }
}

// Of a model with tables: shards move rows by single pushes, as gradients and whole.
void CheckTables(const Job& job, Reporter* reporter) {
  if (job.model().table_size() == 0) {
    return;
  }
  const Downpour& downpour = job.downpour();
  const auto not_with_tables = [&](bool is_set, const char* name, const char* why) {
    if (is_set) {
      reporter->Error(JoinPath("downpour", name), absl::StrCat("not with tables: ", why),
                      "leave it out, or make the tables tensors of the model");
    }
  };
  not_with_tables(downpour.has_local(), "local",
                  "rows are pushed as gradients, not as differences of many steps");
  not_with_tables(downpour.has_rounds(), "rounds",
                  "rows move with each push, and no round averages them");
  not_with_tables(downpour.local().has_fragments(), "local.fragments",
                  "rows are pushed with the whole model");
  not_with_tables(downpour.fetch_changes() != FLOAT32, "fetch_changes",
                  "rows are fetched as they are, and have no public copy");
  not_with_tables(downpour.optimizer().damping() != 0.0, "optimizer.damping",
                  "a row has no version to tell a gradient's staleness by");
  not_with_tables(downpour.staleness_policy() == DROP_OLDER, "staleness_policy",
                  "a row has no version to tell a gradient's staleness by");
}

// Of a network, which has no program to bring one.
void CheckInner(const Downpour& downpour, Reporter* reporter) {
  const Optimizer& inner = downpour.local().inner();
  if (downpour.local().steps() == 0) {
    return;  // There are none, or CheckLocalSteps has said what is missing.
  }
  if (!downpour.local().has_inner() || inner.kind_case() == Optimizer::KIND_NOT_SET) {
    reporter->Error("downpour.local.inner",
                    "local steps of a network are by an optimizer of the replica's",
                    inner.has_muon() ? "muon moves matrices alone; as in inner { adam_w { rate: "
                                       "0.001 } muon { rate: 0.02 } }"
                                     : "as in inner { adam_w { rate: 0.001 } }");
  }
  if (inner.has_average()) {
    reporter->Error("downpour.local.inner.average", "is the shards' affair",
                    "say it of downpour.optimizer");
  }
  if (inner.damping() != 0.0) {
    reporter->Error("downpour.local.inner.damping", "is the shards' affair",
                    "say it of downpour.optimizer");
  }
}

}  // namespace

uint32_t DefaultBlockBatches(const Job& job) {
  uint64_t batches =
      std::min(job.downpour().local().steps() / kBlocksOfLocalSteps, kMaxDefaultBlockBatches);
  if (const uint64_t examples = job.train().joiners().examples(); examples > 0) {
    const uint64_t block = uint64_t{kLeastBlocks} * std::max(1u, job.batch_size());
    batches = std::min(batches, examples / block);
  }
  return static_cast<uint32_t>(std::max<uint64_t>(batches, kDefaultBlockBatches));
}

void CheckJoined(const Job& job, Reporter* reporter) {
  if (job.has_sandblaster()) {
    reporter->Error("sandblaster", "a model that lists its tensors is trained by Downpour SGD",
                    "leave it out");
  }
  if (job.has_synchronous()) {
    reporter->Error("synchronous", absl::StrCat("the state of a step ", kItsPrograms),
                    "leave it out; rounds { } with local steps average what programs do");
  }
  if (!job.has_downpour()) {
    reporter->Error("downpour", "a joined job is trained by Downpour SGD",
                    "add downpour { optimizer { ... } }");
  }
  if (job.downpour().workers() != 0) {
    reporter->Error("downpour.workers", absl::StrCat("who takes part ", kItsPrograms),
                    "leave it out: any number may join");
  }
  if (job.standardise()) {
    reporter->Error("standardise", absl::StrCat("how samples are read ", kItsPrograms),
                    "leave it out");
  }
  if (job.compute_precision() != Job::FLOAT32) {
    reporter->Error("compute_precision", absl::StrCat("what is computed ", kItsPrograms),
                    "leave it out");
  }
  if (job.has_train()) {
    CheckTrain(job, reporter);
  }
  if (job.has_test()) {
    CheckJoiners("test", job.test(), reporter);
  }
  CheckLocalSteps(job.downpour(), reporter);
  CheckProgramSteps(job.downpour(), reporter);
  CheckTables(job, reporter);
  if (job.downpour().local().has_inner()) {
    reporter->Error("downpour.local.inner",
                    absl::StrCat("the optimizer of local steps ", kItsPrograms), "leave it out");
  }
}

void CheckNotJoined(const Job& job, Reporter* reporter) {
  if (job.downpour().programs() != 0) {
    reporter->Error("downpour.programs", "is of jobs of programs; this one has workers",
                    "write workers, or leave it out");
  }
  for (const bool train : {true, false}) {
    const Dataset& data = train ? job.train() : job.test();
    if (data.has_joiners()) {
      reporter->Error(train ? "train.joiners" : "test.joiners",
                      "only a model that lists its tensors (model.tensor) has its data in the "
                      "programs that join; workers read files",
                      "as in idx { ... } or npy { ... }");
    }
  }
  CheckLocalSteps(job.downpour(), reporter);
  CheckInner(job.downpour(), reporter);
}

}  // namespace monsoon
