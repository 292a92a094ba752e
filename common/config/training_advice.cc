#include "common/config/training_advice.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/codec/wire_formats.h"
#include "common/config/schedule_shares.h"
#include "common/model/parameter_layout.h"
#include "common/optimizer/schedule.h"
#include "common/optimizer/schedule_lengths.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

// Rate of a whole push with momentum's sum of a geometric series. The MLP preset's
// model with momentum 0.9, n_push 4 and two workers had after half an epoch a test
// accuracy of 0.77 to 0.80 at this value, and of 0.24 to 0.49 at four times it (three
// seeds each).
constexpr double kLargestPushRate = 0.5;

// Rate of averaged Adagrad times the workers. LeNet's preset (0.1) was at 0.90 of the test set and
// above after five epochs with four workers; with eight one of three seeds ended at 0.10, and with
// sixteen all (docs/downpour.md).
constexpr double kLargestAveragedRate = 0.5;

// A schedule's end, as a part of the job's, that is neither early nor late.
constexpr double kEarly = 0.8;
constexpr double kLate = 2.0;

// With less the sum over the pushes of some replicas stays below twice each.
constexpr double kMildMomentum = 0.5;

// Momentum at each push of several replicas: what one of them moved is carried on by the
// pushes of all others.
void AdviseNesterov(const Job& job, Reporter* reporter) {
  const Downpour& downpour = job.downpour();
  const Nesterov& nesterov = downpour.optimizer().nesterov();
  const bool alone = downpour.workers() == 1;
  if (downpour.has_rounds()) {
    if (nesterov.period() > 1) {
      reporter->Error("downpour.optimizer.nesterov.period",
                      absl::StrFormat("a round gives the optimizer one mean of all its "
                                      "differences, so that a period of %d delays the momentum "
                                      "by %d rounds",
                                      nesterov.period(), nesterov.period()),
                      "leave period out: it is for differences that come one by one");
    }
    return;
  }
  if (!downpour.optimizer().has_nesterov() || nesterov.period() > 1 || alone ||
      nesterov.momentum() <= kMildMomentum) {
    return;
  }
  reporter->Error("downpour.optimizer.nesterov.momentum",
                  absl::StrFormat("pushes of several replicas are applied one by one, and a "
                                  "momentum of %.3g carries each on by up to %.3g times itself "
                                  "(asynchronous Nesterov trains worse so: arXiv 2401.09135)",
                                  nesterov.momentum(), 1 / (1 - nesterov.momentum())),
                  "say period: N with N replicas (delayed Nesterov), or divide the rate by N");
}

// An average hides what single stale steps do, up to where they go too far.
void AdviseAverage(const Job& job, Reporter* reporter) {
  const Downpour& downpour = job.downpour();
  const Optimizer& optimizer = downpour.optimizer();
  const uint32_t workers = downpour.workers();
  const double rate = optimizer.adagrad().rate();
  if (!optimizer.has_average() || !optimizer.has_adagrad() || downpour.has_rounds() ||
      workers < 2 || rate * workers <= kLargestAveragedRate) {
    return;
  }
  reporter->Error("downpour.optimizer.adagrad.rate",
                  absl::StrFormat("%d workers make %d stale steps of %.3g for one: an averaged "
                                  "Adagrad ended at chance so with 8 workers and a rate of 0.1",
                                  workers, workers, rate),
                  absl::StrFormat("take %.3g or less", kLargestAveragedRate / workers));
}

// What goes by the test set's figures.
void AdviseFigures(const Job& job, Reporter* reporter) {
  if (job.stop().has_early() && job.checkpoint().keep_best() == NO_TEST_METRIC) {
    reporter->Error("stop.early",
                    absl::StrFormat("the job ends with its last parameters, %d evaluations after "
                                    "the best ones",
                                    job.stop().early().patience()),
                    absl::StrFormat("keep the best with checkpoint { keep_best: %s }",
                                    TestMetric_Name(job.stop().early().metric())));
  }
  const LocalUpdate& local = job.downpour().local_update();
  if (job.downpour().optimizer().schedule().has_plateau() &&
      (local.has_sgd_rate() || local.has_adagrad_rate())) {
    reporter->Error("downpour.optimizer.schedule.plateau",
                    "the shards reduce their rate, local_update keeps its own",
                    "choose the smaller rate for local_update, or another schedule");
  }
}

