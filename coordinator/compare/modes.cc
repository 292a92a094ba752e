#include "coordinator/compare/modes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "common/config/suggest.h"
#include "common/optimizer/schedule_lengths.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

// Of DiLoCo's outer optimizer (docs/low_communication.md).
constexpr double kOuterRate = 0.7;
constexpr double kOuterMomentum = 0.9;

using Notes = std::vector<std::string>;

absl::Status NeedDownpour(const Job& job) {
  return job.has_downpour()
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "the job has no downpour { } part; add downpour { optimizer { ... "
                   "} } and stop { epochs: N }");
}

absl::Status AsItIs(double, Job* job, Notes*) { return NeedDownpour(*job); }

absl::Status OneWorker(double, Job* job, Notes*) {
  RETURN_IF_ERROR(NeedDownpour(*job));
  job->mutable_downpour()->set_workers(1);
  if (job->has_sandblaster()) {
    job->mutable_sandblaster()->set_workers(1);
  }
  return absl::OkStatus();
}

absl::Status Bound(double versions, StalenessPolicy policy, Job* job) {
  RETURN_IF_ERROR(NeedDownpour(*job));
  Downpour* const downpour = job->mutable_downpour();
  downpour->set_staleness_bound(static_cast<uint32_t>(versions));
  downpour->set_staleness_policy(policy);
  return absl::OkStatus();
}

absl::Status WaitForSlowest(double bound, Job* job, Notes*) {
  return Bound(bound, WAIT_FOR_SLOWEST, job);
}

absl::Status DropOlder(double bound, Job* job, Notes*) { return Bound(bound, DROP_OLDER, job); }

absl::Status Damp(double power, Job* job, Notes*) {
  RETURN_IF_ERROR(NeedDownpour(*job));
  job->mutable_downpour()->mutable_optimizer()->set_damping(power);
  return absl::OkStatus();
}

// The shards' optimizer as that of a replica's own steps. Its schedule counted pushes of all
// replicas, each of n_push steps; of a replica's steps it counts those of all.
absl::StatusOr<Optimizer> InnerOf(const Downpour& downpour) {
  if (downpour.local().has_inner()) {
    return downpour.local().inner();
  }
  Optimizer inner = downpour.optimizer();
  for (const auto& [is_set, part] : {std::pair<bool, const char*>{inner.has_average(), "average"},
                                     {inner.damping() != 0.0, "damping"}}) {
    if (is_set) {
      return absl::InvalidArgumentError(absl::StrCat(
          "downpour.optimizer.", part,
          " is the shards' affair, and here the job's optimizer is that of the replicas' own "
          "steps; compare with one that has none, as "
          "--set=downpour.optimizer={adagrad{rate:0.01}}"));
    }
  }
  if (inner.has_schedule() && !inner.schedule().in_steps()) {
    const uint64_t steps = std::max(1u, downpour.n_push());
    SetLengths([steps](const ScheduleLength& length) { return length.pushes * steps; },
               inner.mutable_schedule());
    inner.mutable_schedule()->set_in_steps(true);
  }
  return inner;
}

absl::Status TakeLocalSteps(double steps, Job* job, Notes* notes) {
  RETURN_IF_ERROR(NeedDownpour(*job));
  Downpour* const downpour = job->mutable_downpour();
  ASSIGN_OR_RETURN(Optimizer inner, InnerOf(*downpour));
  if (!downpour->has_local() && downpour->n_fetch() > 1) {
    notes->push_back("n_fetch means nothing: each difference is one fetch and one push");
  }
  downpour->clear_n_fetch();
  downpour->clear_n_push();
  downpour->clear_local_update();
  downpour->clear_optimizer();
  downpour->clear_rounds();
  downpour->clear_local();
  downpour->mutable_local()->set_steps(static_cast<uint32_t>(steps));
  *downpour->mutable_local()->mutable_inner() = std::move(inner);
  return absl::OkStatus();
}

absl::Status TakeRounds(double steps, Job* job, Notes* notes) {
  RETURN_IF_ERROR(TakeLocalSteps(steps, job, notes));
  Downpour* const downpour = job->mutable_downpour();
  downpour->mutable_rounds();
  Nesterov* const outer = downpour->mutable_optimizer()->mutable_nesterov();
  outer->set_rate(kOuterRate);
  outer->set_momentum(kOuterMomentum);
  return absl::OkStatus();
}

