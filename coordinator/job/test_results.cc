#include "coordinator/job/test_results.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/job/replica_set.h"

namespace monsoon {
namespace {

TestSetResult ToState(const TestResult& result) {
  TestSetResult state;
  state.set_step(result.step);
  state.set_epoch(result.epoch);
  state.set_at_ns(ToNanos(result.at));
  state.set_loss(result.loss);
  state.set_accuracy(result.accuracy);
  state.set_final(result.final);
  state.set_generation(result.generation);
  for (const auto& [name, value] : result.metrics) {
    Metric* const metric = state.add_metric();
    metric->set_name(name);
    metric->set_value(value);
  }
  return state;
}

TestResult FromState(const TestSetResult& state) {
  TestResult result{.step = state.step(),
                    .epoch = state.epoch(),
                    .at = FromNanos(state.at_ns()),
                    .loss = state.loss(),
                    .accuracy = state.accuracy(),
                    .final = state.final(),
                    .generation = state.generation()};
  for (const Metric& metric : state.metric()) {
    result.metrics.emplace_back(metric.name(), metric.value());
  }
  return result;
}

// What a program may call its figures, and how many of them are shown.
constexpr size_t kMaxMetricName = 64;
constexpr int kMaxMetrics = 64;

absl::Status CheckMetrics(const ReportEvaluationRequest& request, const std::string& worker) {
  const std::string where = absl::StrCat("evaluation ", request.evaluation(), " of ", worker);
  if (request.metric_size() > kMaxMetrics) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has ", request.metric_size(),
                                                   " metrics; the limit is ", kMaxMetrics));
  }
  std::set<std::string> names;
  for (const Metric& metric : request.metric()) {
    const std::string& name = metric.name();
    const bool printable =
        std::ranges::all_of(name, [](unsigned char c) { return absl::ascii_isprint(c); });
    if (name.empty() || name.size() > kMaxMetricName || !printable) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": a metric's name has 1 to ", kMaxMetricName, " printable characters, \"",
          absl::CEscape(name.substr(0, kMaxMetricName)), "\" does not"));
    }
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, " has \"", name, "\" twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool TestResult::Has(absl::string_view name) const {
  const auto is_it = [name](const auto& metric) { return metric.first == name; };
  return metrics.empty() ? name == "loss" || name == "accuracy"
                         : std::ranges::any_of(metrics, is_it);
}

std::string TestResult::Text() const {
  if (metrics.empty()) {
    return absl::StrFormat("accuracy %.4f, loss %.4f", accuracy, loss);
  }
  // Of a network: these two first.
  const bool both =
      metrics.size() > 1 && metrics[0].first == "accuracy" && metrics[1].first == "loss";
  const std::string first =
      both ? absl::StrFormat("accuracy %.4f, loss %.4f", accuracy, loss) : std::string();
  const auto rest = std::span(metrics).subspan(both ? 2 : 0);
  return absl::StrCat(first, both && !rest.empty() ? ", " : "",
                      absl::StrJoin(rest, ", ", [](std::string* out, const auto& metric) {
                        absl::StrAppendFormat(out, "%s %.6g", metric.first, metric.second);
                      }));
}

void TestResults::RequestFinal() {
  if (has_test_) {
    schedule_.RequestFinal();
  }
}

std::optional<uint64_t> TestResults::Assign(uint32_t worker, const std::set<uint32_t>& live) {
  return schedule_.Assign(worker, live);
}

void TestResults::GivenOut(TestResult when) {
  CHECK(schedule_.assigned_id());
  const uint64_t id = *schedule_.assigned_id();
  if (writer_.state().test().given_out_id() == id) {
    return;
  }
  const uint64_t generation = schedule_.generation();
  const TestSetResult& last = writer_.state().test().given_out();
  if (generation != 0 && last.generation() == generation) {
    when = FromState(last);  // as it was cut; the replica that had it before is gone
  }
  when.generation = generation;
  when.final = ends_job_ && schedule_.assigned_final();
  GiveOut(id, when);
}

void TestResults::GiveOut(uint64_t id, const TestResult& when) {
  writer_.Make([&](StateUpdate* update) {
    update->mutable_test_given_out()->set_id(id);
    *update->mutable_test_given_out()->mutable_when() = ToState(when);
  });
}

void TestResults::UseGeneration(uint64_t generation, TestResult when) {
  schedule_.UseGeneration(generation);
  when.generation = generation;
  GiveOut(writer_.state().test().given_out_id(), when);  // to nobody yet
}

void TestResults::Compare(const TestResult& result) {
  if (result.generation == 0) {
    return;
  }
  // Nothing is better than NaN, nor is it than anything.
  if (std::isnan(best_ == TEST_LOSS ? result.loss : result.accuracy)) {
    return;
  }
  const DurableJob& job = writer_.job();
  const bool better =
      !job.has_best() || (best_ == TEST_LOSS ? result.loss < job.best().loss()
                                             : result.accuracy > job.best().accuracy());
  if (better) {
    writer_.job_writer().Make([&](StateUpdate* update) {
      TestedGeneration* const best = update->mutable_best_generation();
      best->set_generation(result.generation);
      best->set_epoch(result.epoch);
      if (result.has_accuracy()) {
        best->set_accuracy(result.accuracy);
      }
      if (result.has_loss()) {
        best->set_loss(result.loss);
      }
    });
  }
}

absl::StatusOr<const TestResult*> TestResults::Report(uint32_t worker,
                                                      const ReportEvaluationRequest& request) {
  if (request.vector_is_gone()) {
    if (schedule_.assigned_id() == request.evaluation()) {
      schedule_.LoseGeneration(worker);
    }
    return nullptr;
  }
  const bool counted = request.metric().empty();
  if (!counted) {
    RETURN_IF_ERROR(CheckMetrics(request, WorkerName(worker)));
  } else if (const auto examples = static_cast<double>(request.examples());
             !(examples > 0 && request.correct() >= 0 && request.correct() <= examples)) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation ", request.evaluation(), " of ", WorkerName(worker), " counts ",
                     request.correct(), " correct of ", request.examples()));
  }
  const auto assigned = schedule_.assigned_id();
  if (!schedule_.Complete(worker, request.evaluation())) {
    if (assigned == request.evaluation()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "evaluation ", request.evaluation(), " is not ", WorkerName(worker), "'s any more"));
    }
    return nullptr;
  }
  newest_ = FromState(writer_.state().test().given_out());
  if (counted) {
    const auto examples = static_cast<double>(request.examples());
    newest_.loss = request.loss_sum() / examples;
    newest_.accuracy = request.correct() / examples;
  }
  for (const Metric& metric : request.metric()) {
    newest_.metrics.emplace_back(metric.name(), metric.value());
    if (metric.name() == "loss") {
      newest_.loss = metric.value();
    } else if (metric.name() == "accuracy") {
      newest_.accuracy = metric.value();
    }
  }
  writer_.Make([&](StateUpdate* update) { *update->mutable_test_result() = ToState(newest_); });
  Compare(newest_);
  return &newest_;
}

std::vector<TestResult> TestResults::records() const {
  std::vector<TestResult> records;
  for (const TestSetResult& result : writer_.state().test().result()) {
    records.push_back(FromState(result));
  }
  return records;
}

}  // namespace monsoon
