#include "coordinator/cli/chaos_report.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/json/json_writer.h"
#include "coordinator/cli/describe_json.h"
#include "coordinator/cli/describe_text.h"

namespace monsoon {
namespace {

using Kind = ChaosPlan::Fault::Kind;

std::optional<double> SecondsOr(const std::optional<absl::Duration>& time) {
  return time.has_value() ? std::make_optional(absl::ToDoubleSeconds(*time)) : std::nullopt;
}

std::string TextOr(const std::optional<absl::Duration>& time) {
  return time.has_value() ? absl::StrFormat("%.1f", absl::ToDoubleSeconds(*time)) : "-";
}

// Each kind with how often it was done, in the order of the .proto file.
std::vector<std::pair<std::string, int64_t>> ByKind(const std::vector<FaultRecord>& faults) {
  std::vector<std::pair<std::string, int64_t>> counts;
  const google::protobuf::EnumDescriptor& kinds = *ChaosPlan::Fault::Kind_descriptor();
  for (int i = 0; i < kinds.value_count(); ++i) {
    const auto kind = static_cast<Kind>(kinds.value(i)->number());
    counts.emplace_back(kinds.value(i)->name(),
                        std::ranges::count(faults, kind, &FaultRecord::kind));
  }
  return counts;
}

void WriteCounts(const JobDescription::Counts& counts, JsonWriter* json) {
  json->BeginObject().Member("pushes", counts.pushes());
  json->Member("duplicates", counts.duplicates()).Member("replayed", counts.replayed());
  json->EndObject();
}

void AppendRow(std::string* text, absl::string_view name, absl::string_view value) {
  absl::StrAppendFormat(text, "%-12s %s\n", name, value);
}

std::string ChangeText(uint64_t before, uint64_t after, absl::string_view what) {
  return absl::StrCat(before, " -> ", after, " ", what);
}

std::string FaultsText(const ChaosReport& report) {
  std::vector<std::string> kinds;
  for (const auto& [name, count] : ByKind(report.faults)) {
    if (count > 0) {
      kinds.push_back(absl::StrCat(count, " ", name));
    }
  }
  return absl::StrCat(report.faults.size(),
                      report.planned.has_value() ? absl::StrCat(" of ", *report.planned) : "",
                      " done", kinds.empty() ? "" : ": ", absl::StrJoin(kinds, ", "));
}

}  // namespace

std::string ChaosReportJson(const ChaosReport& report) {
  const JobSummary& job = report.after.summary();
  JsonWriter json;
  json.BeginObject().Member("schema_version", 1).Member("job", job.job());
  json.Member("state", JobState_Name(job.state())).Member("reason", job.reason());
  json.Member("error", report.error.empty() ? std::nullopt : std::make_optional(report.error));
  json.Member("seed", report.seed);
  json.Member("elapsed_s", absl::ToDoubleSeconds(report.elapsed));
  json.Member("planned", report.planned);
  json.Key("faults").BeginArray();
  for (const FaultRecord& fault : report.faults) {
    json.BeginObject().Member("at_s", absl::ToDoubleSeconds(fault.at));
    json.Member("task", fault.task).Member("pid", fault.pid);
    json.Member("kind", ChaosPlan::Fault::Kind_Name(fault.kind));
    json.Member("seconds", SecondsOr(fault.lasted));
    json.Member("back_after_s", SecondsOr(fault.back_after)).EndObject();
  }
  json.EndArray().Key("by_kind").BeginObject();
  for (const auto& [name, count] : ByKind(report.faults)) {
    json.Member(name, count);
  }
  json.EndObject().Key("durability").Raw(DurabilityJson(report.after));
  json.Key("counts").BeginObject();
  WriteCounts(report.before.counts(), &json.Key("before"));
  WriteCounts(report.after.counts(), &json.Key("after"));
  return json.EndObject().EndObject().text();
}

std::string ChaosReportText(const ChaosReport& report) {
  std::string text = absl::StrFormat("%8s  %-14s %8s  %-9s %8s %13s\n", "at s", "task", "pid",
                                     "kind", "seconds", "back after s");
  for (const FaultRecord& fault : report.faults) {
    absl::StrAppendFormat(&text, "%8.1f  %-14s %8d  %-9s %8s %13s\n",
                          absl::ToDoubleSeconds(fault.at), fault.task, fault.pid,
                          ChaosPlan::Fault::Kind_Name(fault.kind), TextOr(fault.lasted),
                          TextOr(fault.back_after));
  }
  const JobSummary& job = report.after.summary();
  AppendRow(&text, "faults",
            absl::StrCat(FaultsText(report),
                         absl::StrFormat("; in %.1f s, seed %d",
                                         absl::ToDoubleSeconds(report.elapsed), report.seed)));
  AppendRow(&text, "job",
            absl::StrCat(job.job(), " ", JobState_Name(job.state()),
                         job.reason().empty() ? "" : ": ", job.reason()));
  const JobDescription::Counts& before = report.before.counts();
  const JobDescription::Counts& after = report.after.counts();
  AppendRow(&text, "counts",
            absl::StrCat(ChangeText(before.pushes(), after.pushes(), "pushes, "),
                         ChangeText(before.duplicates(), after.duplicates(), "duplicates, "),
                         ChangeText(before.replayed(), after.replayed(), "records sent again")));
  const JobDescription::Durability& durability = report.after.durability();
  AppendRow(&text, "promise",
            absl::StrCat(durability.promise(), ", generation ", durability.generation()));
  if (durability.lost().empty()) {
    AppendRow(&text, "lost", "nothing that is known of");
  }
  for (const LostPushes& lost : durability.lost()) {
    AppendRow(&text, "lost", LostPushesText(lost));
  }
  return text;
}

std::string FaultBegunLine(const FaultRecord& fault) {
  return absl::StrFormat("t=%.1f %s %s (pid %d)", absl::ToDoubleSeconds(fault.at),
                         ChaosPlan::Fault::Kind_Name(fault.kind), fault.task, fault.pid);
}

std::string FaultOverLine(const FaultRecord& fault, absl::Duration now) {
  const std::string who = absl::StrFormat("t=%.1f %s ", absl::ToDoubleSeconds(now), fault.task);
  if (!fault.back_after.has_value()) {
    return absl::StrCat(who, "has left; nobody is known to start it again");
  }
  return absl::StrFormat("%sis back after %s s, pid %d", who, TextOr(fault.back_after),
                         fault.back_pid);
}

}  // namespace monsoon
