// Any configuration file: what kind it is, and whether it is right. For
// `coordinator validate`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/diagnostics.h"

namespace monsoon {

enum class ConfigKind { kCluster, kJob, kModel };

// "cluster", "job" or "model".
const char* ConfigKindName(ConfigKind kind);

// Tells the kind by the names of the top-level fields, misspelt ones counting
// half. InvalidArgument when none fits.
absl::StatusOr<ConfigKind> SniffConfigKind(const std::string& contents);

// Loads the file as what it is. On an error the status holds a line for each
// mistake and `diagnostics`, if given, receives them. Data files that a job
// names are looked at; no port is opened.
absl::StatusOr<ConfigKind> ValidateConfigFile(const std::string& path,
                                              std::vector<Diagnostic>* diagnostics = nullptr);

}  // namespace monsoon