// Batch normalisation's running values do not move in a batch job, nor travel as such in every
// format.
void AdviseStatistics(const Job& job, Reporter* reporter) {
  const bool has_some = std::ranges::any_of(job.model().layer(), &Layer::has_batch_norm);
  if (has_some && job.has_sandblaster() && !job.has_downpour()) {
    reporter->Error("sandblaster",
                    "batch_norm's running means and variances stay what they begin as, 0 and 1: "
                    "it is Downpour SGD that finds them",
                    "add a downpour { } part, which goes first, or resume from such a job");
  }
  const Downpour& downpour = job.downpour();
  const FormatTraits* const format = FindFormat(downpour.push_format());
  if (has_some && !downpour.has_rounds() && format != nullptr && !format->carries_statistics) {
    const auto small = [](const FormatTraits& traits) {
      return traits.carries_statistics && traits.format != FLOAT32;
    };
    reporter->Error("downpour.push_format",
                    absl::StrCat(format->name(),
                                 " brings changes of batch_norm's running means and variances, "
                                 "not their values: a push of old ones may take them too far"),
                    absl::StrCat(FormatNames(small, "and"), " bring values"));
  }
}

// "cosine" of "cosine.pushes", and "linear schedule" of "linear.pushes".
std::string ScheduleName(const ScheduleLength& length) {
  const std::string kind = length.name.substr(0, length.name.find('.'));
  return kind == "cosine" ? kind : absl::StrReplaceAll(kind, {{"_", " "}}) + " schedule";
}

// What multiplies the rate from `end` on.
double FactorAt(Schedule schedule, uint64_t end) {
  FillScheduleDefaults(&schedule);
  return ScheduleFactor(schedule, end);
}

// A schedule that ends before `all` pushes or steps until `stop`, or long after. What is given as a
// share fits.
void AdviseSchedule(const Schedule& schedule, const std::string& path, double all,
                    absl::string_view what, Reporter* reporter) {
  for (const ScheduleLength& length : LengthsOf(schedule)) {
    const double end = static_cast<double>(length.pushes);
    const std::string at = JoinPath(path, length.name);
    const std::string instead = "say share: 1 in place of pushes, for all until `stop`";
    if (length.pushes == 0 || length.share > 0) {
      continue;
    }
    if (length.whole && end < kEarly * all) {
      reporter->Error(
          at,
          absl::StrFormat("the %s has fallen to %g after %.0f of about %.0f %s: the "
                          "rate stays there for the rest",
                          ScheduleName(length), FactorAt(schedule, length.pushes), end, all, what),
          instead);
    } else if (length.whole && end > kLate * all) {
      reporter->Error(at,
                      absl::StrFormat("the %s ends after %.0f %s, the job after about %.0f: the "
                                      "rate hardly falls",
                                      ScheduleName(length), end, what, all),
                      instead);
    } else if (length.needed && !length.whole && end > all) {
      reporter->Error(at,
                      absl::StrFormat("the job ends after about %.0f %s, before the first of %.0f",
                                      all, what, end),
                      absl::StrCat("say ", length.share_name, " in its place"));
    } else if (!length.needed && !length.whole && end > all) {
      reporter->Error(at,
                      absl::StrFormat("the job ends after about %.0f %s, within the warm-up of "
                                      "%.0f",
                                      all, what, end),
                      "say warm_up_share in place of warm_up_pushes");
    }
  }
}

