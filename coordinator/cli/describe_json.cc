#include "coordinator/cli/describe_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <initializer_list>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/metrics/latency_histogram.h"

namespace monsoon {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kSchemaVersion = 1;

// A field that is neither a message nor repeated; null when it is optional and
// unset.
void WriteField(const Message& message, const FieldDescriptor& field, absl::string_view key,
                JsonWriter* json) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  json->Key(key);
  if (field.has_presence() && !reflection.HasField(message, &field)) {
    json->Null();
    return;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      json->Value(reflection.GetUInt32(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      json->Value(reflection.GetUInt64(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      json->Value(reflection.GetInt64(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      json->Value(reflection.GetDouble(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* const value =
          field.enum_type()->FindValueByNumber(reflection.GetEnumValue(message, &field));
      json->Value(value == nullptr ? "" : value->name());
      return;
    }
    default:
      CHECK(field.cpp_type() == FieldDescriptor::CPPTYPE_STRING);
      json->Value(reflection.GetString(message, &field));
  }
}

void WriteMembers(const Message& message, std::initializer_list<const char*> names,
                  JsonWriter* json) {
  for (const char* const name : names) {
    WriteField(message, *message.GetDescriptor()->FindFieldByName(name), name, json);
  }
}

// The fields whose names begin with `prefix`, which is left out, in the order of the .proto
// file; repeated ones are for the caller.
void WriteFields(const Message& message, const std::string& prefix, JsonWriter* json) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    if (absl::StartsWith(name, prefix) && !type.field(i)->is_repeated()) {
      WriteField(message, *type.field(i), name.substr(prefix.size()), json);
    }
  }
}

// An object of these.
void WriteObject(const Message& message, const std::string& prefix, JsonWriter* json) {
  json->BeginObject();
  WriteFields(message, prefix, json);
  json->EndObject();
}

// "a_now" and "a_max" of a message become "a":{"now":...,"max":...}.
void WriteGroup(const Message& message, const std::string& key, JsonWriter* json) {
  WriteObject(message, absl::StrCat(key, "_"), &json->Key(key));
}

void WriteArray(absl::string_view key, const auto& messages, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const Message& message : messages) {
    WriteObject(message, "", json);
  }
  json->EndArray();
}

template <typename Map>
std::map<uint64_t, uint64_t> Sorted(const Map& counts) {
  return {counts.begin(), counts.end()};
}

std::optional<uint64_t> Largest(const std::map<uint64_t, uint64_t>& counts) {
  return counts.empty() ? std::nullopt : std::make_optional(counts.rbegin()->first);
}

void WriteStaleness(const JobDescription& description, JsonWriter* json) {
  const std::map<uint64_t, uint64_t> counts = Sorted(description.staleness());
  uint64_t pushes = 0;
  double sum = 0;
  for (const auto& [value, count] : counts) {
    pushes += count;
    sum += static_cast<double>(value) * static_cast<double>(count);
  }
  json->Key("staleness").BeginObject();
  json->Member("count", pushes);
  json->Member("mean",
               pushes == 0 ? std::nullopt : std::make_optional(sum / static_cast<double>(pushes)));
  json->Member("p50", ValueQuantile(counts, 0.5));
  json->Member("p99", ValueQuantile(counts, 0.99));
  json->Member("max", Largest(counts));
  json->Member("recent_p50", description.has_recent_staleness_p50()
                                 ? std::optional(description.recent_staleness_p50())
                                 : std::nullopt);
  json->Member("recent_p99", description.has_recent_staleness_p99()
                                 ? std::optional(description.recent_staleness_p99())
                                 : std::nullopt);
  json->Key("histogram").BeginArray();
  for (const auto& [value, count] : counts) {
    json->BeginArray().Value(value).Value(count).EndArray();
  }
  json->EndArray().EndObject();
}

void WriteEvaluations(const JobDescription& description, JsonWriter* json) {
  json->Key("evaluations").BeginArray();
  for (const JobDescription::EvaluationResult& result : description.evaluation()) {
    json->BeginObject();
    WriteFields(result, "", json);
    json->Key("metrics").BeginObject();
    for (const auto& metric : result.metric()) {
      json->Member(metric.name(), metric.value());
    }
    json->EndObject().EndObject();
  }
  json->EndArray();
}

// An empty text says that there is nothing yet.
std::optional<std::string> TextOrNull(const std::string& text) {
  return text.empty() ? std::nullopt : std::make_optional(text);
}

void WriteSandblaster(const JobDescription::Sandblaster& sandblaster, JsonWriter* json) {
  json->BeginObject();
  WriteMembers(sandblaster, {"iteration", "f", "gradient_norm", "step_length", "evaluations"},
               json);
  WriteGroup(sandblaster, "chunks", json);
  WriteMembers(sandblaster, {"affinity"}, json);
  json->Member("end_reason", TextOrNull(sandblaster.end_reason()));
  json->Member("end_detail", TextOrNull(sandblaster.end_detail()));
  WriteMembers(sandblaster, {"overflows"}, json);
  json->Member("reproducibility", TextOrNull(sandblaster.reproducibility()));
  WriteMembers(sandblaster, {"commands", "command_bytes", "largest_command_bytes"}, json);
  WriteArray("trace", sandblaster.trace(), json);
  json->EndObject();
}

void WriteSynchronous(const JobDescription::Synchronous& synchronous, JsonWriter* json) {
  json->BeginObject();
  WriteMembers(synchronous, {"reduce", "group"}, json);
  json->Key("members").BeginArray();
  for (const uint32_t member : synchronous.member()) {
    json->Value(uint64_t{member});
  }
  json->EndArray();
  WriteMembers(synchronous, {"batches", "updates", "broken", "retaken", "regrouping_s", "stored"},
               json);
  json->EndObject();
}

void WriteDurability(const JobDescription::Durability& durability,
                     const JobDescription::Counts& counts, JsonWriter* json) {
  json->BeginObject();
  WriteMembers(durability, {"promise", "generation", "age_s", "ordered"}, json);
  json->Member("error", TextOrNull(durability.error()));
  WriteMembers(durability, {"disk_bytes"}, json);
  json->Key("state_dir").BeginArray();
  for (const std::string& folder : durability.state_dir()) {
    json->Value(folder);
  }
  json->EndArray();
  // Of a job that is kept in memory only nothing is ever sent again.
  const bool replays = durability.promise() == "exactly_once" || counts.replayed() > 0;
  json->Member("replayed", replays ? std::make_optional(counts.replayed()) : std::nullopt);
  WriteArray("lost", durability.lost(), json);
  WriteMembers(counts, {"restores", "away_steps"}, json);
  json->Key("best");
  if (durability.has_best()) {
    json->BeginObject();
    WriteMembers(durability.best(), {"generation", "epoch", "accuracy", "loss"}, json);
    json->EndObject();
  } else {
    json->Null();
  }
  json->EndObject();
}

// What only one of them has.
void WriteModes(const JobDescription& description, JsonWriter* json) {
  json->Key("sandblaster");
  if (description.has_sandblaster()) {
    WriteSandblaster(description.sandblaster(), json);
  } else {
    json->Null();
  }
  json->Key("synchronous");
  if (description.has_synchronous()) {
    WriteSynchronous(description.synchronous(), json);
  } else {
    json->Null();
  }
}

}  // namespace

std::string DurabilityJson(const JobDescription& description) {
  JsonWriter json;
  if (description.has_durability()) {
    WriteDurability(description.durability(), description.counts(), &json);
  } else {
    json.Null();
  }
  return json.text();
}

std::string DescribeJson(const JobDescription& description) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", kSchemaVersion);
  WriteMembers(description.summary(), {"job", "name", "state", "reason"}, &json);
  WriteMembers(description, {"mode"}, &json);
  WriteMembers(description.summary(), {"created_ms", "elapsed_s"}, &json);
  WriteMembers(description, {"seed"}, &json);
  json.Key("model").BeginObject();
  json.Member("name", description.model_name());
  json.Member("parameters", description.parameters());
  // As text: a 64-bit number does not survive every JSON reader.
  json.Member("layout_hash", absl::StrFormat("%016x", description.layout_hash()));
  WriteArray("tables", description.table(), &json);
  json.EndObject();
  WriteObject(description.progress(), "", &json.Key("progress"));
  WriteEvaluations(description, &json);
  WriteGroup(description, "final", &json);
  json.Key("counts").BeginObject();
  WriteMembers(description.counts(),
               {"steps", "fetches", "pushes", "rpcs", "retries", "duplicates", "refused",
                "bytes_fetched", "bytes_pushed", "dropped", "bound_wait_ms"},
               &json);
  json.EndObject();
  WriteStaleness(description, &json);
  WriteGroup(description, "shard_skew", &json);
  const std::map<uint64_t, uint64_t> widths = Sorted(description.fetch_width());
  json.Key("fetch_width").BeginObject();
  json.Member("p50", ValueQuantile(widths, 0.5)).Member("max", Largest(widths)).EndObject();
  WriteObject(description.latency_ms(), "", &json.Key("latency_ms"));
  WriteArray("workers", description.worker(), &json);
  WriteArray("shards", description.shard(), &json);
  WriteObject(description.data(), "", &json.Key("data"));
  if (!description.data().stream().empty()) {
    WriteArray("streams", description.data().stream(), &json);
  }
  WriteArray("events", description.event(), &json);
  if (!description.trouble().empty()) {
    WriteArray("trouble", description.trouble(), &json);
  }
  json.Key("durability").Raw(DurabilityJson(description));
  json.Member("rate_factor", description.has_rate_factor()
                                 ? std::make_optional(description.rate_factor())
                                 : std::nullopt);
  json.Member("outer_optimizer", TextOrNull(description.outer_optimizer()));
  if (description.has_settings()) {
    WriteObject(description.settings(), "", &json.Key("settings"));
  }
  WriteModes(description, &json);
  return json.EndObject().text();
}

std::string SummaryJson(const JobSummary& summary) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", kSchemaVersion);
  WriteMembers(
      summary,
      {"job", "name", "state", "reason", "percent", "created_ms", "elapsed_s", "disk_bytes"},
      &json);
  return json.EndObject().text();
}

std::string JobsJson(const ListReply& jobs) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", kSchemaVersion);
  WriteArray("jobs", jobs.job(), &json);
  json.Key("orphans").BeginArray();
  for (const OrphanJob& orphan : jobs.orphan()) {
    json.BeginObject().Member("job", orphan.job()).Member("job_term", orphan.job_term());
    json.Key("shards").BeginArray();
    for (const uint32_t shard : orphan.shard()) {
      json.Value(uint64_t{shard});
    }
    json.EndArray().Member("memory_bytes", orphan.memory_bytes()).EndObject();
  }
  json.EndArray().Member("insecure", !jobs.open_at().empty());
  return json.EndObject().text();
}

}  // namespace monsoon
