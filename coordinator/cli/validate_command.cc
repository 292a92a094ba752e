#include "coordinator/cli/validate_command.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/diagnostics.h"
#include "common/config/job.h"
#include "common/config/model.h"
#include "common/json/json_writer.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

// The tolerant parser tells the errors; here they do not matter.
class IgnoreErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

struct FileVerdict {
  std::string file;
  ConfigKind kind = ConfigKind::kJob;
  bool ok = false;
};

struct Validation {
  std::vector<FileVerdict> files;
  std::vector<Diagnostic> diagnostics;
};

// An error without a place in a file.
void AddWholeFile(const std::string& file, const absl::Status& status,
                  std::vector<Diagnostic>* diagnostics) {
  std::string message(status.message());
  if (absl::StartsWith(message, absl::StrCat(file, ": "))) {
    message.erase(0, file.size() + 2);
  }
  diagnostics->push_back({.file = file, .message = message});
}

Validation Validate(const std::vector<std::string>& paths) {
  Validation result;
  std::vector<Cluster> clusters;
  std::vector<std::pair<std::string, Job>> jobs;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    FileVerdict verdict{.file = path, .kind = GuessConfigKind(path, text.str())};
    std::vector<Diagnostic> found;
    absl::Status status;
    if (verdict.kind == ConfigKind::kCluster) {
      absl::StatusOr<LoadedCluster> cluster = LoadCluster(path, &found);
      status = cluster.status();
      if (cluster.ok()) {
        clusters.push_back(cluster->cluster);
      }
    } else if (verdict.kind == ConfigKind::kModel) {
      status = LoadModel(path, &found).status();
    } else {
      absl::StatusOr<Job> job = LoadJob(path, {}, &found);
      status = job.status();
      if (job.ok()) {
        jobs.emplace_back(path, *std::move(job));
      }
    }
    verdict.ok = status.ok();
    if (!status.ok() && found.empty()) {
      AddWholeFile(path, status, &found);
    }
    result.diagnostics.insert(result.diagnostics.end(), found.begin(), found.end());
    result.files.push_back(verdict);
  }
  // One cluster and jobs: do they fit together?
  for (const auto& [path, job] : jobs) {
    if (clusters.size() != 1) {
      break;
    }
    if (const absl::Status status = ValidateJobOnCluster(job, clusters[0]); !status.ok()) {
      AddWholeFile(path, status, &result.diagnostics);
      for (FileVerdict& verdict : result.files) {
        verdict.ok = verdict.ok && verdict.file != path;
      }
    }
  }
  return result;
}

std::string ValidationJson(const Validation& validation) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", 1);
  json.Member("ok", validation.diagnostics.empty());
  json.Key("files").BeginArray();
  for (const FileVerdict& verdict : validation.files) {
    json.BeginObject().Member("file", verdict.file).Member("kind", ConfigKindName(verdict.kind));
    json.Member("ok", verdict.ok).EndObject();
  }
  json.EndArray().Key("errors").BeginArray();
  for (const Diagnostic& diagnostic : validation.diagnostics) {
    const auto position = [](int number) {
      return number > 0 ? std::make_optional(number) : std::nullopt;
    };
    json.BeginObject().Member("file", diagnostic.file);
    json.Member("line", position(diagnostic.line)).Member("column", position(diagnostic.column));
    json.Member("field", diagnostic.field).Member("message", diagnostic.message);
    json.Member("suggestion", diagnostic.suggestion).EndObject();
  }
  return json.EndArray().EndObject().text();
}

}  // namespace

ConfigKind GuessConfigKind(const std::string& path, const std::string& text) {
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  IgnoreErrors errors;
  google::protobuf::io::Tokenizer tokens(&stream, &errors);
  tokens.set_comment_style(google::protobuf::io::Tokenizer::SH_COMMENT_STYLE);
  int depth = 0;
  int cluster_fields = 0;
  int job_fields = 0;
  int model_fields = 0;
  while (tokens.Next()) {
    const std::string& token = tokens.current().text;
    if (token == "{" || token == "<" || token == "[") {
      ++depth;
    } else if (token == "}" || token == ">" || token == "]") {
      --depth;
    } else if (depth == 0 &&
               tokens.current().type == google::protobuf::io::Tokenizer::TYPE_IDENTIFIER) {
      cluster_fields += Cluster::descriptor()->FindFieldByName(token) != nullptr;
      job_fields += Job::descriptor()->FindFieldByName(token) != nullptr;
      model_fields += Model::descriptor()->FindFieldByName(token) != nullptr;
    }
  }
  if (model_fields > std::max(cluster_fields, job_fields)) {
    return ConfigKind::kModel;
  }
  if (cluster_fields != job_fields) {
    return cluster_fields > job_fields ? ConfigKind::kCluster : ConfigKind::kJob;
  }
  return absl::StrContains(path, "cluster") ? ConfigKind::kCluster : ConfigKind::kJob;
}

int RunValidate(Invocation& call) {
  bool json = false;
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(1, SIZE_MAX)) {
    return *code;
  }
  const Validation validation = Validate(call.positional());
  if (json) {
    call.Print(ValidationJson(validation));
  } else {
    for (const FileVerdict& verdict : validation.files) {
      if (verdict.ok) {
        call.Print(absl::StrCat(verdict.file, ": ok (", ConfigKindName(verdict.kind), ")"));
      }
    }
  }
  for (const Diagnostic& diagnostic : validation.diagnostics) {
    *call.env().err << FormatDiagnostic(diagnostic) << "\n";
  }
  return validation.diagnostics.empty() ? kExitOk : kExitUsage;
}

}  // namespace monsoon
