#include "coordinator/cli/validate_command.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/address.h"
#include "common/config/config_file.h"
#include "common/config/diagnostics.h"
#include "common/config/text_tokens.h"
#include "common/data/dataset_info.h"
#include "common/json/json_writer.h"
#include "common/model/layer_design.h"
#include "common/model/parameter_layout.h"
#include "common/security/credential_store.h"
#include "common/transport/frame/message_budget.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

void AppendDiagnostic(const Diagnostic& diagnostic, JsonWriter* json) {
  const auto position = [](int number) {
    return number > 0 ? std::make_optional(number) : std::nullopt;
  };
  json->BeginObject().Member("file", diagnostic.file);
  json->Member("line", position(diagnostic.line)).Member("column", position(diagnostic.column));
  json->Member("field", diagnostic.field).Member("message", diagnostic.message);
  json->Member("suggestion", diagnostic.suggestion).EndObject();
}

// Whether what is said of the file depends on data files.
bool SpeaksOfData(const ConfigFile& file) {
  if (const Job* const job = std::get_if<Job>(&file.contents)) {
    return HasFiles(job->train()) || HasFiles(job->test());
  }
  return std::ranges::any_of(file.diagnostics, [](const Diagnostic& diagnostic) {
    return absl::StartsWith(diagnostic.field, "train.") ||
           absl::StartsWith(diagnostic.field, "test.");
  });
}

// `host` is this machine.
std::string ValidationJson(const std::vector<ConfigFile>& files, bool ok, const std::string& host) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", 1).Member("ok", ok);
  json.Key("files").BeginArray();
  for (const ConfigFile& file : files) {
    json.BeginObject().Member("file", file.path).Key("kind");
    if (file.kind) {
      json.Value(ConfigKindName(*file.kind));
    } else {
      json.Null();
    }
    json.Member("ok", file.ok()).EndObject();
  }
  json.EndArray().Key("errors").BeginArray();
  for (const ConfigFile& file : files) {
    for (const Diagnostic& diagnostic : file.diagnostics) {
      AppendDiagnostic(diagnostic, &json);
    }
  }
  json.EndArray().Key("warnings").BeginArray();
  for (const ConfigFile& file : files) {
    for (const Diagnostic& warning : file.warnings) {
      AppendDiagnostic(warning, &json);
    }
  }
  const bool has_data = std::ranges::any_of(files, &SpeaksOfData);
  json.EndArray().Member("data_seen_on", has_data ? std::make_optional(host) : std::nullopt);
  return json.EndObject().text();
}

// What the message memory of a cluster's servers is enough for; a warning where
// there are more workers.
std::string WorkersText(const ConfigFile& file, const Cluster& cluster) {
  std::string text;
  for (int i = 0; i < cluster.ps_size(); ++i) {
    const uint32_t mib = cluster.ps(i).message_memory_mib();
    const uint64_t workers = WorkersAdmitted(uint64_t{mib} << 20, cluster.connections());
    const auto there_are = static_cast<uint64_t>(cluster.worker_size());
    absl::StrAppend(&text, file.path, there_are > workers ? ": warning" : "", ": ps/", i,
                    ": message_memory_mib: ", mib, " is enough for ", workers, " workers",
                    cluster.connections() > 1
                        ? absl::StrCat(" with ", cluster.connections(), " connections")
                        : "",
                    there_are > workers ? absl::StrCat(", but there are ", there_are) : "", "\n");
  }
  return text;
}

bool OthersReach(const std::string& address) { return IsTcp(address) && !IsLoopback(address); }

// Of a cluster whose addresses other machines reach: whether this user can start tasks of it.
std::string CredentialsText(const ConfigFile& file, const Cluster& cluster,
                            const Environment& environment) {
  const bool exposed = OthersReach(cluster.coordinator().address()) ||
                       std::ranges::any_of(cluster.ps(), [](const ParameterServerTask& task) {
                         return OthersReach(task.address());
                       });
  const absl::StatusOr<CredentialStore> store = CredentialStore::Find(environment.variable);
  if (!exposed || (store.ok() && store->Has(cluster.name()))) {
    return "";
  }
  return absl::StrCat(file.path,
                      ": warning: other machines reach its addresses, and this user has ",
                      "no credentials of cluster ", cluster.name(),
                      " here: `cluster init` on the coordinator's machine and `join` on the others "
                      "make them; --insecure would let in everybody\n");
}

