#include "coordinator/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/metrics/latency_histogram.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

constexpr double kMega = 1e6;

using When = Figure::When;

constexpr Figure kFigures[] = {
    {"final_test_accuracy", "accuracy", &RunFigures::final_test_accuracy, 4, 1, false,
     When::kTested},
    {"final_loss", "loss", &RunFigures::final_loss, 4, 1, false, When::kTested},
    {"training_loss", "train loss", &RunFigures::training_loss, 4, 1, false, When::kUntested},
    {"elapsed_s", "seconds", &RunFigures::elapsed_s, 1, 1, false, When::kAlways},
    {"to_s", "s", &RunFigures::to_s, 1, 1, true, When::kTo},
    {"to_examples", "samples", &RunFigures::to_examples, 0, 1, true, When::kTo},
    {"examples", "samples", &RunFigures::examples, 0, 1, false, When::kAlways},
    {"steps", "steps", &RunFigures::steps, 0, 1, false, When::kAlways},
    {"bytes_fetched", "MB down", &RunFigures::bytes_fetched, 1, kMega, false, When::kAlways},
    {"bytes_pushed", "MB up", &RunFigures::bytes_pushed, 1, kMega, false, When::kAlways},
    {"staleness_p50", "stale p50", &RunFigures::staleness_p50, 0, 1, false, When::kAlways},
    {"staleness_p99", "p99", &RunFigures::staleness_p99, 0, 1, false, When::kAlways},
    {"staleness_max", "max", &RunFigures::staleness_max, 0, 1, false, When::kAlways},
    {"bound_wait_ms", "s waited", &RunFigures::bound_wait_ms, 1, 1e3, false, When::kAny},
    {"dropped", "dropped", &RunFigures::dropped, 0, 1, false, When::kAny},
    {"death_examples_again", "samples again", &RunFigures::death_examples_again, 0, 1, false,
     When::kDeath},
    {"death_extra_s", "s more", &RunFigures::death_extra_s, 1, 1, false, When::kDeath},
    {"death_back_after_s", "back after s", &RunFigures::death_back_after_s, 1, 1, false,
     When::kDeath},
};

std::optional<double> FiniteOr(bool has, double value) {
  return has && std::isfinite(value) ? std::make_optional(value) : std::nullopt;
}

// Samples that were computed and are in no epoch, as those of workers that died. In batch, where
// epochs are what was computed and each run of a seed does the same, all samples.
double Surplus(const JobDescription& description) {
  const double counted =
      description.has_sandblaster()
          ? 0
          : description.progress().epoch() * static_cast<double>(description.data().examples());
  return static_cast<double>(description.progress().examples()) - std::round(counted);
}

}  // namespace

std::span<const Figure> Figures() { return kFigures; }

RunFigures FiguresOf(const Job& job, const JobDescription& description, std::optional<double> to) {
  const JobDescription::Progress& progress = description.progress();
  const JobDescription::Counts& counts = description.counts();
  RunFigures figures{
      .final_test_accuracy =
          FiniteOr(description.has_final_test_accuracy(), description.final_test_accuracy()),
      .final_loss = FiniteOr(description.has_final_loss(), description.final_loss()),
      .training_loss = FiniteOr(progress.has_loss(), progress.loss()),
      .elapsed_s = description.summary().elapsed_s(),
      .examples = static_cast<double>(progress.examples()),
      .steps = static_cast<double>(counts.steps()),
      .bytes_fetched = static_cast<double>(counts.bytes_fetched()),
      .bytes_pushed = static_cast<double>(counts.bytes_pushed()),
  };
  const std::map<uint64_t, uint64_t> staleness(description.staleness().begin(),
                                               description.staleness().end());
  if (!staleness.empty()) {
    figures.staleness_p50 = ValueQuantile(staleness, 0.5);
    figures.staleness_p99 = ValueQuantile(staleness, 0.99);
    figures.staleness_max = static_cast<double>(staleness.rbegin()->first);
  }
  // Of others these are counted nowhere, or cannot be.
  if (job.downpour().has_staleness_bound()) {
    const bool drops = job.downpour().staleness_policy() == DROP_OLDER;
    (drops ? figures.dropped : figures.bound_wait_ms) =
        static_cast<double>(drops ? counts.dropped() : counts.bound_wait_ms());
  }
  for (const JobDescription::EvaluationResult& test : description.evaluation()) {
    if (to.has_value() && test.has_test_accuracy() && test.test_accuracy() >= *to) {
      figures.to_s = test.elapsed_s();
      figures.to_examples =
          std::round(test.epoch() * static_cast<double>(description.data().examples()));
      break;
    }
  }
  return figures;
}