// How many workers there will be is known where the job says so; else what does not depend on it
// is judged alone.
void AdviseSchedules(const Job& job, uint64_t examples, Reporter* reporter) {
  const Downpour& downpour = job.downpour();
  const uint32_t workers = downpour.workers() != 0 ? downpour.workers() : downpour.programs();
  const Trainers trainers{.workers = std::max(1u, workers)};
  const std::optional<double> pushes = PushesUntilStop(job, examples, trainers);
  const std::optional<double> steps = InnerStepsUntilStop(job, examples, trainers);
  const std::optional<double> all = StepsUntilStop(job, examples);
  const auto advise = [&](const Schedule& schedule, const std::string& path, bool known,
                          std::optional<double> number, absl::string_view what) {
    if (schedule.in_steps() && all.has_value()) {
      AdviseSchedule(schedule, path, *all, "steps", reporter);
    } else if (known && number.has_value()) {
      AdviseSchedule(schedule, path, *number, what, reporter);
    }
  };
  advise(downpour.optimizer().schedule(), "downpour.optimizer.schedule",
         !downpour.has_rounds() || workers != 0, pushes, "pushes");
  advise(downpour.local().inner().schedule(), "downpour.local.inner.schedule", workers != 0, steps,
         "steps of a worker");
}

// A batch of one sample, with a batch_norm that has one value of it for each channel.
void AdviseLastBatch(const Job& job, uint64_t examples, Reporter* reporter) {
  const uint32_t batch = job.batch_size();
  if (!job.has_downpour() || batch == 0 || (batch != 1 && examples % batch != 1)) {
    return;
  }
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(job.model());
  if (!layout.ok()) {
    return;
  }
  const LayerShape* found = nullptr;
  for (int i = 0; found == nullptr && i < job.model().layer_size(); ++i) {
    const LayerShape& layer = layout->layers()[static_cast<size_t>(i)];
    if (job.model().layer(i).has_batch_norm() && layer.input_shape.size() == 1) {
      found = &layer;
    }
  }
  if (found == nullptr) {
    return;
  }
  reporter->Error(
      "batch_size",
      absl::StrCat(batch == 1 ? "each batch" : "the last batch of an epoch",
                   " is one sample, and one value has no variance: ", found->name,
                   " (batch_norm) takes its running means and variances there, and does not move "
                   "them"),
      batch == 1 ? "take larger batches"
                 : absl::StrCat("take batches that do not leave one of ", examples, " samples"));
}

}  // namespace

void AdviseTraining(const Job& job, uint64_t examples, Reporter* reporter) {
  AdviseLastBatch(job, examples, reporter);
  AdviseSchedules(job, examples, reporter);
  AdviseNesterov(job, reporter);
  AdviseAverage(job, reporter);
  AdviseFigures(job, reporter);
  AdviseStatistics(job, reporter);
  const Downpour& downpour = job.downpour();
  const Optimizer& optimizer = downpour.optimizer();
  const uint32_t n_push = std::max(1u, downpour.n_push());
  const LocalUpdate& local = downpour.local_update();
  const bool moves_between = local.has_sgd_rate() || local.has_adagrad_rate();
  // Clipping bounds a push whatever it sums.
  const bool clipped = optimizer.clip_norm() > 0 || optimizer.clip_value() > 0;
  if (!optimizer.has_momentum() || n_push == 1 || moves_between || clipped) {
    return;
  }
  const double rate = optimizer.momentum().rate();
  const double push_rate = rate * n_push / (1 - optimizer.momentum().momentum());
  if (push_rate <= kLargestPushRate) {
    return;
  }
  reporter->Error(
      "downpour.n_push",
      absl::StrFormat("a push is the sum of %d gradients of one point, and with momentum it moves "
                      "by up to rate * n_push / (1 - momentum) = %.3g times their mean: such jobs "
                      "end anywhere (test accuracies of 0.638 to 0.971 over four seeds)",
                      n_push, push_rate),
      absl::StrFormat("divide the rate by n_push (rate: %.3g), or add local_update { sgd_rate: "
                      "%.3g }",
                      rate / n_push, rate));
}

}  // namespace monsoon
