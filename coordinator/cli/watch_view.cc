#include "coordinator/cli/watch_view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/metrics/latency_histogram.h"

namespace monsoon {
namespace {

constexpr char kGreen[] = "\x1b[32m";
constexpr char kRed[] = "\x1b[31m";
constexpr char kYellow[] = "\x1b[33m";
constexpr char kBold[] = "\x1b[1m";
constexpr char kPlain[] = "\x1b[0m";
// Of the screen that a job's reason may take.
constexpr size_t kMostReasonLines = 3;

std::string Fixed(double value, int digits) { return absl::StrFormat("%.*f", digits, value); }

std::string FixedOr(bool measured, double value, int digits) {
  return measured && std::isfinite(value) ? Fixed(value, digits) : "-";
}

std::string CountOr(const std::optional<uint64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : "-";
}

bool HasEnded(const JobDescription& job) {
  const JobState state = job.summary().state();
  return state == SUCCEEDED || state == FAILED || state == CANCELLED;
}

std::optional<uint64_t> Known(bool known, uint64_t value) {
  return known ? std::optional(value) : std::nullopt;
}

// Of the last seconds; of a job that has ended, of all of it.
std::string Staleness(const JobDescription& job, double q) {
  if (HasEnded(job)) {
    const std::map<uint64_t, uint64_t> counts(job.staleness().begin(), job.staleness().end());
    return CountOr(ValueQuantile(counts, q));
  }
  return CountOr(q == 0.5 ? Known(job.has_recent_staleness_p50(), job.recent_staleness_p50())
                          : Known(job.has_recent_staleness_p99(), job.recent_staleness_p99()));
}

// The newest evaluation's accuracy, if it has one.
std::string TestAccuracy(const JobDescription& job) {
  const bool known = !job.evaluation().empty() && job.evaluation().rbegin()->has_test_accuracy();
  return known ? Fixed(job.evaluation().rbegin()->test_accuracy(), 4) : "-";
}

// What the newest evaluation tells beside its accuracy, where that is not all: " test_loss=0.5000
// auc=0.9812", with other signs before and behind the names. Names that would break a line of
// NAME=VALUE are left out.
std::string TestMetrics(const JobDescription& job, absl::string_view before,
                        absl::string_view behind) {
  std::string text;
  if (job.evaluation().empty()) {
    return text;
  }
  for (const auto& metric : job.evaluation().rbegin()->metric()) {
    const auto plain = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; };
    if (metric.name() != "accuracy" && std::ranges::all_of(metric.name(), plain)) {
      absl::StrAppend(&text, before, metric.name() == "loss" ? "test_loss" : metric.name(), behind,
                      Fixed(metric.value(), 4));
    }
  }
  return text;
}

// "3.20/10", "0.00/0.25"; "3.20/-" for a job that does not stop by data.
std::string Epochs(const JobDescription::Progress& progress) {
  const double epochs = progress.epochs();
  return absl::StrCat(Fixed(progress.epoch(), 2), "/",
                      epochs <= 0                    ? "-"
                      : epochs == std::floor(epochs) ? Fixed(epochs, 0)
                                                     : Fixed(epochs, 2));
}

std::string Age(const JobDescription::Worker& worker) {
  return FixedOr(worker.has_silent_s(), worker.silent_s(), 1);
}

// Of the last seconds; of a job that has ended, of all of it.
std::string FetchMs(const JobDescription& job) {
  const JobDescription::Latency& latency = job.latency_ms();
  return HasEnded(job) ? FixedOr(latency.has_fetch_p50(), latency.fetch_p50(), 1)
                       : FixedOr(latency.has_recent_fetch_p50(), latency.recent_fetch_p50(), 1);
}

std::string PushMs(const JobDescription& job) {
  const JobDescription::Latency& latency = job.latency_ms();
  return HasEnded(job) ? FixedOr(latency.has_push_p50(), latency.push_p50(), 1)
                       : FixedOr(latency.has_recent_push_p50(), latency.recent_push_p50(), 1);
}

std::string WorkerStaleness(const JobDescription& job, const JobDescription::Worker& worker) {
  return CountOr(HasEnded(job)
                     ? Known(worker.has_staleness_p50(), worker.staleness_p50())
                     : Known(worker.has_recent_staleness_p50(), worker.recent_staleness_p50()));
}

std::string Bar(double percent, int width) {
  const double share = std::clamp(percent / 100.0, 0.0, 1.0);
  const int filled = static_cast<int>(share * width);
  return absl::StrCat("[", std::string(filled, '#'), std::string(width - filled, '.'), "]");
}

// "-" also for an objective that overflowed.
std::string Objective(const JobDescription::Sandblaster& batch) {
  return batch.has_f() && std::isfinite(batch.f()) ? absl::StrFormat("%.7g", batch.f()) : "-";
}

std::string GradientNorm(const JobDescription::Sandblaster& batch) {
  return batch.has_gradient_norm() && std::isfinite(batch.gradient_norm())
             ? absl::StrFormat("%.2e", batch.gradient_norm())
             : "-";
}

std::string StepLength(const JobDescription::Sandblaster& batch) {
  return batch.has_step_length() ? absl::StrFormat("%.4g", batch.step_length()) : "-";
}

const char* StateColor(JobState state) {
  switch (state) {
    case SUCCEEDED:
      return kGreen;
    case FAILED:
    case CANCELLED:
      return kRed;
    case RUNNING:
    case FINISHING:
      return kBold;
    default:
      return kYellow;
  }
}

// A reason may quote what another process said.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      c = ' ';
    }
  }
  return text;
}

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(OneLine(text), {{"\"", "'"}}), "\"");
}