// What `stop` and `evaluation` say, as a batch job has it: an iteration takes about one epoch.
absl::Status MakeBatchPart(const Job& job, Sandblaster* batch, Notes* notes) {
  const Stop& stop = job.stop();
  if (!(stop.epochs() > 0)) {
    return absl::InvalidArgumentError(
        "a batch job ends by its iterations, and stop { } has no epochs to tell how many; add "
        "sandblaster { max_iterations: N } or stop { epochs: N }");
  }
  constexpr double kMost = 1e9;  // of stop.epochs
  batch->set_max_iterations(static_cast<uint32_t>(std::ceil(std::min(stop.epochs(), kMost))));
  notes->push_back(absl::StrCat("ends after ", batch->max_iterations(),
                                " iterations, each of one epoch or more, for stop.epochs"));
  std::vector<std::string> idle;
  for (const auto& [is_set, name] : {std::pair<bool, const char*>{stop.steps() > 0, "stop.steps"},
                                     {stop.seconds() > 0, "stop.seconds"},
                                     {stop.has_early(), "stop.early"}}) {
    if (is_set) {
      idle.emplace_back(name);
    }
  }
  if (!idle.empty()) {
    notes->push_back(absl::StrCat("without ", absl::StrJoin(idle, ", ")));
  }
  const double every = job.evaluation().every_epochs();
  if (every > 0) {
    batch->set_evaluate_every_iterations(static_cast<uint32_t>(std::max(1.0, std::round(every))));
  }
  if (stop.target_accuracy() > 0) {
    batch->set_target_accuracy(stop.target_accuracy());
    batch->set_evaluate_every_iterations(std::max(1u, batch->evaluate_every_iterations()));
  }
  batch->set_workers(job.downpour().workers());
  return absl::OkStatus();
}

absl::Status TrainInBatch(double, Job* job, Notes* notes) {
  if (!job->has_downpour()) {
    return absl::OkStatus();
  }
  if (!job->has_sandblaster()) {
    RETURN_IF_ERROR(MakeBatchPart(*job, job->mutable_sandblaster(), notes));
  }
  job->clear_downpour();
  job->clear_stop();
  job->mutable_evaluation()->clear_every_epochs();
  if (!job->has_test()) {
    job->clear_evaluation();
  }
  return absl::OkStatus();
}

std::string ReduceWord(double number) {
  return absl::AsciiStrToLower(
      Synchronous::Reduce_Name(static_cast<Synchronous::Reduce>(static_cast<int>(number))));
}

absl::Status TakeStepsTogether(double reduce, Job* job, Notes* notes) {
  RETURN_IF_ERROR(NeedDownpour(*job));
  const Downpour before = job->downpour();
  Downpour* const downpour = job->mutable_downpour();
  downpour->Clear();
  *downpour->mutable_optimizer() =
      before.local().has_inner() ? before.local().inner() : before.optimizer();
  downpour->mutable_optimizer()->clear_damping();  // nothing is stale
  downpour->set_workers(before.workers());
  if (before.has_local() || before.n_push() > 1 || before.n_fetch() > 1) {
    notes->push_back("each step is all replicas' step, whatever the job fetches and pushes");
  }
  job->clear_sandblaster();
  if (!job->has_synchronous()) {
    job->mutable_synchronous()->set_scale_rate(Synchronous::LINEAR);
    notes->push_back("k times the rate for k times the batch (scale_rate: LINEAR)");
  }
  job->mutable_synchronous()->set_reduce(
      static_cast<Synchronous::Reduce>(static_cast<int>(reduce)));
  return absl::OkStatus();
}

constexpr double kMostSteps = 1048576;  // LocalSteps.steps
constexpr double kMostBound = 65536;    // Downpour.staleness_bound

constexpr Mode kModes[] = {
    {"single", "", 0, 0, true, 0, false, "one worker alone, with overlap as the job has it",
     OneWorker},
    {"downpour", "", 0, 0, true, 0, false, "as the job file says", AsItIs},
    {"ssp", "S", 0, kMostBound, true, 3, false,
     "whoever is more than S pushes ahead of the slowest waits (staleness_bound)", WaitForSlowest},
    {"drop", "S", 0, kMostBound, true, 8, false,
     "a push that is more than S versions late is left out (staleness_policy: DROP_OLDER)",
     DropOlder},
    {"damped", "P", 0, 4, false, 0.5, false,
     "a push that is s versions late counts (1 + s)^-P times (optimizer.damping)", Damp},
    {"local", "H", 1, kMostSteps, true, 50, true,
     "H steps of each replica by the job's own optimizer, then their difference, averaged one by "
     "one",
     TakeLocalSteps},
    {"diloco", "H", 1, kMostSteps, true, 50, true,
     "the same in rounds of all workers, with Nesterov's momentum outside (rate 0.7, momentum 0.9)",
     TakeRounds},
    {"synchronous", "R", Synchronous::AUTO, Synchronous::SHARDS, true, Synchronous::RING, true,
     "all take each step together, their gradients summed by R (synchronous.reduce)",
     TakeStepsTogether, ReduceWord},
    {"sandblaster", "", 0, 0, true, 0, false, "in batch, by L-BFGS over the whole training set",
     TrainInBatch},
};

std::string Written(const Mode& mode) {
  if (*mode.argument == '\0') {
    return mode.name;
  }
  return absl::StrCat(mode.name, mode.optional ? "[:" : ":", mode.argument,
                      mode.optional ? "]" : "");
}

