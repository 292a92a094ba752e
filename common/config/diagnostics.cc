#include "common/config/diagnostics.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace monsoon {

std::string FormatDiagnostic(const Diagnostic& diagnostic, absl::string_view severity) {
  std::string text;
  if (!diagnostic.file.empty()) {
    text = diagnostic.file;
    if (diagnostic.line > 0) {
      absl::StrAppend(&text, ":", diagnostic.line, ":", diagnostic.column);
    }
    absl::StrAppend(&text, ": ");
  }
  absl::StrAppend(&text, severity, ": ");
  if (!diagnostic.field.empty()) {
    absl::StrAppend(&text, diagnostic.field, ": ");
  }
  absl::StrAppend(&text, diagnostic.message);
  if (!diagnostic.suggestion.empty()) {
    absl::StrAppend(&text, "; ", diagnostic.suggestion);
  }
  return text;
}

absl::Status DiagnosticsToStatus(const std::vector<Diagnostic>& diagnostics) {
  if (diagnostics.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrJoin(diagnostics, "\n", [](std::string* out, const Diagnostic& diagnostic) {
        out->append(FormatDiagnostic(diagnostic));
      }));
}

void SortDiagnostics(std::vector<Diagnostic>* diagnostics) {
  std::map<std::string, size_t> rank;
  for (const Diagnostic& diagnostic : *diagnostics) {
    rank.try_emplace(diagnostic.file, rank.size());
  }
  const auto key = [&rank](const Diagnostic& d) {
    return std::make_tuple(rank[d.file], d.line, d.column);
  };
  std::stable_sort(diagnostics->begin(), diagnostics->end(),
                   [&key](const Diagnostic& a, const Diagnostic& b) { return key(a) < key(b); });
  const auto same = [&key](const Diagnostic& a, const Diagnostic& b) {
    return key(a) == key(b) && a.field == b.field && a.message == b.message;
  };
  diagnostics->erase(std::unique(diagnostics->begin(), diagnostics->end(), same),
                     diagnostics->end());
}

}  // namespace monsoon
