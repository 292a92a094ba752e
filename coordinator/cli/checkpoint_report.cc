#include "coordinator/cli/checkpoint_report.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/json/json_writer.h"
#include "common/model/table_info.h"
#include "common/optimizer/optimizer_kinds.h"
#include "coordinator/cli/checkpoint_text.h"

namespace monsoon {
namespace {

void AddTables(const PartReader& reader, PartReport* part) {
  const ShardCheckpoint& content = reader.content();
  const absl::StatusOr<std::vector<TableMap>> maps =
      TableMaps(reader.layout().tables(), content.create().shards());
  for (size_t table = 0; maps.ok() && table < maps->size(); ++table) {
    part->tables.push_back({.stripes = (*maps)[table].stripes_of(content.create().shard())});
  }
  for (const RowStripeRecord& stripe : content.row_stripe()) {
    ++part->tables[stripe.table()].touched;  // the reader knows that it is there
  }
  part->rows_applied = content.rows_applied();
}

// Reads a part whole. What of it is of use to all goes to `report`.
PartReport ReadPart(const Storage* storage, const std::string& path, GenerationReport* generation,
                    CheckpointReport* report) {
  PartReport part{.path = path};
  const absl::StatusOr<std::unique_ptr<PartReader>> reader = PartReader::Open(storage, path);
  if (!reader.ok()) {
    part.status = reader.status();
    return part;
  }
  part.manifest = (*reader)->manifest();
  part.shard = part.manifest->shard();
  generation->generation = part.manifest->generation();
  generation->shards = part.manifest->shards();
  ShardCheckpoint content = (*reader)->content();
  for (const StripeRecord& stripe : content.stripe()) {
    part.version_max = std::max(part.version_max, stripe.version());
  }
  part.version_min = part.version_max;
  for (const StripeRecord& stripe : content.stripe()) {
    part.version_min = std::min(part.version_min, stripe.version());
  }
  AddTables(**reader, &part);
  content.clear_stripe();
  content.clear_row_stripe();
  content.clear_row_session();
  if (!report->content.has_value()) {
    report->content = content;
    report->manifest = part.manifest;
    report->layout = (*reader)->layout();
  }
  if (!generation->content.has_value()) {
    generation->content = std::move(content);
  }
  part.status = (*reader)->Verify();
  return part;
}

bool HasGoodPart(const GenerationReport& generation, uint32_t shard) {
  return std::ranges::any_of(generation.parts, [shard](const PartReport& part) {
    return part.shard == shard && part.status.ok();
  });
}

// Takes the parts out of `generation` that were deleted, by what is in the `newer` ones.
void TakeOutGone(std::span<const GenerationReport> newer, GenerationReport* generation) {
  std::erase_if(generation->parts, [&](const PartReport& part) {
    // The manifest is there: it is the file that is not.
    const bool gone =
        absl::IsNotFound(part.status) &&
        std::ranges::any_of(newer, [&](const GenerationReport& other) {
          return other.generation > generation->generation && HasGoodPart(other, part.shard);
        });
    if (gone) {
      generation->gone.push_back(part.shard);
      generation->missing.push_back(part.shard);
    }
    return gone;
  });
  std::ranges::sort(generation->missing);
}

std::string ShardList(const std::vector<uint32_t>& shards) {
  return absl::StrJoin(
      shards, ", ", [](std::string* out, uint32_t shard) { absl::StrAppend(out, "ps/", shard); });
}

void AddPart(const PartReport& part, JsonWriter* json) {
  json->BeginObject().Member("shard", part.shard).Member("manifest", part.path);
  json->Member("ok", part.status.ok());
  json->Key("error");
  part.status.ok() ? json->Null() : json->Value(std::string(part.status.message()));
  const auto number = [&](absl::string_view key, uint64_t value) {
    json->Key(key);
    part.manifest.has_value() ? json->Value(value) : json->Null();
  };
  const CheckpointManifest manifest = part.manifest.value_or(CheckpointManifest());
  number("bytes", manifest.bytes());
  number("epoch", manifest.shard_epoch());
  number("parent_epoch", manifest.parent_epoch());
  number("parent_generation", manifest.parent_generation());
  number("written_ms", static_cast<uint64_t>(manifest.written_ms()));
  number("version_min", part.version_min);
  number("version_max", part.version_max);
  number("rows_applied", part.rows_applied);
  json->Key("tables").BeginArray();
  for (const TableReport& table : part.tables) {
    json->BeginObject().Member("touched_stripes", table.touched);
    json->Member("stripes", table.stripes).EndObject();
  }
  json->EndArray().EndObject();
}

// How far the job had come, and why the generation was made.
void AddContext(const std::optional<ShardCheckpoint>& content, JsonWriter* json) {
  json->Key("context");
  if (!content.has_value()) {
    json->Null();
    return;
  }
  const CheckpointContext& context = content->context();
  json->BeginObject().Member("reason", context.reason()).Member("ordered_ms", context.ordered_ms());
  json->Member("elapsed_s", context.elapsed_s()).Member("final", context.final());
  json->Member("epoch", EpochsOf(context.downpour())).Member("steps", context.downpour().steps());
  json->Member("examples", context.downpour().examples_done());
  json->Member("iterations", context.iterations());
  // The best generation as this one knows it.
  json->Key("best_generation");
  context.has_best() ? json->Value(context.best().generation()) : json->Null();
  json->EndObject();
}

void AddGeneration(const GenerationReport& generation, absl::Time now, JsonWriter* json) {
  json->BeginObject().Member("generation", generation.generation);
  json->Member("shards", generation.shards).Member("complete", generation.complete());
  json->Member("ok", generation.good()).Member("bytes", generation.bytes());
  const std::optional<absl::Duration> age =
      generation.content.has_value() ? AgeOf(generation.content->context(), now) : std::nullopt;
  json->Member("age_s", age ? std::make_optional(absl::ToDoubleSeconds(*age)) : std::nullopt);
  json->Key("missing").BeginArray();
  for (const uint32_t shard : generation.missing) {
    json->Value(shard);
  }
  json->EndArray();
  json->Key("gone").BeginArray();
  for (const uint32_t shard : generation.gone) {
    json->Value(shard);
  }
  json->EndArray();
  AddContext(generation.content, json);
  json->Key("parts").BeginArray();
  for (const PartReport& part : generation.parts) {
    AddPart(part, json);
  }
  json->EndArray().EndObject();
}

void AddModel(const CheckpointReport& report, JsonWriter* json) {
  if (!report.layout.has_value()) {
    json->Key("model").Null();
    return;
  }
  json->Key("model").BeginObject();
  json->Member("name", report.content->create().model().name());
  json->Member("parameters", report.layout->parameters());
  json->Member("layout_hash", absl::StrFormat("%016x", report.layout->Hash()));
  json->Key("tensors").BeginArray();
  for (const TensorInfo& tensor : report.layout->tensors()) {
    json->BeginObject().Member("name", tensor.name).Key("shape").BeginArray();
    for (const uint32_t length : tensor.shape) {
      json->Value(length);
    }
    json->EndArray().EndObject();
  }
  json->EndArray().Key("tables").BeginArray();
  for (const TableInfo& table : report.layout->tables()) {
    json->BeginObject().Member("name", table.name).Member("rows", table.rows);
    json->Member("columns", table.columns).EndObject();
  }
  json->EndArray().EndObject();
}

void AppendPart(const PartReport& part, uint32_t shards, std::string* text) {
  absl::StrAppendFormat(text, "  ps/%d of %d  %s", part.shard, shards,
                        part.status.ok() ? "good" : "BAD");
  if (part.manifest.has_value()) {
    absl::StrAppend(text, ", ", SizeText(part.manifest->bytes()), ", versions ", part.version_min,
                    " to ", part.version_max, ", epoch ", part.manifest->shard_epoch());
    if (part.manifest->parent_epoch() != 0) {
      absl::StrAppend(text, " (from generation ", part.manifest->parent_generation(), " of epoch ",
                      part.manifest->parent_epoch(), ")");
    }
  }
  absl::StrAppend(text, "\n");
  if (!part.status.ok()) {
    absl::StrAppend(text, "    ", part.status.message(), "\n");
  }
}

void AppendTables(const GenerationReport& generation, const std::vector<TableInfo>& tables,
                  std::string* text) {
  for (size_t i = 0; i < tables.size(); ++i) {
    const TableReport table = generation.table(i);
    absl::StrAppend(text, "  table ", tables[i].name, ": ", table.touched, " of ", table.stripes,
                    " stripes touched\n");
  }
  if (!tables.empty()) {
    absl::StrAppend(text, "  ", generation.rows_applied(), " rows applied\n");
  }
}

void AppendGeneration(const GenerationReport& generation, const std::vector<TableInfo>& tables,
                      absl::Time now, std::string* text) {
  absl::StrAppend(text, "generation ", generation.generation, "  ");
  if (generation.parts.empty()) {
    absl::StrAppend(text, "gone: it was deleted, and only manifests of ",
                    ShardList(generation.gone), " are left\n");
    return;
  }
  absl::StrAppend(text, !generation.good()      ? "BAD"
                        : generation.complete() ? "complete, all checksums hold"
                                                : "not complete, its checksums hold");
  if (!generation.complete()) {
    absl::StrAppend(text, "; missing: the parts of ", ShardList(generation.missing));
  }
  if (generation.content.has_value()) {
    const CheckpointContext& context = generation.content->context();
    absl::StrAppend(text, "\n  ", ProgressText(context), ", ", SizeText(generation.bytes()), ", ",
                    AgeText(context, now), ": ", context.reason());
  }
  absl::StrAppend(text, "\n");
  AppendTables(generation, tables, text);
  for (const PartReport& part : generation.parts) {
    AppendPart(part, generation.shards, text);
  }
  for (const uint32_t shard : generation.gone) {
    absl::StrAppendFormat(text,
                          "  ps/%d of %d  gone: it was deleted, and only its manifest is left\n",
                          shard, generation.shards);
  }
}

}  // namespace

bool GenerationReport::good() const {
  return std::all_of(parts.begin(), parts.end(),
                     [](const PartReport& part) { return part.status.ok(); });
}

uint64_t GenerationReport::bytes() const {
  uint64_t sum = 0;
  for (const PartReport& part : parts) {
    sum += part.manifest.has_value() ? part.manifest->bytes() : 0;
  }
  return sum;
}

TableReport GenerationReport::table(size_t index) const {
  TableReport sum;
  for (const PartReport& part : parts) {
    if (index < part.tables.size()) {
      sum.touched += part.tables[index].touched;
      sum.stripes += part.tables[index].stripes;
    }
  }
  return sum;
}

uint64_t GenerationReport::rows_applied() const {
  uint64_t sum = 0;
  for (const PartReport& part : parts) {
    sum += part.rows_applied;
  }
  return sum;
}

absl::Status CheckpointReport::status() const {
  absl::Status newer_format;
  for (const GenerationReport& generation : generations) {
    for (const PartReport& part : generation.parts) {
      if (absl::IsFailedPrecondition(part.status)) {
        newer_format.Update(part.status);
      } else if (!part.status.ok()) {
        return absl::DataLossError(part.status.message());
      }
    }
  }
  return newer_format;
}

absl::StatusOr<CheckpointReport> ReadCheckpoint(const Storage* storage,
                                                const CheckpointPlace& place) {
  CheckpointReport report{.folder = place.folder};
  if (!place.manifest.empty()) {
    GenerationReport generation;
    generation.parts.push_back(ReadPart(storage, place.manifest, &generation, &report));
    report.generations.push_back(std::move(generation));
    return report;
  }
  ASSIGN_OR_RETURN(const std::vector<GenerationParts> generations,
                   ListGenerations(storage, place.folder));
  for (const GenerationParts& parts : generations) {
    GenerationReport generation{.generation = parts.generation, .shards = parts.shards};
    for (uint32_t shard = 0; shard < parts.manifest.size(); ++shard) {
      const std::string& path = parts.manifest[shard];
      if (path.empty()) {
        generation.missing.push_back(shard);
        continue;
      }
      PartReport part = ReadPart(storage, path, &generation, &report);
      part.shard = shard;
      if (!part.status.ok() && !storage->Open(path).ok()) {
        continue;  // deleted while it was read: a newer generation is there
      }
      generation.parts.push_back(std::move(part));
    }
    TakeOutGone(report.generations, &generation);
    if (!generation.parts.empty() || !generation.gone.empty()) {
      report.generations.push_back(std::move(generation));
    }
  }
  return report.generations.empty()
             ? absl::NotFoundError(absl::StrCat(place.folder, " has no part of a checkpoint"))
             : absl::StatusOr<CheckpointReport>(std::move(report));
}

std::string CheckpointJson(const CheckpointReport& report, absl::Time now) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", 1);
  const bool known = report.manifest.has_value();
  json.Key("job");
  known ? json.Value(report.manifest->job()) : json.Null();
  json.Key("job_term");
  known ? json.Value(report.manifest->job_term()) : json.Null();
  json.Member("folder", report.folder).Member("ok", report.status().ok());
  AddModel(report, &json);
  json.Key("optimizer");
  known ? json.Value(OptimizerName(report.content->create().optimizer())) : json.Null();
  json.Key("state_slots");
  known ? json.Value(report.content->state_slots()) : json.Null();
  json.Key("generations").BeginArray();
  for (const GenerationReport& generation : report.generations) {
    AddGeneration(generation, now, &json);
  }
  return json.EndArray().EndObject().text();
}

