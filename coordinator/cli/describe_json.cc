#include "coordinator/cli/describe_json.h"

#include <map>
#include <optional>

#include "absl/strings/str_format.h"
#include "common/metrics/latency_histogram.h"

namespace monsoon {
namespace {

constexpr int kSchemaVersion = 1;

// A field of a message that may be unset, as std::optional.
#define MONSOON_OPTIONAL(message, field) \
  ((message).has_##field() ? std::make_optional((message).field()) : std::nullopt)

template <typename Map>
std::map<uint64_t, uint64_t> Sorted(const Map& counts) {
  return {counts.begin(), counts.end()};
}

std::optional<uint64_t> Largest(const std::map<uint64_t, uint64_t>& counts) {
  return counts.empty() ? std::nullopt : std::make_optional(counts.rbegin()->first);
}

void WriteSummaryFields(const JobSummary& summary, JsonWriter* json) {
  json->Member("job", summary.job());
  json->Member("name", summary.name());
  json->Member("state", JobState_Name(summary.state()));
  json->Member("reason", summary.reason());
}

void WriteSummary(const JobSummary& summary, JsonWriter* json) {
  WriteSummaryFields(summary, json);
  json->Member("percent", summary.percent());
  json->Member("created_ms", summary.created_ms());
  json->Member("elapsed_s", summary.elapsed_s());
}

void WriteProgress(const JobDescription::Progress& progress, JsonWriter* json) {
  json->Key("progress").BeginObject();
  json->Member("epoch", progress.epoch());
  json->Member("epochs", progress.epochs());
  json->Member("percent", progress.percent());
  json->Member("step", progress.step());
  json->Member("examples", progress.examples());
  json->Member("examples_per_s", MONSOON_OPTIONAL(progress, examples_per_s));
  json->Member("loss", MONSOON_OPTIONAL(progress, loss));
  json->Member("train_accuracy", MONSOON_OPTIONAL(progress, train_accuracy));
  json->Member("eta_s", MONSOON_OPTIONAL(progress, eta_s));
  json->EndObject();
}

void WriteEvaluations(const JobDescription& description, JsonWriter* json) {
  json->Key("evaluations").BeginArray();
  for (const JobDescription::EvaluationResult& result : description.evaluation()) {
    json->BeginObject();
    json->Member("step", result.step());
    json->Member("epoch", result.epoch());
    json->Member("elapsed_s", result.elapsed_s());
    json->Member("test_loss", result.test_loss());
    json->Member("test_accuracy", result.test_accuracy());
    json->EndObject();
  }
  json->EndArray();
  json->Key("final").BeginObject();
  json->Member("test_accuracy", MONSOON_OPTIONAL(description, final_test_accuracy));
  json->Member("loss", MONSOON_OPTIONAL(description, final_loss));
  json->EndObject();
}

void WriteCounts(const JobDescription::Counts& counts, JsonWriter* json) {
  json->Key("counts").BeginObject();
  json->Member("steps", counts.steps());
  json->Member("fetches", counts.fetches());
  json->Member("pushes", counts.pushes());
  json->Member("rpcs", counts.rpcs());
  json->Member("retries", counts.retries());
  json->Member("duplicates", counts.duplicates());
  json->Member("refused", counts.refused());
  json->Member("bytes_fetched", counts.bytes_fetched());
  json->Member("bytes_pushed", counts.bytes_pushed());
  json->EndObject();
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
  json->Key("histogram").BeginArray();
  for (const auto& [value, count] : counts) {
    json->BeginArray().Value(value).Value(count).EndArray();
  }
  json->EndArray().EndObject();
}

void WriteSpread(const JobDescription& description, JsonWriter* json) {
  json->Key("shard_skew").BeginObject();
  json->Member("now", MONSOON_OPTIONAL(description, shard_skew_now));
  json->Member("max", MONSOON_OPTIONAL(description, shard_skew_max));
  json->EndObject();
  const std::map<uint64_t, uint64_t> widths = Sorted(description.fetch_width());
  json->Key("fetch_width").BeginObject();
  json->Member("p50", ValueQuantile(widths, 0.5));
  json->Member("max", Largest(widths));
  json->EndObject();
}

void WriteLatency(const JobDescription::Latency& latency, JsonWriter* json) {
  json->Key("latency_ms").BeginObject();
  json->Member("fetch_p50", MONSOON_OPTIONAL(latency, fetch_p50));
  json->Member("fetch_p99", MONSOON_OPTIONAL(latency, fetch_p99));
  json->Member("push_p50", MONSOON_OPTIONAL(latency, push_p50));
  json->Member("push_p99", MONSOON_OPTIONAL(latency, push_p99));
  json->Member("step_p50", MONSOON_OPTIONAL(latency, step_p50));
  json->Member("step_p99", MONSOON_OPTIONAL(latency, step_p99));
  json->EndObject();
}

void WriteWorkers(const JobDescription& description, JsonWriter* json) {
  json->Key("workers").BeginArray();
  for (const JobDescription::Worker& worker : description.worker()) {
    json->BeginObject();
    json->Member("task", worker.task());
    json->Member("pid", worker.pid());
    json->Member("state", worker.state());
    json->Member("device", worker.device());
    json->Member("threads", worker.threads());
    json->Member("steps", worker.steps());
    json->Member("examples", worker.examples());
    json->Member("examples_per_s", worker.examples_per_s());
    json->Member("fetches", worker.fetches());
    json->Member("pushes", worker.pushes());
    json->Member("staleness_p50", MONSOON_OPTIONAL(worker, staleness_p50));
    json->Member("blocks_done", worker.blocks_done());
    json->Member("last_seen_ms", worker.last_seen_ms());
    json->Member("replicas", worker.replicas());
    json->Member("replicas_lost", worker.replicas_lost());
    json->EndObject();
  }
  json->EndArray();
}

void WriteShards(const JobDescription& description, JsonWriter* json) {
  json->Key("shards").BeginArray();
  for (const JobDescription::Shard& shard : description.shard()) {
    json->BeginObject();
    json->Member("task", shard.task());
    json->Member("pid", shard.pid());
    json->Member("begin", shard.begin());
    json->Member("end", shard.end());
    json->Member("stripes", shard.stripes());
    json->Member("stripe_bytes", shard.stripe_bytes());
    json->Member("version_min", shard.version_min());
    json->Member("version_max", shard.version_max());
    json->Member("pushes", shard.pushes());
    json->Member("duplicates", shard.duplicates());
    json->Member("epoch", shard.epoch());
    json->Member("rss_bytes", shard.rss_bytes());
    json->EndObject();
  }
  json->EndArray();
}

void WriteDataAndEvents(const JobDescription& description, JsonWriter* json) {
  const JobDescription::Data& data = description.data();
  json->Key("data").BeginObject();
  json->Member("examples", data.examples());
  json->Member("blocks", data.blocks());
  json->Member("blocks_done", data.blocks_done());
  json->Member("blocks_released", data.blocks_released());
  json->EndObject();
  json->Key("events").BeginArray();
  for (const JobDescription::Event& event : description.event()) {
    json->BeginObject();
    json->Member("elapsed_s", event.elapsed_s());
    json->Member("kind", event.kind());
    json->Member("task", event.task());
    json->Member("text", event.text());
    json->EndObject();
  }
  json->EndArray();
}

void WriteTrace(const JobDescription::Sandblaster& sandblaster, JsonWriter* json) {
  json->Key("trace").BeginArray();
  for (const JobDescription::Iteration& iteration : sandblaster.trace()) {
    json->BeginObject();
    json->Member("iteration", iteration.iteration());
    json->Member("f", iteration.f());
    json->Member("gradient_norm", iteration.gradient_norm());
    json->Member("step_length", iteration.step_length());
    json->Member("evaluations", iteration.evaluations());
    json->Member("elapsed_s", iteration.elapsed_s());
    json->EndObject();
  }
  json->EndArray();
}

// An empty text says that there is nothing yet.
std::optional<std::string> TextOrNull(const std::string& text) {
  return text.empty() ? std::nullopt : std::make_optional(text);
}

void WriteSandblaster(const JobDescription& description, JsonWriter* json) {
  json->Key("sandblaster");
  if (!description.has_sandblaster()) {
    json->Null();
    return;
  }
  const JobDescription::Sandblaster& sandblaster = description.sandblaster();
  json->BeginObject();
  json->Member("iteration", sandblaster.iteration());
  json->Member("f", MONSOON_OPTIONAL(sandblaster, f));
  json->Member("gradient_norm", MONSOON_OPTIONAL(sandblaster, gradient_norm));
  json->Member("step_length", MONSOON_OPTIONAL(sandblaster, step_length));
  json->Member("evaluations", sandblaster.evaluations());
  json->Key("chunks").BeginObject();
  json->Member("total", sandblaster.chunks_total());
  json->Member("done", sandblaster.chunks_done());
  json->Member("outstanding", sandblaster.chunks_outstanding());
  json->Member("backup", sandblaster.chunks_backup());
  json->EndObject();
  json->Member("affinity", MONSOON_OPTIONAL(sandblaster, affinity));
  json->Member("end_reason", TextOrNull(sandblaster.end_reason()));
  json->Member("overflows", sandblaster.overflows());
  json->Member("reproducibility", TextOrNull(sandblaster.reproducibility()));
  json->Member("commands", sandblaster.commands());
  json->Member("command_bytes", sandblaster.command_bytes());
  json->Member("largest_command_bytes", sandblaster.largest_command_bytes());
  WriteTrace(sandblaster, json);
  json->EndObject();
}

#undef MONSOON_OPTIONAL

}  // namespace

std::string DescribeJson(const JobDescription& description) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", kSchemaVersion);
  WriteSummaryFields(description.summary(), &json);
  json.Member("mode", description.mode());
  json.Member("created_ms", description.summary().created_ms());
  json.Member("elapsed_s", description.summary().elapsed_s());
  json.Member("seed", description.seed());
  json.Key("model").BeginObject();
  json.Member("name", description.model_name());
  json.Member("parameters", description.parameters());
  // As text: a 64-bit number does not survive every JSON reader.
  json.Member("layout_hash", std::string(absl::StrFormat("%016x", description.layout_hash())));
  json.EndObject();
  WriteProgress(description.progress(), &json);
  WriteEvaluations(description, &json);
  WriteCounts(description.counts(), &json);
  WriteStaleness(description, &json);
  WriteSpread(description, &json);
  WriteLatency(description.latency_ms(), &json);
  WriteWorkers(description, &json);
  WriteShards(description, &json);
  WriteDataAndEvents(description, &json);
  WriteSandblaster(description, &json);
  json.EndObject();
  return json.text();
}

std::string SummaryJson(const JobSummary& summary) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", kSchemaVersion);
  WriteSummary(summary, &json);
  json.EndObject();
  return json.text();
}

std::string JobsJson(const ListReply& jobs) {
  JsonWriter json;
  json.BeginObject().Member("schema_version", kSchemaVersion);
  json.Key("jobs").BeginArray();
  for (const JobSummary& summary : jobs.job()) {
    json.BeginObject();
    WriteSummary(summary, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.text();
}

}  // namespace monsoon
