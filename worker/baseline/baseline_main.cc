// baseline --job=FILE: trains a job in one process and prints a line per epoch.
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "worker/baseline/command_line.h"
#include "worker/baseline/trainer.h"

namespace monsoon {
namespace {

constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

std::string OptionalNumber(const std::optional<double>& value) {
  return value ? absl::StrFormat("%.6f", *value) : "null";
}

std::string Line(const TrainingReport& report) {
  std::string line = absl::StrFormat("epoch=%.2f step=%d loss=%.4f acc=%.4f", report.epoch,
                                     report.step, report.loss, report.accuracy);
  if (report.test_accuracy) {
    absl::StrAppendFormat(&line, " test_loss=%.4f test_acc=%.4f", *report.test_loss,
                          *report.test_accuracy);
  }
  absl::StrAppendFormat(&line, " ex_s=%.0f", report.examples_per_s);
  return line;
}

std::string Json(const TrainingReport& report) {
  return absl::StrFormat(
      R"({"epoch":%.4f,"step":%d,"examples":%d,"loss":%.6f,"accuracy":%.6f,"test_loss":%s,)"
      R"("test_accuracy":%s,"examples_per_s":%.1f,"elapsed_s":%.3f})",
      report.epoch, report.step, report.examples, report.loss, report.accuracy,
      OptionalNumber(report.test_loss), OptionalNumber(report.test_accuracy), report.examples_per_s,
      report.elapsed_s);
}

int Main(std::span<const char* const> args) {
  const absl::StatusOr<BaselineCommand> command = ReadBaselineCommand(args);
  if (!command.ok()) {
    std::fprintf(stderr, "%s\n", std::string(command.status().message()).c_str());
    return kUsage;
  }
  if (!command->help.empty()) {
    std::fputs(command->help.c_str(), stdout);
    return kOk;
  }
  const Job& job = command->job;
  const bool json = command->json;
  auto trainer = Trainer::Create(job, TrainerOptions{static_cast<int>(command->threads)});
  if (!trainer.ok()) {
    std::fprintf(stderr, "baseline: %s\n", trainer.status().ToString().c_str());
    return kUsage;
  }
  std::vector<std::string> reports;
  const auto result = (*trainer)->Run([&](const TrainingReport& report) {
    std::fprintf(json ? stderr : stdout, "%s\n", Line(report).c_str());
    std::fflush(stdout);
    reports.push_back(Json(report));
  });
  if (!result.ok()) {
    std::fprintf(stderr, "baseline: %s\n", result.status().ToString().c_str());
    return kFailed;
  }
  const double examples_per_s = static_cast<double>(result->examples) / result->elapsed_s;
  if (json) {
    std::printf(R"({"schema_version":1,"job":"%s","threads":%u,"parameters":%d,"epochs":[%s],)"
                R"("examples_per_s":%.1f,"final":%s})"
                "\n",
                job.name().c_str(), command->threads,
                static_cast<int>((*trainer)->layout().parameters()),
                absl::StrJoin(reports, ",").c_str(), examples_per_s, Json(*result).c_str());
  } else {
    std::printf("done job=%s%s elapsed_s=%.1f ex_s=%.0f\n", job.name().c_str(),
                result->test_accuracy
                    ? absl::StrFormat(" test_acc=%.4f", *result->test_accuracy).c_str()
                    : "",
                result->elapsed_s, examples_per_s);
  }
  return kOk;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  return monsoon::Main(std::span<const char* const>(argv + 1, argv + argc));
}
