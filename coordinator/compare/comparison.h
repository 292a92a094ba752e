// Comparison: what became of one job in several modes, each with several seeds; its figures, from
// what `describe` tells of each run, and their medians.
//
// Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

// Of one run, or the medians of several. Nothing: not measured, or never reached.
struct RunFigures {
  std::optional<double> final_test_accuracy;
  std::optional<double> final_loss;     // on the test set
  std::optional<double> training_loss;  // the newest
  std::optional<double> elapsed_s;      // since the first replica trained
  std::optional<double> to_s;           // until a test had the accuracy that is asked for
  std::optional<double> to_examples;
  std::optional<double> examples;  // that were computed
  std::optional<double> steps;
  std::optional<double> bytes_fetched;
  std::optional<double> bytes_pushed;
  std::optional<double> staleness_p50;
  std::optional<double> staleness_p99;
  std::optional<double> staleness_max;
  std::optional<double> bound_wait_ms;  // for slower ones, all replicas together
  std::optional<double> dropped;        // pushes that were left out as too old
  // What a death has cost beside the same run without it.
  std::optional<double> death_examples_again;
  std::optional<double> death_extra_s;
  std::optional<double> death_back_after_s;
};

// One of them: in JSON under `name`, in the table below `heading`, divided by `unit`; with `never`
// that is "HEADING to ACCURACY".
struct Figure {
  const char* name;
  const char* heading;
  std::optional<double> RunFigures::*value;
  int decimals;
  double unit;
  // Nothing of a run that succeeded means that it never came to that, which is later than any
  // other; else it was not measured.
  bool never;
  // Shown in the table only: with an accuracy to reach, with a death, without a test set, with one,
  // where any run has it.
  enum class When { kAlways, kTo, kDeath, kUntested, kTested, kAny } when;
};

std::span<const Figure> Figures();

struct CurvePoint {
  double elapsed_s = 0;
  double value = 0;

  bool operator==(const CurvePoint&) const = default;
};

// A run in which a task was killed, beside the one without.
struct DeathResult {
  std::string job;
  std::string state;
  std::string reason;
  std::optional<double> at_s;  // of the job's time; nothing: it ended before
  uint32_t pid = 0;
  std::optional<double> back_after_s;
  RunFigures figures;
};

struct RunResult {
  uint64_t seed = 0;
  std::string job;
  std::string state;  // JobState; "LOST": the coordinator did not know it any more
  std::string reason;
  RunFigures figures;
  std::vector<CurvePoint> curve;  // rising in elapsed_s
  std::optional<DeathResult> death;

  bool succeeded() const { return state == "SUCCEEDED"; }
};

// A short run with one rate.
struct GridResult {
  double rate = 0;
  std::string job;
  std::string state;
  std::string reason;
  RunFigures figures;
};

struct ModeResult {
  std::string mode;     // "ssp:3"
  std::string summary;  // what that is
  std::vector<std::string> notes;
  std::optional<double> rate;
  std::vector<GridResult> grid;
  std::vector<RunResult> runs;
};

// What the curves are of.
enum class CurveOf { kTestAccuracy, kTestLoss, kTrainingLoss };

struct Comparison {
  std::string name;  // the job's
  std::vector<uint64_t> seeds;
  std::optional<double> to;  // test accuracy
  bool tested = false;       // the job has a test set
  CurveOf curve_of = CurveOf::kTrainingLoss;
  double grid_epochs = 0;  // 0: no grid
  std::string kill_task;   // "": nobody
  double kill_share = 0;
  bool complete = false;  // all runs were made
  std::vector<ModeResult> modes;
};

// `job`: what was run. `to`: a test accuracy whose time is wanted.
RunFigures FiguresOf(const Job& job, const JobDescription& description, std::optional<double> to);

// The test results as a curve; empty where there is none of that kind.
std::vector<CurvePoint> CurveFrom(const JobDescription& description, CurveOf of);

// What the run with a death has cost beyond `without`, into the figures of that.
void TakeDeath(const JobDescription& without, const JobDescription& with, const DeathResult& death,
               RunFigures* figures);

// The middle one, or the mean of the two. `missing` more values are above all others: nothing where
// the middle is among them, or there are no values.
std::optional<double> Median(std::vector<double> values, size_t missing = 0);

// Of the runs that succeeded.
RunFigures MediansOf(const ModeResult& mode);

// Point by point, as far as all runs that succeeded have points.
std::vector<CurvePoint> MedianCurve(const ModeResult& mode);

// The grid's rate with the highest test accuracy, or without any with the lowest loss, of the test
// set if there is one; the first of equals. Nothing where no run succeeded.
std::optional<double> BestRate(std::span<const GridResult> grid);

}  // namespace monsoon
