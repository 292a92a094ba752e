#include "coordinator/replicas/evaluation_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/model/parameter_layout.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

// A result this many standard deviations above guessing is no guess.
constexpr double kChanceDeviations = 2;

}  // namespace

std::string AtChance(double accuracy, uint64_t examples, uint64_t classes) {
  if (classes < 2 || examples == 0) {
    return "";
  }
  const double guess = 1.0 / static_cast<double>(classes);
  const double deviation = std::sqrt(guess * (1 - guess) / static_cast<double>(examples));
  if (accuracy > guess + kChanceDeviations * deviation) {
    return "";
  }
  return absl::StrFormat(
      "the model has learned nothing: test accuracy %.4f on %d samples is what guessing one of %d "
      "classes gives (%.4f); try a smaller rate, and look at the data's labels and scale",
      accuracy, examples, classes, guess);
}

std::string FinalAtChance(const JobRecord& job, uint64_t examples) {
  const std::vector<TestResult> results = job.procedure()->test_results();
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(job.plan.job.model());
  if (results.empty() || !results.back().final || !results.back().has_accuracy() || !layout.ok()) {
    return "";
  }
  return AtChance(results.back().accuracy, examples, layout->output_units());
}

std::string MissingMetric(const JobRecord& job, const ReportEvaluationRequest& request) {
  const bool counted = request.metric().empty() && request.examples() > 0;
  if (!job.joined() || request.vector_is_gone() || counted) {
    return "";
  }
  if (request.metric().empty()) {
    return "the program's evaluation gives no figure, as {\"loss\": 0.5} would be";
  }
  const auto has = [&request](absl::string_view name) {
    return std::ranges::any_of(request.metric(),
                               [name](const Metric& metric) { return metric.name() == name; });
  };
  const TestMetric best = job.plan.job.checkpoint().keep_best();
  const bool to_target = job.plan.job.stop().target_accuracy() > 0;
  const char* const needed = to_target || best == TEST_ACCURACY ? "accuracy" : "loss";
  std::string lacking;
  if ((to_target || best != NO_TEST_METRIC) && !has(needed)) {
    lacking = needed;
  } else if (best == TEST_LOSS && !has("loss")) {
    lacking = "loss";
  }
  const Stop& stop = job.plan.job.stop();
  const char* const watched = stop.early().metric() == TEST_ACCURACY ? "accuracy" : "loss";
  const bool early = lacking.empty() && stop.has_early() && !has(watched);
  if (early) {
    lacking = watched;
  }
  const Schedule& schedule = job.plan.job.downpour().optimizer().schedule();
  const char* const followed = schedule.plateau().by_accuracy() ? "accuracy" : "loss";
  const bool plateau = lacking.empty() && schedule.has_plateau() && !has(followed);
  if (plateau) {
    lacking = followed;
  }
  if (lacking.empty()) {
    return "";
  }
  const std::string given =
      absl::StrJoin(request.metric(), ", ", [](std::string* out, const Metric& metric) {
        absl::StrAppend(out, "\"", absl::CEscape(metric.name().substr(0, 64)), "\"");
      });
  return absl::StrCat(plateau                              ? "downpour.optimizer.schedule.plateau"
                      : early                              ? "stop.early"
                      : to_target && lacking == "accuracy" ? "stop.target_accuracy"
                                                           : "checkpoint.keep_best",
                      " needs \"", lacking, "\", and the program's evaluation gives only ", given);
}

bool HasDiverged(const ReportEvaluationRequest& request) {
  return !std::isfinite(request.loss_sum()) ||
         std::ranges::any_of(request.metric(), [](const Metric& metric) {
           return metric.name() == "loss" && !std::isfinite(metric.value());
         });
}

}  // namespace monsoon
