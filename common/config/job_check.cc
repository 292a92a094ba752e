#include "common/config/job_check.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/codec/wire_formats.h"
#include "common/config/joined_check.h"
#include "common/config/model.h"
#include "common/config/optimizer_check.h"
#include "common/config/range_check.h"
#include "common/config/sandblaster_check.h"
#include "common/config/sets_check.h"
#include "common/config/synchronous_check.h"
#include "common/config/test_figures_check.h"
#include "common/model/parameter_layout.h"
#include "common/optimizer/optimizer_kinds.h"
#include "proto/downpour.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

// How differences leave, and what comes back lands.
void CheckLanding(const Downpour& downpour, Reporter* reporter) {
  const LocalSteps& local = downpour.local();
  const uint32_t fragments = std::max(1u, local.fragments().count());
  const uint32_t between = local.steps() / fragments;
  if (between == 0) {
    reporter->Error("downpour.local.fragments.count",
                    absl::StrCat(fragments, " is more than local.steps (", local.steps(),
                                 "), in which each fragment is pushed once"),
                    absl::StrCat("at most ", local.steps(), " here"));
    return;
  }
  if (local.has_fragments() && downpour.has_rounds() && downpour.overlap() == NONE) {
    reporter->Error("downpour.overlap",
                    "NONE: workers that are at different fragments would wait for each other's "
                    "rounds",
                    "leave it out: fragments of rounds land when their round is over");
  }
  if (local.landing_steps() == 0) {
    return;
  }
  if (local.has_fragments() && downpour.has_rounds()) {
    reporter->Error("downpour.local.landing_steps",
                    "with rounds a fragment lands when its round is over", "leave it out");
  } else if (downpour.overlap() == NONE) {
    reporter->Error("downpour.local.landing_steps",
                    "with overlap NONE what is fetched lands at once", "leave one of them out");
  } else if (local.landing_steps() > between) {
    reporter->Error("downpour.local.landing_steps",
                    absl::StrCat(local.landing_steps(), " is more than the ", between,
                                 " steps between two pushes"),
                    absl::StrCat("at most ", between, " here"));
  }
}

// What becomes of differences.
void CheckDifferences(const Downpour& downpour, Reporter* reporter) {
  const LocalSteps& local = downpour.local();
  if (!downpour.has_local()) {
    if (downpour.has_rounds()) {
      reporter->Error("downpour.rounds", "means nothing without local steps",
                      "as in local { steps: 100 }; a round averages the differences that they "
                      "make");
    }
    return;
  }
  if (local.steps() == 0) {
    return;  // CheckLocalSteps has said so.
  }
  CheckLanding(downpour, reporter);
  const Rounds& rounds = downpour.rounds();
  if (downpour.workers() != 0 && rounds.quorum() > downpour.workers()) {
    reporter->Error("downpour.rounds.quorum",
                    absl::StrCat(rounds.quorum(), " is more than the job's workers (",
                                 downpour.workers(), "): no round would wait for its quorum"),
                    "leave it out: then a round waits for all");
  }
  if (rounds.quorum() == 0 && rounds.grace_seconds() != 0.0) {
    reporter->Error("downpour.rounds.grace_seconds",
                    "means nothing without quorum: a round of all workers has nobody to wait for",
                    "as in rounds { quorum: 1 grace_seconds: 2 }");
  }
  if (rounds.adaptive_share() > 0 && rounds.grace_seconds() == 0.0) {
    reporter->Error("downpour.rounds.adaptive_share",
                    "means nothing without grace_seconds, the longest that a round may wait",
                    "as in rounds { quorum: 1 grace_seconds: 10 adaptive_share: 0.9 }");
  }
  // In rounds unset is STEPS.
  if (local.weight_reference() != 0.0 && local.weight() == DEFAULT_WEIGHT &&
      !downpour.has_rounds()) {
    reporter->Error("downpour.local.weight_reference", "means nothing without weight",
                    "as in weight: STEPS");
  }
}

void CheckStaleness(const Downpour& downpour, Reporter* reporter) {
  if (!downpour.has_staleness_bound()) {
    if (downpour.staleness_policy() != WAIT_FOR_SLOWEST) {
      reporter->Error("downpour.staleness_policy", "means nothing without staleness_bound",
                      "as in staleness_bound: 8 staleness_policy: DROP_OLDER");
    }
    return;
  }
  if (downpour.has_rounds()) {
    reporter->Error("downpour.staleness_bound",
                    "not with rounds: which differences a round has, its quorum and grace say",
                    "leave one of them out");
  }
  if (downpour.local().has_fragments()) {
    reporter->Error("downpour.staleness_bound",
                    "not with fragments: each push is of another part of the model",
                    "leave one of them out");
  }
}