std::string ReasonField(const JobSummary& summary) {
  return summary.reason().empty() ? "" : absl::StrCat(" reason=", Quoted(summary.reason()));
}

// How a batch job has ended, in words.
std::string BatchEnd(const JobDescription::Sandblaster& batch) {
  if (batch.end_reason().empty()) {
    return "";
  }
  return absl::StrCat(" end=",
                      Quoted(batch.end_detail().empty()
                                 ? batch.end_reason()
                                 : absl::StrCat(batch.end_reason(), ": ", batch.end_detail())));
}

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Bytes of the first `columns` characters of `line`.
size_t BytesOf(absl::string_view line, int columns) {
  int characters = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    if (!ContinuesCharacter(line[at]) && ++characters > std::max(columns, 1)) {
      return at;
    }
  }
  return line.size();
}

std::string Cut(const std::string& line, int columns) {
  return line.substr(0, BytesOf(line, columns));
}

// `text` in lines broken at spaces; the last one of `most` is cut.
std::vector<std::string> Wrap(absl::string_view text, int columns, size_t most) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() < most) {
    size_t bytes = BytesOf(text, columns);
    if (const size_t space = text.substr(0, bytes + 1).rfind(' ');
        bytes < text.size() && lines.size() + 1 < most && space != absl::string_view::npos &&
        space > 0) {
      bytes = space;
    }
    lines.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
    text = absl::StripLeadingAsciiWhitespace(text);
  }
  return lines;
}

std::string BarLine(const std::string& at, double percent, int columns) {
  const std::string text = absl::StrFormat(" %s  %.1f %%", at, percent);
  const int width = std::clamp(columns - static_cast<int>(text.size()) - 2, 10, 50);
  return Bar(percent, width) + text;
}

