// Any configuration file: what kind it is, and whether it is right. For
// `coordinator validate`.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/cluster.h"
#include "common/config/diagnostics.h"
#include "proto/chaos.pb.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace monsoon {

enum class ConfigKind { kCluster, kJob, kModel, kChaos };

// "cluster", "job", "model" or "chaos".
const char* ConfigKindName(ConfigKind kind);

// Tells the kind by the names of the top-level fields, misspelt ones counting
// half; where they do not tell, by the name of the file or its folder. A file
// without any field is taken for a job. InvalidArgument when it has fields and
// none fits.
absl::StatusOr<ConfigKind> SniffConfigKind(const std::string& contents,
                                           const std::string& path = "");

struct ConfigFile {
  std::string path;                // as given
  std::optional<ConfigKind> kind;  // unset: the file cannot be read, or is something else
  // What the file holds, with the defaults filled in; nothing where it is wrong.
  std::variant<std::monostate, Cluster, Job, Model, ChaosPlan> contents;
  std::vector<Diagnostic> diagnostics;  // every mistake; empty: the file is right
  std::vector<Diagnostic> warnings;     // what is right, and known to train badly

  bool ok() const { return diagnostics.empty(); }
};

struct ValidateOptions {
  // Read the data sets that a job names to their ends (LoadOptions).
  bool check_data_values = false;
  // What the path "-" stands for; shown as "<stdin>".
  std::string standard_input;
  HostCheck host_check;  // of cluster files; null: names are not looked up
};

// Loads the file as what it is. Data files that a job names are looked at; no
// port is opened.
ConfigFile ValidateConfigFile(const std::string& path, const ValidateOptions& options = {});

// Each of the files; where exactly one of them is a right cluster file, the
// right jobs are held against that cluster too.
std::vector<ConfigFile> ValidateConfigFiles(const std::vector<std::string>& paths,
                                            const ValidateOptions& options = {});

}  // namespace monsoon
