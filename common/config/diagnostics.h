// Diagnostics of configuration: one is one mistake, at a place in a file. A
// whole file is judged before anything starts, so they come in lists.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

struct Diagnostic {
  std::string file;        // as the user named it; "--set PATH=VALUE" for an override
  int line = 0;            // from 1; 0: the whole file (or no file)
  int column = 0;          // from 1; a tab advances to the next multiple of 8
  std::string field;       // "ps[1].address"; empty: not in a field
  std::string message;     // what is wrong, without field or place
  std::string suggestion;  // what to write instead: `did you mean "ps"?`; may be empty
};

// One line: `FILE:LINE:COL: error: FIELD: MESSAGE; SUGGESTION`, leaving out
// what is not known. `severity` stands in place of "error".
std::string FormatDiagnostic(const Diagnostic& diagnostic, absl::string_view severity = "error");

// OK for an empty list, else InvalidArgument with a line for each.
absl::Status DiagnosticsToStatus(const std::vector<Diagnostic>& diagnostics);

// By file (in order of first appearance), line and column; equal ones once.
void SortDiagnostics(std::vector<Diagnostic>* diagnostics);

}  // namespace monsoon