std::string DownpourFields(const JobDescription& job) {
  const JobDescription::Progress& progress = job.progress();
  return absl::StrCat(
      " epoch=", Epochs(progress), " percent=", Fixed(progress.percent(), 1),
      " step=", progress.step(), " loss=", FixedOr(progress.has_loss(), progress.loss(), 4),
      " acc=", FixedOr(progress.has_train_accuracy(), progress.train_accuracy(), 4),
      " test_acc=", TestAccuracy(job),
      " ex_s=", FixedOr(progress.has_examples_per_s(), progress.examples_per_s(), 0),
      " stale_p50=", Staleness(job, 0.5), " stale_p99=", Staleness(job, 0.99),
      " fetch_ms=", FetchMs(job), " push_ms=", PushMs(job),
      " eta_s=", FixedOr(progress.has_eta_s(), progress.eta_s(), 0), TestMetrics(job, " ", "="));
}

std::string BatchFields(const JobDescription& job) {
  const JobDescription::Progress& progress = job.progress();
  const JobDescription::Sandblaster& batch = job.sandblaster();
  return absl::StrCat(
      " iteration=", batch.iteration(), " percent=", Fixed(progress.percent(), 1),
      " f=", Objective(batch), " grad=", GradientNorm(batch), " step_len=", StepLength(batch),
      " evals=", batch.evaluations(), " chunks=", batch.chunks_done(), "/", batch.chunks_total(),
      " backup=", batch.chunks_backup(),
      " affinity=", FixedOr(batch.has_affinity(), batch.affinity(), 2),
      " test_acc=", TestAccuracy(job),
      " ex_s=", FixedOr(progress.has_examples_per_s(), progress.examples_per_s(), 0),
      TestMetrics(job, " ", "="));
}

// The bar with what it shows, then the figures.
std::vector<std::string> DownpourScreen(const JobDescription& job, int columns) {
  const JobDescription::Progress& progress = job.progress();
  return {BarLine(absl::StrCat("epoch ", Epochs(progress)), progress.percent(), columns),
          absl::StrCat("step ", progress.step(), "  loss ",
                       FixedOr(progress.has_loss(), progress.loss(), 4), "  accuracy ",
                       FixedOr(progress.has_train_accuracy(), progress.train_accuracy(), 4),
                       "  test ", TestAccuracy(job), TestMetrics(job, "  ", " "), "  examples/s ",
                       FixedOr(progress.has_examples_per_s(), progress.examples_per_s(), 0)),
          absl::StrCat("staleness p50 ", Staleness(job, 0.5), " p99 ", Staleness(job, 0.99),
                       "  fetch ", FetchMs(job), " ms  push ", PushMs(job), " ms")};
}

std::vector<std::string> BatchScreen(const JobDescription& job, int columns) {
  const JobDescription::Progress& progress = job.progress();
  const JobDescription::Sandblaster& batch = job.sandblaster();
  std::vector<std::string> lines = {
      BarLine(absl::StrCat("iteration ", batch.iteration()), progress.percent(), columns),
      absl::StrCat("f ", Objective(batch), "  |g| ", GradientNorm(batch), "  step length ",
                   StepLength(batch), "  evaluations ", batch.evaluations()),
      absl::StrCat("chunks ", batch.chunks_done(), "/", batch.chunks_total(), " done, ",
                   batch.chunks_outstanding(), " outstanding, ", batch.chunks_backup(),
                   " backup  affinity ", FixedOr(batch.has_affinity(), batch.affinity(), 2)),
      absl::StrCat("test accuracy ", TestAccuracy(job), TestMetrics(job, "  ", " "),
                   "  examples/s ",
                   FixedOr(progress.has_examples_per_s(), progress.examples_per_s(), 0))};
  if (!batch.end_reason().empty()) {
    absl::StrAppend(&lines.back(), "  ", batch.end_reason());
  }
  return lines;
}

// "and 12 more: 10 RUNNING, 2 LOST", of the workers from index `first` on.
std::string MoreWorkers(const JobDescription& job, int first) {
  std::map<std::string, int> states;
  for (int i = first; i < job.worker_size(); ++i) {
    ++states[job.worker(i).state()];
  }
  return absl::StrCat("and ", job.worker_size() - first, " more: ",
                      absl::StrJoin(states, ", ", [](std::string* out, const auto& state) {
                        absl::StrAppend(out, state.second, " ", state.first);
                      }));
}