// What a model takes, of which nothing is trained yet: "N parameters in M tensors ...".
std::string FiguresText(const Model& model) {
  constexpr double kMib = 1 << 20;
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
  if (!layout.ok()) {
    return "";  // told as a mistake of the file
  }
  // Every layer's output once forward and once backward: no less is kept of a sample.
  uint64_t between = 0;
  for (const LayerShape& layer : layout->layers()) {
    between += ElementCount(layer.output_shape);
  }
  const double parameters = 4.0 * static_cast<double>(layout->size()) / kMib;
  return absl::StrFormat(
      "  %d parameters in %d tensors: %.1f MiB in float32; on the shards %.1f MiB with Adagrad or "
      "momentum, %.1f MiB with Adam;\n  a worker has them and their gradient (%.1f MiB), and about "
      "%.2f MiB a sample between the layers",
      layout->parameters(), layout->tensors().size(), parameters, 2 * parameters, 3 * parameters,
      2 * parameters, 8.0 * static_cast<double>(between) / kMib);
}

}  // namespace

int RunValidate(Invocation& call) {
  bool json = false;
  ValidateOptions options;
  call.flags().Add("json", &json, "one JSON object on the standard output");
  call.flags().Add("data", &options.check_data_values,
                   "read the data sets to their ends: NaN, infinities, damaged files");
  if (const std::optional<int> code = call.Parse(1, SIZE_MAX)) {
    return *code;
  }
  options.host_check = call.env().host_check;
  const int64_t dashes = std::ranges::count(call.positional(), "-");
  if (dashes > 1) {
    return call.Usage("the standard input (-) can be one file only");
  }
  if (dashes == 1) {
    // One byte over the limit is enough to be refused.
    options.standard_input.resize(kMaxConfigBytes + 1);
    call.env().in->read(options.standard_input.data(), kMaxConfigBytes + 1);
    options.standard_input.resize(static_cast<size_t>(call.env().in->gcount()));
    if (options.standard_input.size() > kMaxConfigBytes) {
      return call.Usage(absl::StrCat("the standard input has more than ", kMaxConfigBytes,
                                     " bytes; is it a data file?"));
    }
  }
  const std::vector<ConfigFile> files = ValidateConfigFiles(call.positional(), options);
  const bool ok = std::all_of(files.begin(), files.end(), [](const auto& f) { return f.ok(); });
  if (json) {
    call.Print(ValidationJson(files, ok, call.env().host));
  }
  for (const ConfigFile& file : files) {
    if (file.ok() && !json) {
      call.Print(absl::StrCat(file.path, ": ok (", ConfigKindName(*file.kind), ")"));
    }
    if (const Model* model = std::get_if<Model>(&file.contents);
        model != nullptr && file.ok() && !json) {
      call.Print(FiguresText(*model));
    }
    if (const Cluster* cluster = std::get_if<Cluster>(&file.contents);
        cluster != nullptr && !json) {
      *call.env().err << WorkersText(file, *cluster) << CredentialsText(file, *cluster, call.env());
    }
    if (SpeaksOfData(file)) {
      const std::string& host = call.env().host;
      *call.env().err << file.path << ": its data files as this machine"
                      << (host.empty() ? "" : ", " + host + ",")
                      << " sees them; workers look at theirs when the job is submitted\n";
    }
    for (const Diagnostic& diagnostic : file.diagnostics) {
      *call.env().err << FormatDiagnostic(diagnostic) << "\n";
    }
    for (const Diagnostic& warning : file.warnings) {
      *call.env().err << FormatDiagnostic(warning, "warning") << "\n";
    }
  }
  return ok ? kExitOk : kExitUsage;
}

}  // namespace monsoon
