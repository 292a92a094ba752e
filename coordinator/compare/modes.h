// The modes that `coordinator compare` runs a job in: a table of names, each with what it makes of
// the job. A new mode is a row of kModes (modes.cc) with the function that edits the job.
//
// Thread safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace monsoon {

struct Mode {
  const char* name;
  // The letter that stands for its number, as in "local:H", or its word; "": it takes none.
  const char* argument;
  // Of that number: a whole one in [least, most], or any above least and up to most.
  double least;
  double most;
  bool whole;
  double example;
  bool optional;        // where the number is left out, it is that of the example
  const char* summary;  // one sentence, for help and reports
  // Makes the job one of this mode. An error says why it cannot be, and what to do; `notes` get
  // what of the job means nothing in this mode, or another thing.
  absl::Status (*apply)(double number, Job* job, std::vector<std::string>* notes);
  // The word that is written for a number in [least, most]; null: numbers are.
  std::string (*word)(double number) = nullptr;
};

// "single", "local:50": the mode with its example.
std::string ExampleOf(const Mode& mode);

// In the order of the help.
std::span<const Mode> Modes();

struct ChosenMode {
  const Mode* mode = nullptr;
  double number = 0;
  std::string text;  // "local:50", as it was written

  // The same in letters that a job's name may have: "local-50", "damped-0_5".
  std::string NamePart() const;
};

// "single,ssp:3". InvalidArgument has a line for each that is not one of the modes, or has a wrong
// number or none, or is there twice.
absl::StatusOr<std::vector<ChosenMode>> ParseModes(const std::string& list);

// All modes in lines of help, each behind `indent`.
std::string ModesHelp(const std::string& indent);

struct ModeJob {
  Job job;
  std::vector<std::string> notes;
};

// `job`, as LoadJob gives it, in that mode, with its defaults, and judged (ValidateJob). Data
// order, initial parameters and stop stay what they are. The lines of an error do not name the
// mode.
absl::StatusOr<ModeJob> MakeModeJob(const ChosenMode& mode, const Job& job);

}  // namespace monsoon