std::string RangeText(const Mode& mode) {
  if (mode.word != nullptr) {
    std::vector<std::string> words;
    for (double number = mode.least; number <= mode.most; ++number) {
      words.push_back(mode.word(number));
    }
    return absl::StrCat("one of ", absl::StrJoin(words, ", "));
  }
  return mode.whole ? absl::StrFormat("a whole number in %.0f .. %.0f", mode.least, mode.most)
                    : absl::StrFormat("a number above %g and up to %g", mode.least, mode.most);
}

// The shortest digits that are this number alone.
std::string NumberText(const Mode& mode, double number) {
  if (mode.word != nullptr) {
    return mode.word(number);
  }
  if (mode.whole) {
    return absl::StrFormat("%.0f", number);
  }
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), number);
  return std::string(digits, end.ptr);
}

absl::StatusOr<const Mode*> FindMode(const std::string& name) {
  std::vector<std::string> names;
  for (const Mode& mode : kModes) {
    if (name == mode.name) {
      return &mode;
    }
    names.emplace_back(mode.name);
  }
  const std::string hint = DidYouMean(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no mode \"", name, "\"; ",
                   hint.empty() ? absl::StrCat("there are ", absl::StrJoin(names, ", ")) : hint));
}

bool ParseNumber(const Mode& mode, const std::string& text, double* number) {
  if (mode.word == nullptr) {
    return absl::SimpleAtod(text, number) && std::isfinite(*number);
  }
  for (*number = mode.least; *number <= mode.most; ++*number) {
    if (absl::EqualsIgnoreCase(text, mode.word(*number))) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<ChosenMode> ParseMode(const std::string& text) {
  const size_t colon = text.find(':');
  ASSIGN_OR_RETURN(const Mode* const mode, FindMode(text.substr(0, colon)));
  ChosenMode chosen{.mode = mode, .text = text};
  if (*mode->argument == '\0') {
    return colon == std::string::npos
               ? absl::StatusOr<ChosenMode>(chosen)
               : absl::InvalidArgumentError(absl::StrCat("\"", text, "\": ", mode->name,
                                                         " takes no number; write ", mode->name));
  }
  const std::string as_in = absl::StrCat("as in ", ExampleOf(*mode));
  if (colon == std::string::npos && mode->optional) {
    chosen.number = mode->example;
    chosen.text = absl::StrCat(mode->name, ":", NumberText(*mode, chosen.number));
    return chosen;
  }
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": its ", mode->argument, " is missing; ", as_in));
  }
  const bool is_number = ParseNumber(*mode, text.substr(colon + 1), &chosen.number);
  const bool is_right =
      is_number && chosen.number <= mode->most &&
      (mode->whole ? chosen.number >= mode->least && chosen.number == std::floor(chosen.number)
                   : chosen.number > mode->least);
  if (!is_right) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": ", mode->argument, " is ", RangeText(*mode), "; ", as_in));
  }
  chosen.text = absl::StrCat(mode->name, ":", NumberText(*mode, chosen.number));
  return chosen;
}

}  // namespace

std::span<const Mode> Modes() { return kModes; }

std::string ExampleOf(const Mode& mode) {
  return *mode.argument == '\0' ? mode.name
                                : absl::StrCat(mode.name, ":", NumberText(mode, mode.example));
}

std::string ChosenMode::NamePart() const {
  return absl::StrReplaceAll(text, {{":", "-"}, {".", "_"}, {"+", ""}});
}

absl::StatusOr<std::vector<ChosenMode>> ParseModes(const std::string& list) {
  std::vector<ChosenMode> modes;
  std::vector<std::string> wrong;
  std::set<std::string> seen;
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    const absl::StatusOr<ChosenMode> mode =
        ParseMode(std::string(absl::StripAsciiWhitespace(part)));
    if (!mode.ok()) {
      wrong.push_back(absl::StrCat("--modes: ", mode.status().message()));
    } else if (!seen.insert(mode->text).second) {
      wrong.push_back(absl::StrCat("--modes: \"", mode->text, "\" is there twice; leave one out"));
    } else {
      modes.push_back(*mode);
    }
  }
  if (!wrong.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(wrong, "\n"));
  }
  return modes;
}

std::string ModesHelp(const std::string& indent) {
  std::string text;
  for (const Mode& mode : kModes) {
    absl::StrAppendFormat(&text, "\n%s%-12s %s", indent, Written(mode), mode.summary);
  }
  return text;
}

absl::StatusOr<ModeJob> MakeModeJob(const ChosenMode& mode, const Job& job) {
  ModeJob made{.job = job};
  if (mode.mode->apply != TakeStepsTogether && made.job.has_synchronous()) {
    if (made.job.synchronous().reduce() == Synchronous::SHARDS) {
      made.job.mutable_downpour()->clear_rounds();  // that is what it stands for
      made.job.mutable_downpour()->clear_staleness_bound();
      made.job.mutable_downpour()->clear_staleness_policy();
    }
    made.job.clear_synchronous();
  }
  RETURN_IF_ERROR(mode.mode->apply(mode.number, &made.job, &made.notes));
  FillJobDefaults(&made.job);
  RETURN_IF_ERROR(ValidateJob(made.job));
  return made;
}

}  // namespace monsoon
