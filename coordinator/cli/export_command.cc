#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/json/json_writer.h"
#include "common/model_file/model_file.h"
#include "coordinator/cli/model_commands.h"

namespace monsoon {
namespace {

constexpr char kModelSuffix[] = ".npz";

struct Exported {
  std::string job;
  size_t tensors = 0;
  uint64_t parameters = 0;
};

absl::StatusOr<Exported> Export(const ClusterFlag& cluster, ModelTransfer* transfer,
                                const std::string& job, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<JobClient> client, cluster.Connect());
  ASSIGN_OR_RETURN(const JobLocation location, client->Locate(job));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(location.model()));
  if (layout.Hash() != location.layout_hash()) {
    return absl::InternalError(absl::StrCat(
        location.job(),
        ": the cluster lays the model out in another way; are the versions the same?"));
  }
  // The coordinator finds out about a lost shard long before a fetch gives up.
  const auto still_there = [&]() -> absl::Status {
    const absl::Status located = client->Locate(location.job()).status();
    // Without the coordinator the shards may still be there.
    return client->Info().ok() ? located : absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const std::vector<float> parameters,
                   transfer->Fetch(location, layout, still_there));
  RETURN_IF_ERROR(WriteModelFile(layout, parameters, path));
  return Exported{location.job(), layout.tensors().size(), layout.parameters()};
}

}  // namespace

int RunExport(Invocation& call) {
  std::string path;
  bool json = false;
  ClusterFlag cluster(&call);
  call.flags().Add("out", &path, "the .npz file to write; replaced at once or not at all");
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(1, 1)) {
    return *code;
  }
  if (path.empty()) {
    return call.Usage("--out=FILE is missing");
  }
  if (!absl::EndsWith(path, kModelSuffix)) {
    const size_t slash = path.rfind('/');
    const size_t dot = path.rfind('.');
    const bool has_suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash);
    return call.Usage(absl::StrCat("--out=", path,
                                   ": a model is written as a NumPy archive; write --out=",
                                   has_suffix ? path.substr(0, dot) : path, kModelSuffix));
  }
  const absl::StatusOr<Exported> exported =
      Export(cluster, call.env().transfer, call.positional()[0], path);
  if (!exported.ok()) {
    return call.Fail(exported.status());
  }
  if (!json) {
    call.Print(absl::StrCat(path, ": ", exported->job, ", ", exported->tensors, " tensors, ",
                            exported->parameters, " parameters"));
    return kExitOk;
  }
  JsonWriter writer;
  writer.BeginObject().Member("schema_version", 1).Member("job", exported->job);
  writer.Member("out", path).Member("tensors", exported->tensors);
  call.Print(writer.Member("parameters", exported->parameters).EndObject().text());
  return kExitOk;
}

}  // namespace monsoon
