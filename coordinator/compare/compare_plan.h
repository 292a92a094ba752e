// What `coordinator compare` is asked for, and what is made of it before anything runs: the job of
// each mode, or all reasons why there is none.
//
// Thread safety: values and pure functions; MakeComparePlan reads the job's and the cluster's file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/diagnostics.h"
#include "coordinator/compare/modes.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace monsoon {

// The process of `task` is killed once that share of the job is done.
struct PlannedDeath {
  std::string task;  // "worker/1"
  double share = 0;
};

// As given.
struct CompareFlags {
  std::string modes;
  uint32_t seeds = 3;
  double to = 0;  // 0: none
  std::string rates;
  double grid_epochs = 1;
  std::string kill;
  std::string out;
  std::vector<std::string> set;
  bool keep = false;
  bool json = false;
  double patience_s = 0;
};

struct ComparedMode {
  ChosenMode mode;
  Job job;  // of the first seed
  std::vector<std::string> notes;
  std::vector<Job> grid;      // the short run of each rate
  std::vector<double> rates;  // of these
  bool dies = false;          // the task that is killed takes part
};

struct ComparePlan {
  Job job;  // of the file
  std::vector<uint64_t> seeds;
  std::optional<PlannedDeath> death;
  std::vector<ComparedMode> modes;

  // All jobs that will run.
  size_t runs() const;
};

// INVALID_ARGUMENT: a line for each thing that is wrong, of all modes.
absl::StatusOr<ComparePlan> MakeComparePlan(const CompareFlags& flags, const std::string& job_file,
                                            const Cluster& cluster,
                                            std::vector<Diagnostic>* warnings);

// "NAME-compare-MODE-SUFFIX", with as much of the name as a job's name has room for.
std::string ComparedName(const std::string& name, const ChosenMode& mode,
                         const std::string& suffix);

}  // namespace monsoon
