#include "common/config/config_file.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "common/config/chaos.h"
#include "common/config/cluster.h"
#include "common/config/job.h"
#include "common/config/model.h"
#include "common/config/suggest.h"
#include "common/config/text_tokens.h"
#include "common/config/unknown_field.h"

namespace monsoon {
namespace {

// Names of the fields outside all brackets, but `name`, which all kinds have.
std::vector<std::string> TellingNames(const std::string& contents) {
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
    } else if (depth == 0 && token.IsIdentifier() && token.text != "name" &&
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
    score += type.FindFieldByName(name) != nullptr ? 2 : NearestName(name, fields).empty() ? 0 : 1;
  }
  return score;
}

// By a word in the name of the file, else of its folder.
std::optional<ConfigKind> KindFromPath(const std::string& path) {
  const std::filesystem::path whole(path);
  for (const std::string& part :
       {whole.filename().string(), whole.parent_path().filename().string()}) {
    for (const ConfigKind kind :
         {ConfigKind::kCluster, ConfigKind::kJob, ConfigKind::kModel, ConfigKind::kChaos}) {
      if (absl::StrContains(part, ConfigKindName(kind))) {
        return kind;
      }
    }
  }
  return std::nullopt;
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
    case ConfigKind::kChaos:
      return "chaos";
  }
  return "";
}

absl::StatusOr<ConfigKind> SniffConfigKind(const std::string& contents, const std::string& path) {
  const std::vector<std::string> names = TellingNames(contents);
  std::vector<ConfigKind> best;
  int best_score = 1;
  for (const auto& [kind, type] : {std::pair(ConfigKind::kJob, Job::descriptor()),
                                   std::pair(ConfigKind::kCluster, Cluster::descriptor()),
                                   std::pair(ConfigKind::kModel, Model::descriptor()),
                                   std::pair(ConfigKind::kChaos, ChaosPlan::descriptor())}) {
    const int score = Score(names, *type);
    if (score > best_score) {
      best.clear();
    }
    if (score >= best_score) {
      best.push_back(kind);
      best_score = std::max(best_score, score);
    }
  }
  if (best.size() == 1) {
    return best.front();
  }
  if (const std::optional<ConfigKind> kind = KindFromPath(path)) {
    return *kind;
  }
  if (!best.empty() || names.empty()) {
    return best.empty() ? ConfigKind::kJob : best.front();
  }
  return absl::InvalidArgumentError("this is neither a cluster, a job, a model nor a chaos file");
}

ConfigFile ValidateConfigFile(const std::string& given, const ValidateOptions& options) {
  const bool is_input = given == "-";
  const std::string path = is_input ? "<stdin>" : given;
  ConfigFile file{.path = path};
  std::string text = options.standard_input;
  if (!is_input && !ReadConfigFile(path, &text, &file.diagnostics)) {
    return file;
  }
  const absl::StatusOr<ConfigKind> kind = SniffConfigKind(text, path);
  if (!kind.ok()) {
    file.diagnostics.push_back({path, 1, 1, "", std::string(kind.status().message()),
                                "a cluster file has coordinator, ps and worker; a job file has "
                                "model, train and stop; a model file has input_shape and layer; a "
                                "chaos file has fault"});
    return file;
  }
  file.kind = *kind;
  switch (*kind) {
    case ConfigKind::kCluster:
      if (absl::StatusOr<LoadedCluster> cluster =
              LoadCluster(path, &file.diagnostics, {&text, options.host_check, &file.warnings});
          cluster.ok()) {
        file.contents = std::move(cluster->cluster);
      }
      break;
    case ConfigKind::kJob:
      if (absl::StatusOr<Job> job =
              LoadJob(path, {.check_data_values = options.check_data_values, .contents = &text},
                      &file.diagnostics, &file.warnings);
          job.ok()) {
        file.contents = *std::move(job);
      }
      break;
    case ConfigKind::kModel:
      if (absl::StatusOr<Model> model = LoadModel(path, &file.diagnostics, &text); model.ok()) {
        file.contents = *std::move(model);
      }
      break;
    case ConfigKind::kChaos:
      if (absl::StatusOr<ChaosPlan> plan = LoadChaosPlan(path, &file.diagnostics, &text);
          plan.ok()) {
        file.contents = *std::move(plan);
      }
      break;
  }
  return file;
}

std::vector<ConfigFile> ValidateConfigFiles(const std::vector<std::string>& paths,
                                            const ValidateOptions& options) {
  std::vector<ConfigFile> files;
  for (const std::string& path : paths) {
    files.push_back(ValidateConfigFile(path, options));
  }
  const Cluster* cluster = nullptr;
  int clusters = 0;
  for (const ConfigFile& file : files) {
    if (const Cluster* found = std::get_if<Cluster>(&file.contents)) {
      cluster = found;
      ++clusters;
    }
  }
  if (clusters != 1) {
    return files;
  }
  for (ConfigFile& file : files) {
    if (const Job* job = std::get_if<Job>(&file.contents)) {
      if (const absl::Status status = ValidateJobOnCluster(*job, *cluster); !status.ok()) {
        file.diagnostics.push_back({.file = file.path, .message = std::string(status.message())});
      }
    }
  }
  return files;
}

}  // namespace monsoon