std::string CheckpointReportText(const CheckpointReport& report, absl::Time now) {
  std::string text;
  if (report.manifest.has_value()) {
    absl::StrAppend(&text, "job          ", report.manifest->job(), ", submitted in term ",
                    report.manifest->job_term(), "\n");
  }
  absl::StrAppend(&text, "folder       ", report.folder, "\n");
  if (report.layout.has_value()) {
    const ShardCheckpoint& content = *report.content;
    absl::StrAppend(&text, "model        ", content.create().model().name(), ": ",
                    report.layout->tensors().size(), " tensors, ", report.layout->parameters(),
                    " parameters\n");
    for (const TensorInfo& tensor : report.layout->tensors()) {
      absl::StrAppend(&text, "  ", tensor.name, " (", absl::StrJoin(tensor.shape, ", "), ")\n");
    }
    for (const TableInfo& table : report.layout->tables()) {
      absl::StrAppend(&text, "  table ", table.name, " (", table.rows, ", ", table.columns, ")\n");
    }
    absl::StrAppend(&text, "optimizer    ", OptimizerName(content.create().optimizer()), ", ",
                    OptimizerSlots(content), " floats of state for each parameter",
                    content.create().has_rounds() ? ", and the sum of a round" : "",
                    content.create().fetch_changes() != FLOAT32 ? ", and a public copy" : "", "\n");
  }
  const std::vector<TableInfo> tables =
      report.layout.has_value() ? report.layout->tables() : std::vector<TableInfo>();
  for (const GenerationReport& generation : report.generations) {
    AppendGeneration(generation, tables, now, &text);
  }
  return text;
}

}  // namespace monsoon
