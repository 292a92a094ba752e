// baseline --job=FILE: trains a job in one process and prints a line per epoch.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/config/job.h"
#include "worker/baseline/trainer.h"

ABSL_FLAG(std::string, job, "", "the job file (protobuf text)");
ABSL_FLAG(double, epochs, 0, "instead of the job's stop.epochs");
ABSL_FLAG(int, threads, 1, "compute threads");
ABSL_FLAG(std::vector<std::string>, set, {}, "path=value changes to the job, as in seed=3");
ABSL_FLAG(bool, json, false, "print one JSON object at the end, lines to stderr");

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

int Main() {
  if (absl::GetFlag(FLAGS_job).empty()) {
    std::fprintf(stderr,
                 "baseline: --job=FILE is missing, as in "
                 "--job=configs/job/lenet_downpour.textproto\n");
    return kUsage;
  }
  LoadOptions load;
  load.overrides = absl::GetFlag(FLAGS_set);
  if (absl::GetFlag(FLAGS_epochs) > 0) {
    load.overrides.push_back(absl::StrCat("stop.epochs=", absl::GetFlag(FLAGS_epochs)));
  }
  const absl::StatusOr<Job> job = LoadJob(absl::GetFlag(FLAGS_job), load);
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", std::string(job.status().message()).c_str());
    return kUsage;
  }
  const bool json = absl::GetFlag(FLAGS_json);
  auto trainer = Trainer::Create(*job, TrainerOptions{absl::GetFlag(FLAGS_threads)});
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
    std::printf(R"({"schema_version":1,"job":"%s","threads":%d,"parameters":%d,"epochs":[%s],)"
                R"("examples_per_s":%.1f,"final":%s})"
                "\n",
                job->name().c_str(), absl::GetFlag(FLAGS_threads),
                static_cast<int>((*trainer)->layout().parameters()),
                absl::StrJoin(reports, ",").c_str(), examples_per_s, Json(*result).c_str());
  } else {
    std::printf("done job=%s%s elapsed_s=%.1f ex_s=%.0f\n", job->name().c_str(),
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
  absl::SetProgramUsageMessage(
      "baseline --job=FILE [--epochs=N] [--threads=N] [--set=path=value,...] [--json]");
  absl::ParseCommandLine(argc, argv);
  return monsoon::Main();
}