void CheckChanges(const Downpour& downpour, Reporter* reporter) {
  if (downpour.fetch_changes() == FLOAT32) {
    return;
  }
  if (!downpour.has_local()) {
    reporter->Error("downpour.fetch_changes", "means nothing without local steps",
                    "as in local { steps: 100 }; of parameters that are fetched at each step say "
                    "fetch_format");
  }
  const FormatTraits* const format = FindFormat(downpour.fetch_changes());
  if (format != nullptr && format->no_changes != nullptr) {
    reporter->Error("downpour.fetch_changes", absl::StrCat(format->name(), format->no_changes),
                    FormatNames([](const FormatTraits& traits) { return !traits.no_changes; }, "or",
                                /*smallest_first=*/true));
  }
  if (downpour.fetch_format() != FLOAT32) {
    reporter->Error("downpour.fetch_format",
                    "with fetch_changes parameters travel as changes, and whole only as they are",
                    "leave one of them out");
  }
}

// An unknown format is told of as a value of its enum.
void CheckFormats(const Downpour& downpour, Reporter* reporter) {
  const FormatTraits* const fetch = FindFormat(downpour.fetch_format());
  if (fetch != nullptr && fetch->no_parameters != nullptr) {
    const auto carries = [](const FormatTraits& traits) { return !traits.no_parameters; };
    reporter->Error("downpour.fetch_format", absl::StrCat(fetch->name(), fetch->no_parameters),
                    fetch->parameters_instead != nullptr ? fetch->parameters_instead
                                                         : FormatNames(carries, "or"));
  }
  const auto takes_share = [](const FormatTraits& traits) { return traits.takes_share; };
  if (downpour.has_residual_decay() && !TakesShare(downpour.push_format())) {
    reporter->Error("downpour.residual_decay", absl::StrCat("means nothing without push_format: ",
                                                            FormatNames(takes_share, "or")));
  }
  const double share = downpour.top_k_share();
  const FormatTraits* const push = FindFormat(downpour.push_format());
  if (share != 0.0 && !TakesShare(downpour.push_format())) {
    reporter->Error("downpour.top_k_share", absl::StrCat("means nothing without push_format: ",
                                                         FormatNames(takes_share, "or")));
  } else if (!(share >= 0.0 && share <= kMaxTopKShare)) {
    reporter->Error("downpour.top_k_share",
                    absl::StrCat(share, " is outside (0, ", kMaxTopKShare, "]; ",
                                 WireFormat_Name(push->smaller), " is smaller"));
  }
}

void CheckDownpour(const Job& job, const std::optional<ParameterLayout>& layout,
                   Reporter* reporter) {
  const Downpour& downpour = job.downpour();
  CheckFormats(downpour, reporter);
  if (downpour.has_warmstart() && downpour.warmstart().steps() == 0 &&
      downpour.warmstart().seconds() == 0.0) {
    reporter->Error("downpour.warmstart", "neither steps nor seconds is set",
                    "as in warmstart { steps: 100 }");
  }
  for (const auto& [path, optimizer] :
       {std::pair<std::string, const Optimizer*>{"downpour.optimizer", &downpour.optimizer()},
        std::pair<std::string, const Optimizer*>{"downpour.local.inner",
                                                 &downpour.local().inner()}}) {
    CheckOptimizer(*optimizer, path, job.stop(), layout, reporter);
  }
  CheckMuon(downpour, job.model(), layout, reporter);
  CheckChanges(downpour, reporter);
  if (job.synchronous().reduce() != Synchronous::SHARDS) {
    CheckDifferences(downpour, reporter);
    CheckStaleness(downpour, reporter);
  }
  const bool chosen = downpour.has_local();  // unset: differences are subtracted
  if (!chosen && downpour.optimizer().kind_case() == Optimizer::KIND_NOT_SET) {
    reporter->Error("downpour.optimizer",
                    absl::StrCat("no optimizer is chosen: ", OptimizerNames("or")),
                    "as in optimizer { adagrad { rate: 0.03 } }");
  }
}

class JobCheck {
 public:
  JobCheck(const Job& job, Reporter* reporter) : job_(job), reporter_(reporter) {}

  void Run(DataCheck data_check, const DataAccess& access) {
    CheckRanges(job_, "", reporter_);
    CheckName(job_.name(), "name", reporter_);
    // Where model_file could not be read, that is the error.
    std::optional<ParameterLayout> layout;
    if (job_.has_model()) {
      layout = CheckModel(job_.model(), "model", reporter_);
    } else if (job_.model_file().empty()) {
      Error("model", "the job has no model", "add model_file: \"...\" or model { ... }");
    }
    CheckBatch();
    if (joined()) {
      CheckJoined(job_, reporter_);
    } else {
      CheckNotJoined(job_, reporter_);
    }
    CheckMode(layout);
    CheckStop();
    CheckEvaluation();
    CheckCheckpoint();
    CheckTestFigures(job_, layout, reporter_);
    if (!job_.has_train()) {
      Error("train", "the job has no training data", "add train { idx { ... } }");
    }
    data_ = CheckSets(job_, layout, data_check, access, reporter_);
  }

