#include "coordinator/compare/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/json/json_writer.h"

namespace monsoon {
namespace {

constexpr int kSchemaVersion = 1;
constexpr char kNone[] = "-";
constexpr char kMedian[] = "median";

using Row = std::vector<std::string>;

bool AnyHas(const Figure& figure, const Comparison& comparison) {
  return std::ranges::any_of(comparison.modes, [&](const ModeResult& mode) {
    return std::ranges::any_of(
        mode.runs, [&](const RunResult& run) { return (run.figures.*figure.value).has_value(); });
  });
}

bool IsShown(const Figure& figure, const Comparison& comparison) {
  switch (figure.when) {
    case Figure::When::kAlways:
      return true;
    case Figure::When::kTo:
      return comparison.to.has_value();
    case Figure::When::kDeath:
      return !comparison.kill_task.empty();
    case Figure::When::kUntested:
      return !comparison.tested;
    case Figure::When::kTested:
      return comparison.tested && (figure.value != &RunFigures::final_test_accuracy ||
                                   comparison.curve_of == CurveOf::kTestAccuracy);
    case Figure::When::kAny:
      return AnyHas(figure, comparison);
  }
  return true;
}

Row FigureCells(const RunFigures& figures, const Comparison& comparison) {
  Row cells;
  for (const Figure& figure : Figures()) {
    if (IsShown(figure, comparison)) {
      const std::optional<double> value = figures.*figure.value;
      cells.push_back(value ? absl::StrFormat("%.*f", figure.decimals, *value / figure.unit)
                            : kNone);
    }
  }
  return cells;
}

Row RowOf(const std::string& mode, const std::string& seed, Row cells) {
  cells.insert(cells.begin(), {mode, seed});
  return cells;
}

std::vector<Row> Rows(const Comparison& comparison) {
  std::vector<Row> rows = {{"mode", "seed"}};
  for (const Figure& figure : Figures()) {
    if (IsShown(figure, comparison)) {
      const std::string to = absl::StrCat(comparison.to.value_or(0));
      rows[0].push_back(figure.never ? absl::StrCat(figure.heading, " to ", to) : figure.heading);
    }
  }
  for (const ModeResult& mode : comparison.modes) {
    for (const RunResult& run : mode.runs) {
      rows.push_back(
          RowOf(mode.mode, absl::StrCat(run.seed), FigureCells(run.figures, comparison)));
    }
    if (mode.runs.size() > 1) {
      rows.push_back(RowOf(mode.mode, kMedian, FigureCells(MediansOf(mode), comparison)));
    }
  }
  return rows;
}

// Columns as wide as their widest cell; the first two to the left.
std::string Aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const auto width = static_cast<int>(widths[i]);
      const int signed_width = i < 2 ? -width : width;  // names to the left, numbers to the right
      absl::StrAppendFormat(&line, "%s%*s", i == 0 ? "" : "  ", signed_width, row[i]);
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string GridText(const ModeResult& mode, const Comparison& comparison) {
  const std::string rates = absl::StrJoin(
      mode.grid, ", ",
      [](std::string* out, const GridResult& result) { absl::StrAppend(out, result.rate); });
  return mode.rate.has_value()
             ? absl::StrCat("rate ", *mode.rate, ", the best of ", rates, " after ",
                            comparison.grid_epochs, " epochs of seed ", comparison.seeds[0])
             : absl::StrCat("no rate of ", rates, " has come to a result");
}

std::string OutcomeText(const std::string& job, const std::string& state,
                        const std::string& reason) {
  return absl::StrCat(job, " is ", state, reason.empty() ? "" : ": ", reason);
}

std::string Notes(const Comparison& comparison) {
  std::string text;
  for (const ModeResult& mode : comparison.modes) {
    const auto add = [&](const std::string& line) {
      absl::StrAppend(&text, mode.mode, ": ", line, "\n");
    };
    for (const std::string& note : mode.notes) {
      add(note);
    }
    if (!mode.grid.empty()) {
      add(GridText(mode, comparison));
    }
    for (const GridResult& result : mode.grid) {
      if (result.state != "SUCCEEDED") {
        add(OutcomeText(result.job, result.state, result.reason));
      }
    }
    for (const RunResult& run : mode.runs) {
      if (!run.succeeded()) {
        add(OutcomeText(run.job, run.state, run.reason));
      }
      if (run.death && !run.death->at_s) {
        add(absl::StrCat(run.death->job, " had ended before ", comparison.kill_task,
                         " could be killed"));
      }
      if (run.death && run.death->state != "SUCCEEDED") {
        add(OutcomeText(run.death->job, run.death->state, run.death->reason));
      }
    }
  }
  return text;
}

void WriteNumber(const std::optional<double>& value, JsonWriter* json) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: each whole number up to it is a double
  if (value && *value == std::floor(*value) && std::abs(*value) < kExact) {
    json->Value(static_cast<int64_t>(*value));
  } else {
    json->Value(value);
  }
}

void WriteFigures(const RunFigures& figures, bool with_death, JsonWriter* json) {
  for (const Figure& figure : Figures()) {
    if (with_death || figure.when != Figure::When::kDeath) {
      WriteNumber(figures.*figure.value, &json->Key(figure.name));
    }
  }
}

void WriteOutcome(const std::string& job, const std::string& state, const std::string& reason,
                  JsonWriter* json) {
  json->Member("job", job).Member("state", state).Member("reason", reason);
}

void WriteRun(const RunResult& run, JsonWriter* json) {
  json->BeginObject().Member("seed", run.seed);
  WriteOutcome(run.job, run.state, run.reason, json);
  WriteFigures(run.figures, true, json);
  json->Key("curve").BeginArray();
  for (const CurvePoint& point : run.curve) {
    json->BeginArray().Value(point.elapsed_s).Value(point.value).EndArray();
  }
  json->EndArray().Key("death");
  if (run.death.has_value()) {
    json->BeginObject();
    WriteOutcome(run.death->job, run.death->state, run.death->reason, json);
    json->Member("pid", run.death->at_s ? std::make_optional(run.death->pid) : std::nullopt);
    json->Member("at_s", run.death->at_s).Member("back_after_s", run.death->back_after_s);
    WriteFigures(run.death->figures, false, json);
    json->EndObject();
  } else {
    json->Null();
  }
  json->EndObject();
}

void WriteMode(const ModeResult& mode, JsonWriter* json) {
  json->BeginObject().Member("mode", mode.mode).Member("summary", mode.summary);
  json->Key("notes").BeginArray();
  for (const std::string& note : mode.notes) {
    json->Value(note);
  }
  json->EndArray().Member("rate", mode.rate).Key("grid").BeginArray();
  for (const GridResult& result : mode.grid) {
    json->BeginObject().Member("rate", result.rate);
    WriteOutcome(result.job, result.state, result.reason, json);
    WriteFigures(result.figures, false, json);
    json->EndObject();
  }
  json->EndArray().Key("runs").BeginArray();
  for (const RunResult& run : mode.runs) {
    WriteRun(run, json);
  }
  json->EndArray().Key(kMedian).BeginObject();
  WriteFigures(MediansOf(mode), true, json);
  json->EndObject().EndObject();
}

const char* CurveName(CurveOf of) {
  switch (of) {
    case CurveOf::kTestAccuracy:
      return "test_accuracy";
    case CurveOf::kTestLoss:
      return "test_loss";
    case CurveOf::kTrainingLoss:
      return "training_loss";
  }
  return "";
}

}  // namespace