std::vector<CurvePoint> CurveFrom(const JobDescription& description, CurveOf of) {
  std::vector<CurvePoint> curve;
  for (const JobDescription::EvaluationResult& test : description.evaluation()) {
    const bool accuracy = of == CurveOf::kTestAccuracy;
    const auto value = accuracy ? FiniteOr(test.has_test_accuracy(), test.test_accuracy())
                                : FiniteOr(test.has_test_loss(), test.test_loss());
    if (of != CurveOf::kTrainingLoss && value.has_value() &&
        (curve.empty() || test.elapsed_s() >= curve.back().elapsed_s)) {
      curve.push_back({test.elapsed_s(), *value});
    }
  }
  return curve;
}

void TakeDeath(const JobDescription& without, const JobDescription& with, const DeathResult& death,
               RunFigures* figures) {
  figures->death_back_after_s = death.back_after_s;
  if (!death.at_s.has_value() || with.summary().state() != SUCCEEDED) {
    return;
  }
  figures->death_examples_again = std::max(0.0, Surplus(with) - std::max(0.0, Surplus(without)));
  if (without.summary().state() == SUCCEEDED) {
    figures->death_extra_s = with.summary().elapsed_s() - without.summary().elapsed_s();
  }
}

std::optional<double> Median(std::vector<double> values, size_t missing) {
  std::ranges::sort(values);
  const size_t all = values.size() + missing;
  // The upper one of the middle; below it there are as many as above, or one more.
  if (values.empty() || all / 2 >= values.size()) {
    return std::nullopt;
  }
  const double upper = values[all / 2];
  return all % 2 == 1 ? upper : (values[all / 2 - 1] + upper) / 2;
}

RunFigures MediansOf(const ModeResult& mode) {
  RunFigures medians;
  for (const Figure& figure : kFigures) {
    std::vector<double> values;
    size_t never = 0;
    for (const RunResult& run : mode.runs) {
      if (!run.succeeded()) {
        continue;
      }
      if (const std::optional<double> value = run.figures.*figure.value) {
        values.push_back(*value);
      } else if (figure.never) {
        ++never;
      }
    }
    medians.*figure.value = Median(std::move(values), never);
  }
  return medians;
}

std::vector<CurvePoint> MedianCurve(const ModeResult& mode) {
  std::vector<const RunResult*> runs;
  for (const RunResult& run : mode.runs) {
    if (run.succeeded() && !run.curve.empty()) {
      runs.push_back(&run);
    }
  }
  if (runs.empty()) {
    return {};
  }
  const size_t points = (*std::ranges::min_element(runs, {}, [](const RunResult* run) {
                          return run->curve.size();
                        }))->curve.size();
  std::vector<CurvePoint> curve;
  for (size_t i = 0; i < points; ++i) {
    std::vector<double> times;
    std::vector<double> values;
    for (const RunResult* run : runs) {
      times.push_back(run->curve[i].elapsed_s);
      values.push_back(run->curve[i].value);
    }
    curve.push_back({*Median(std::move(times)), *Median(std::move(values))});
  }
  return curve;
}

std::optional<double> BestRate(std::span<const GridResult> grid) {
  // Larger is better.
  const auto merit = [](const GridResult& result) -> std::pair<int, double> {
    const RunFigures& figures = result.figures;
    if (result.state != "SUCCEEDED") {
      return {0, 0};
    }
    if (figures.final_test_accuracy.has_value()) {
      return {2, *figures.final_test_accuracy};
    }
    const std::optional<double> loss =
        figures.final_loss.has_value() ? figures.final_loss : figures.training_loss;
    return loss.has_value() ? std::pair<int, double>{1, -*loss} : std::pair<int, double>{0, 0};
  };
  const auto best = std::ranges::max_element(grid, {}, merit);
  return best == grid.end() || merit(*best).first == 0 ? std::nullopt
                                                       : std::make_optional(best->rate);
}

}  // namespace monsoon