  CheckedData TakeData() && { return std::move(data_); }

 private:
  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "") {
    reporter_->Error(field, message, suggestion);
  }

  bool joined() const { return job_.model().tensor_size() > 0; }

  void CheckBatch() {
    const uint32_t batch = job_.batch_size();
    if (batch == 0) {
      Error("batch_size", "must be at least 1", "as in batch_size: 64");
    } else if (IsInRange(job_, "batch_size") && job_.block_examples() % batch != 0) {
      const uint64_t rounded = (uint64_t{job_.block_examples()} / batch + 1) * batch;
      Error("block_examples",
            absl::StrCat(job_.block_examples(), " is not a multiple of batch_size (", batch, ")"),
            absl::StrCat("write block_examples: ", rounded));
    }
  }

  void CheckMode(const std::optional<ParameterLayout>& layout) {
    if (!job_.has_downpour() && !job_.has_sandblaster() && !joined()) {
      Error("downpour", "the job has no mode",
            "add downpour { optimizer { ... } } or sandblaster { }");
    }
    if (job_.has_downpour()) {
      CheckDownpour(job_, layout, reporter_);
    }
    if (job_.has_sandblaster() && !joined()) {
      CheckSandblaster(job_, reporter_);
    }
    if (job_.has_synchronous()) {
      CheckSynchronous(job_, reporter_);
    }
  }

  void CheckStop() {
    if (job_.has_sandblaster() && !job_.has_downpour()) {
      return;  // refused as a whole
    }
    const Stop& stop = job_.stop();
    CheckRanges(stop, "stop", reporter_);
    const double target = stop.target_accuracy();
    if (!(target >= 0.0 && target <= 1.0)) {
      std::string suggestion;
      if (target > 1.0 && target <= 100.0) {
        suggestion = absl::StrCat("write target_accuracy: ", target / 100.0);
      }
      Error("stop.target_accuracy", absl::StrCat(target, " is outside (0, 1]"), suggestion);
      return;
    }
    const bool other_end = stop.epochs() != 0.0 || stop.steps() != 0 || stop.seconds() != 0.0;
    // Such a job ends with its programs' samples.
    const bool unnumbered = joined() && job_.train().joiners().unnumbered();
    if (target == 0.0 && !other_end && !unnumbered && !stop.has_early()) {
      Error("stop", "the job would never end: it has no stop condition", "add stop { epochs: 10 }");
    }
    if (target > 0.0 && !job_.has_test()) {
      Error("stop.target_accuracy", "it needs test data to measure accuracy on",
            "add test { idx { ... } }");
    } else if (target > 0.0 && !other_end && job_.evaluation().every_epochs() == 0.0) {
      Error("stop.target_accuracy", "it is never checked: evaluation is only at the end",
            "add evaluation { every_epochs: 1 }");
    }
  }

  void CheckEvaluation() {
    if (job_.has_evaluation() && !job_.has_test()) {
      Error("evaluation", "there is no test data to evaluate on", "add test { idx { ... } }");
    }
  }

  void CheckKeepBest() {
    const Checkpoint& checkpoint = job_.checkpoint();
    if (checkpoint.keep_best() == NO_TEST_METRIC) {
      return;
    }
    if (!job_.has_test()) {
      Error("checkpoint.keep_best", "there is no test data to tell the best by",
            "add test { idx { ... } }");
    } else if (checkpoint.off()) {
      Error("checkpoint.keep_best", "no checkpoint is made at all",
            "leave out keep_best, or off: true");
    } else if (job_.evaluation().every_epochs() == 0.0 &&
               job_.sandblaster().evaluate_every_iterations() == 0) {
      Error("checkpoint.keep_best", "the only test is that of the final parameters",
            job_.has_downpour() ? "add evaluation { every_epochs: 1 }"
                                : "add evaluate_every_iterations: 10 to sandblaster { ... }");
    }
  }

  void CheckCheckpoint() {
    CheckKeepBest();
    const Checkpoint& checkpoint = job_.checkpoint();
    if (checkpoint.off() && (checkpoint.every_seconds() != 0.0 || checkpoint.every_pushes() != 0)) {
      Error(checkpoint.every_pushes() != 0 ? "checkpoint.every_pushes" : "checkpoint.every_seconds",
            "means nothing with off: true", "keep one of them");
    }
  }

  const Job& job_;
  Reporter* reporter_;
  CheckedData data_;
};

}  // namespace

CheckedData CheckJob(const Job& job, DataCheck data_check, const DataAccess& access,
                     Reporter* reporter) {
  JobCheck check(job, reporter);
  check.Run(data_check, access);
  return std::move(check).TakeData();
}

}  // namespace monsoon