std::string ComparisonText(const Comparison& comparison) {
  std::string text = Aligned(Rows(comparison));
  if (!comparison.kill_task.empty()) {
    absl::StrAppend(&text, "the last three: of the same run in which ", comparison.kill_task,
                    " was killed when ", comparison.kill_share, " was done\n");
  }
  absl::StrAppend(&text, Notes(comparison));
  if (!comparison.complete) {
    absl::StrAppend(&text, "not all runs were made\n");
  }
  return text;
}

std::string ComparisonJson(const Comparison& comparison) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", kSchemaVersion).Member("name", comparison.name);
  json.Member("complete", comparison.complete).Key("seeds").BeginArray();
  for (const uint64_t seed : comparison.seeds) {
    json.Value(seed);
  }
  json.EndArray().Member("to_test_accuracy", comparison.to);
  json.Member("curve_of", CurveName(comparison.curve_of));
  json.Member("grid_epochs", comparison.grid_epochs > 0 ? std::make_optional(comparison.grid_epochs)
                                                        : std::nullopt);
  json.Key("kill");
  if (comparison.kill_task.empty()) {
    json.Null();
  } else {
    json.BeginObject().Member("task", comparison.kill_task);
    json.Member("share", comparison.kill_share).EndObject();
  }
  json.Key("modes").BeginArray();
  for (const ModeResult& mode : comparison.modes) {
    WriteMode(mode, &json);
  }
  return json.EndArray().EndObject().text();
}

}  // namespace monsoon
