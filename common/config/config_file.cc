#include "common/config/config_file.h"

#include <google/protobuf/descriptor.h>

#include "common/base/status.h"
#include "common/config/cluster.h"
#include "common/config/job.h"
#include "common/config/model.h"
#include "common/config/suggest.h"
#include "common/config/text_tokens.h"
#include "common/config/unknown_field.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

// Names of the fields outside all brackets.
std::vector<std::string> TopLevelNames(const std::string& contents) {
  std::vector<Diagnostic> ignored;
  const std::vector<TextToken> tokens = Tokenize("", contents, &ignored);
  std::vector<std::string> names;
  int depth = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const TextToken& token = tokens[i];
    const TextToken& next = tokens[i + 1];
    if (token.IsSymbol('{') || token.IsSymbol('<') || token.IsSymbol('[')) {
      ++depth;
    } else if (token.IsSymbol('}') || token.IsSymbol('>') || token.IsSymbol(']')) {
      depth = depth > 0 ? depth - 1 : 0;
    } else if (depth == 0 && token.IsIdentifier() &&
               (next.IsSymbol(':') || next.IsSymbol('{') || next.IsSymbol('<'))) {
      names.push_back(token.text);
    }
  }
  return names;
}

int Score(const std::vector<std::string>& names, const google::protobuf::Descriptor& type) {
  const std::vector<std::string> fields = FieldNames(type);
  int score = 0;
  for (const std::string& name : names) {
    if (name == "name") {
      continue;  // all kinds have one
    }
    score += type.FindFieldByName(name) != nullptr ? 2 : NearestName(name, fields).empty() ? 0 : 1;
  }
  return score;
}

}  // namespace

const char* ConfigKindName(ConfigKind kind) {
  switch (kind) {
    case ConfigKind::kCluster:
      return "cluster";
    case ConfigKind::kJob:
      return "job";
    case ConfigKind::kModel:
      return "model";
  }
  return "";
}

absl::StatusOr<ConfigKind> SniffConfigKind(const std::string& contents) {
  const std::vector<std::string> names = TopLevelNames(contents);
  ConfigKind best = ConfigKind::kJob;
  int best_score = 0;
  for (const auto& [kind, type] : {std::pair(ConfigKind::kJob, Job::descriptor()),
                                   std::pair(ConfigKind::kCluster, Cluster::descriptor()),
                                   std::pair(ConfigKind::kModel, Model::descriptor())}) {
    if (const int score = Score(names, *type); score > best_score) {
      best = kind;
      best_score = score;
    }
  }
  if (best_score == 0) {
    return absl::InvalidArgumentError("this is neither a cluster, a job nor a model file");
  }
  return best;
}

absl::StatusOr<ConfigKind> ValidateConfigFile(const std::string& path,
                                              std::vector<Diagnostic>* diagnostics) {
  std::string contents;
  std::vector<Diagnostic> found;
  absl::StatusOr<ConfigKind> kind = ConfigKind::kJob;
  if (ReadConfigFile(path, &contents, &found)) {
    kind = SniffConfigKind(contents);
    if (!kind.ok()) {
      found.push_back({path, 1, 1, "", std::string(kind.status().message()),
                       "a cluster file has coordinator, ps and worker; a job file has model, "
                       "train and stop"});
    }
  }
  if (!found.empty()) {
    if (diagnostics != nullptr) {
      diagnostics->insert(diagnostics->end(), found.begin(), found.end());
    }
    return DiagnosticsToStatus(found);
  }
  switch (*kind) {
    case ConfigKind::kCluster:
      RETURN_IF_ERROR(LoadCluster(path, diagnostics).status());
      break;
    case ConfigKind::kJob:
      RETURN_IF_ERROR(LoadJob(path, {}, diagnostics).status());
      break;
    case ConfigKind::kModel:
      RETURN_IF_ERROR(LoadModel(path, diagnostics).status());
      break;
  }
  return *kind;
}

}  // namespace monsoon