// At most `room` lines, which is at least 2.
std::vector<std::string> WorkerTable(const JobDescription& job, size_t room) {
  std::vector<std::string> lines = {"worker  state           step  examples/s  staleness  seen"};
  for (int i = 0; i < job.worker_size(); ++i) {
    const bool last_line = lines.size() + 1 == room;
    if (last_line && i + 1 < job.worker_size()) {
      lines.push_back(MoreWorkers(job, i));
      break;
    }
    const JobDescription::Worker& worker = job.worker(i);
    lines.push_back(absl::StrFormat("%6d  %-10s %9d  %10.0f  %9s  %s s ago", worker.task(),
                                    worker.state(), worker.steps(), worker.examples_per_s(),
                                    WorkerStaleness(job, worker), Age(worker)));
  }
  return lines;
}

}  // namespace

std::string WatchLines(const JobDescription& job) {
  std::string text =
      absl::StrCat("t=", Fixed(job.summary().elapsed_s(), 1), " job=", job.summary().job(),
                   " state=", JobState_Name(job.summary().state()));
  absl::StrAppend(&text, job.has_sandblaster() ? BatchFields(job) : DownpourFields(job),
                  ReasonField(job.summary()));
  for (const JobDescription::Worker& worker : job.worker()) {
    absl::StrAppend(&text, "\n  worker=", worker.task(), " state=", worker.state(),
                    " step=", worker.steps(), " ex_s=", Fixed(worker.examples_per_s(), 0),
                    " stale_p50=", WorkerStaleness(job, worker), " age_s=", Age(worker));
  }
  return text;
}

std::string DoneLine(const JobDescription& job) {
  return absl::StrCat(
      "done job=", job.summary().job(), " state=", JobState_Name(job.summary().state()),
      " test_acc=", FixedOr(job.has_final_test_accuracy(), job.final_test_accuracy(), 4),
      " elapsed_s=", Fixed(job.summary().elapsed_s(), 0), ReasonField(job.summary()),
      BatchEnd(job.sandblaster()));
}

std::string FormatTimeLeft(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  return total >= 3600 ? absl::StrFormat("%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60)
                       : absl::StrFormat("%d:%02d", total / 60, total % 60);
}

std::vector<std::string> WatchScreen(const JobDescription& job, const ScreenOptions& options) {
  const JobDescription::Progress& progress = job.progress();
  const JobState state = job.summary().state();
  std::vector<std::string> lines;
  const std::string state_name = JobState_Name(state);
  std::string head =
      Cut(absl::StrCat(job.summary().job(), "  ", state_name, "  ",
                       FormatTimeLeft(job.summary().elapsed_s()), " elapsed",
                       progress.has_eta_s()
                           ? absl::StrCat("  ", FormatTimeLeft(progress.eta_s()), " left")
                           : ""),
          options.columns);
  if (const size_t at = head.find(state_name); options.color && at != std::string::npos) {
    head.replace(at, state_name.size(), absl::StrCat(StateColor(state), state_name, kPlain));
  }
  lines.push_back(head);
  for (std::string& line :
       Wrap(OneLine(job.summary().reason()), options.columns, kMostReasonLines)) {
    lines.push_back(std::move(line));
  }
  for (const std::string& line : job.has_sandblaster() ? BatchScreen(job, options.columns)
                                                       : DownpourScreen(job, options.columns)) {
    lines.push_back(Cut(line, options.columns));
  }
  const size_t room = static_cast<size_t>(std::max(options.rows - 1, 1));
  if (lines.size() + 2 <= room) {  // the table's head and a line
    for (const std::string& line : WorkerTable(job, room - lines.size())) {
      lines.push_back(Cut(line, options.columns));
    }
  }
  lines.resize(std::min(lines.size(), room));
  return lines;
}

}  // namespace monsoon
