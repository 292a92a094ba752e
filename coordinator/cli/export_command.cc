#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/stored_rows.h"
#include "common/json/json_writer.h"
#include "common/model_file/model_file.h"
#include "common/onnx/onnx_file.h"
#include "coordinator/cli/checkpoint_lookup.h"
#include "coordinator/cli/checkpoint_text.h"
#include "coordinator/cli/model_commands.h"

namespace monsoon {
namespace {

struct ExportFlags {
  std::string job;  // may be "" with `from`
  std::string out;
  std::string format;
  std::string from;
  bool best = false;
  bool json = false;
};

struct ExportedModel {
  std::string job;
  Model model;
  ParameterLayout layout;
  std::vector<float> parameters;
  // Of a model with tables: where their rows come from.
  std::function<absl::Status(uint32_t table, TakeRowRun take)> rows;
  // Where it does not come from the shards:
  std::string folder;
  uint64_t generation = 0;
};

absl::StatusOr<ExportedModel> FetchModel(JobClient* client, ModelTransfer* transfer,
                                         const std::string& job) {
  ASSIGN_OR_RETURN(const JobLocation location, client->Locate(job));
  ASSIGN_OR_RETURN(ParameterLayout layout, ParameterLayout::Create(location.model()));
  if (layout.Hash() != location.layout_hash()) {
    return absl::InternalError(absl::StrCat(
        location.job(),
        ": the cluster lays the model out in another way; are the versions the same?"));
  }
  // The coordinator finds out about a lost shard long before a fetch gives up.
  const auto still_there = [client, job = location.job()]() -> absl::Status {
    const absl::Status located = client->Locate(job).status();
    // Without the coordinator the shards may still be there.
    return client->Info().ok() ? located : absl::OkStatus();
  };
  ASSIGN_OR_RETURN(std::vector<float> parameters, transfer->Fetch(location, layout, still_there));
  ExportedModel model{.job = location.job(),
                      .model = location.model(),
                      .layout = layout,
                      .parameters = std::move(parameters)};
  model.rows = [transfer, location, layout, still_there](uint32_t table, TakeRowRun take) {
    return transfer->FetchTable(location, layout, table, take, still_there);
  };
  return model;
}

std::string NoBest() {
  return "no generation was tested; a job keeps its best with checkpoint { keep_best: "
         "TEST_ACCURACY } in its file";
}

// Whether what the shards do not give may be on the disk: the coordinator or a shard is
// away, the job is unknown, or has no parameters there.
bool DiskMayHelp(const absl::Status& live) {
  return absl::IsUnavailable(live) || absl::IsDeadlineExceeded(live) || absl::IsCancelled(live) ||
         absl::IsNotFound(live) || absl::IsFailedPrecondition(live);
}

// The best one that the newest good generation at `place` knows of.
absl::StatusOr<uint64_t> BestAsOfTheDisk(const Storage* storage, const CheckpointPlace& place) {
  ASSIGN_OR_RETURN(const LoadedCheckpoint newest, LoadFrom(storage, place, /*skipped=*/nullptr));
  const uint64_t best = newest.content.context().best().generation();
  return best != 0 ? absl::StatusOr<uint64_t>(best)
                   : absl::NotFoundError(absl::StrCat(place.folder, ": ", NoBest()));
}

// The one that the coordinator knows of; 0: it is not there.
absl::StatusOr<uint64_t> BestAsOfTheCoordinator(JobClient* client, const std::string& job) {
  const absl::StatusOr<JobDescription> description = client->Describe(job);
  if (!description.ok()) {
    return DiskMayHelp(description.status()) ? absl::StatusOr<uint64_t>(0) : description.status();
  }
  const uint64_t best = description->durability().best().generation();
  return best != 0 ? absl::StatusOr<uint64_t>(best)
                   : absl::NotFoundError(
                         absl::StrCat("job ", description->summary().job(), ": ", NoBest()));
}

// Reads the newest good generation at `place`, and says which on the standard error;
// `why` it is not the shards' answer may be "".
absl::StatusOr<ExportedModel> ReadFromDisk(const Invocation& call,
                                           absl::StatusOr<CheckpointPlace> place,
                                           absl::string_view why, bool best = false) {
  RETURN_IF_ERROR(place.status());
  if (best && place->generation == 0) {
    ASSIGN_OR_RETURN(place->generation, BestAsOfTheDisk(call.env().storage, *place));
  }
  std::vector<std::string> skipped;
  ASSIGN_OR_RETURN(LoadedCheckpoint checkpoint, LoadFrom(call.env().storage, *place, &skipped));
  const ShardCheckpoint& content = checkpoint.content;
  if (!why.empty()) {
    call.Note(why);
  }
  call.Note(absl::StrCat(
      "taken from the checkpoint in ", place->folder, ": ", CheckpointName(content), ", ",
      AgeText(content.context(), call.env().clock->WallTime()), ": ", content.context().reason()));
  for (const std::string& line : skipped) {
    call.Note(absl::StrCat("passed over: ", line));
  }
  ExportedModel model{.job = content.create().job(),
                      .model = content.create().model(),
                      .layout = checkpoint.layout,
                      .parameters = std::move(checkpoint.parameters),
                      .folder = place->folder,
                      .generation = content.generation()};
  if (!model.layout.tables().empty()) {
    model.rows = [rows = std::make_shared<const StoredRows>(checkpoint)](
                     uint32_t table, TakeRowRun take) { return rows->ReadTable(table, take); };
  }
  return model;
}

// `client` outlives the model.
absl::StatusOr<ExportedModel> FindModel(const Invocation& call, const ClusterFlag& cluster,
                                        const ExportFlags& flags,
                                        std::unique_ptr<JobClient>* client) {
  const CheckpointLookup lookup(call.env(), &cluster);
  if (!flags.from.empty()) {
    return ReadFromDisk(call, lookup.FindFrom(flags.from, flags.job), /*why=*/"", flags.best);
  }
  ASSIGN_OR_RETURN(*client, cluster.Connect());
  if (flags.best) {
    ASSIGN_OR_RETURN(const uint64_t best, BestAsOfTheCoordinator(client->get(), flags.job));
    absl::StatusOr<CheckpointPlace> place = lookup.FindJob(flags.job);
    if (place.ok()) {
      place->generation = best;
    }
    return ReadFromDisk(call, std::move(place), /*why=*/"", /*best=*/true);
  }
  absl::StatusOr<ExportedModel> live = FetchModel(client->get(), call.env().transfer, flags.job);
  if (live.ok() || !DiskMayHelp(live.status())) {
    return live;
  }
  absl::StatusOr<ExportedModel> kept =
      ReadFromDisk(call, lookup.FindJob(flags.job), live.status().message());
  if (kept.ok()) {
    return kept;
  }
  // What is damaged is worse news than what is away.
  return absl::Status(
      absl::IsDataLoss(kept.status()) ? kept.status().code() : live.status().code(),
      absl::StrCat(live.status().message(), "; on the disk: ", kept.status().message()));
}

// The exit code when format and suffix do not say the same of what there is.
std::optional<int> CheckFormat(const Invocation& call, const ExportFlags& flags) {
  const std::optional<ModelFormat> wanted = ModelFormatByName(flags.format);
  if (!flags.format.empty() && !wanted.has_value()) {
    return call.Usage(
        absl::StrCat("--format=", flags.format, ": there are npz, safetensors and ", "onnx"));
  }
  const std::optional<ModelFormat> suffix = ModelFormatOf(flags.out);
  if (suffix.has_value() && wanted.has_value() && suffix != wanted) {
    return call.Usage(absl::StrCat("--format=", flags.format, ", but --out=", flags.out,
                                   " is called a ", NameOf(*suffix), " file; leave one of them"));
  }
  if (suffix.has_value()) {
    return std::nullopt;
  }
  const size_t slash = flags.out.rfind('/');
  const size_t dot = flags.out.rfind('.');
  const bool has_suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const std::string stem = has_suffix ? flags.out.substr(0, dot) : flags.out;
  std::string choices;
  for (const ModelFormat format : kModelFormats) {
    if (!wanted.has_value() || wanted == format) {
      absl::StrAppend(&choices, choices.empty() ? "" : " or ", "--out=", stem, ".", NameOf(format));
    }
  }
  return call.Usage(absl::StrCat("--out=", flags.out, ": a model is written as a NumPy archive, ",
                                 "as safetensors or as ONNX; write ", choices));
}

absl::Status WriteModel(const ExportedModel& model, const std::string& path) {
  if (ModelFormatOf(path) == ModelFormat::kOnnx) {
    return WriteOnnxFile(model.model, model.layout, model.parameters, path);
  }
  return WriteModelFile(
      model.layout, model.parameters, path,
      [&](uint32_t table, absl::FunctionRef<absl::Status(std::span<const float>)> take) {
        return model.rows(table, [&](const RowRun& run) { return take(run.values); });
      });
}

std::string ResultText(const ExportFlags& flags, const ExportedModel& model) {
  std::string text = absl::StrCat(flags.out, ": ", model.job, ", ", model.layout.tensors().size(),
                                  " tensors, ", model.layout.parameters(), " parameters");
  for (const TableInfo& table : model.layout.tables()) {
    absl::StrAppend(&text, ", table ", table.name, " of ", table.rows, " rows");
  }
  return text;
}

std::string ResultJson(const ExportFlags& flags, const ExportedModel& model) {
  JsonWriter writer;
  writer.BeginObject().Member("schema_version", 1).Member("job", model.job);
  writer.Member("out", flags.out).Member("tensors", model.layout.tensors().size());
  writer.Member("parameters", model.layout.parameters());
  writer.Member("tables", model.layout.tables().size());
  if (!model.folder.empty()) {
    writer.Member("checkpoint", model.folder).Member("generation", model.generation);
  }
  return writer.EndObject().text();
}

}  // namespace

int RunExport(Invocation& call) {
  ExportFlags flags;
  const ClusterFlag cluster(&call);
  call.flags().Add("out", &flags.out,
                   "the .npz, .safetensors or .onnx file to write; replaced at once or not at all");
  call.flags().Add("format", &flags.format,
                   "npz, safetensors or onnx, as the suffix of --out says");
  call.flags().Add("from", &flags.from,
                   "do not ask the cluster: a state folder, a job's folder in it, or a part");
  call.flags().Add("best", &flags.best,
                   "the generation that did best on the test set (checkpoint.keep_best)");
  call.flags().Add("json", &flags.json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(0, 1)) {
    return *code;
  }
  if (call.positional().empty() && flags.from.empty()) {
    return call.Usage(
        absl::StrCat("an argument is missing: ", call.name(), " JOB --out=FILE [flags]"));
  }
  if (flags.out.empty()) {
    return call.Usage("--out=FILE is missing");
  }
  if (const std::optional<int> code = CheckFormat(call, flags)) {
    return *code;
  }
  flags.job = call.positional().empty() ? "" : call.positional()[0];
  std::unique_ptr<JobClient> client;
  const absl::StatusOr<ExportedModel> model = FindModel(call, cluster, flags, &client);
  if (!model.ok()) {
    return call.Fail(model.status());
  }
  if (const absl::Status written = WriteModel(*model, flags.out); !written.ok()) {
    return call.Fail(written);
  }
  call.Print(flags.json ? ResultJson(flags, *model) : ResultText(flags, *model));
  return kExitOk;
}

}  // namespace monsoon
