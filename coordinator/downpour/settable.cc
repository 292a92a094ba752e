#include "coordinator/downpour/settable.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/config/job.h"
#include "common/config/override.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

enum class Taker { kShards, kWorkers, kBoundKeepers, kCoordinator };

struct Row {
  const char* path;  // "*" is one name
  Taker taker;
  // A program has it, and not the job, whose workers are programs.
  bool is_a_programs = false;
};

constexpr Row kTable[] = {
    {"downpour.optimizer.*.rate", Taker::kShards},
    {"downpour.optimizer.damping", Taker::kShards},
    {"downpour.rounds.quorum", Taker::kShards},
    {"downpour.rounds.grace_seconds", Taker::kShards},
    {"downpour.rounds.adaptive_share", Taker::kShards},
    {"downpour.staleness_bound", Taker::kBoundKeepers},
    {"downpour.local.steps", Taker::kWorkers, true},
    {"downpour.local.inner.*.rate", Taker::kWorkers, true},
    {"downpour.local_update.sgd_rate", Taker::kWorkers, true},
    {"downpour.local_update.adagrad_rate", Taker::kWorkers, true},
    {"downpour.workers", Taker::kCoordinator, true},
};

bool Matches(const Row& row, const std::vector<std::string>& path) {
  const std::vector<std::string> names = absl::StrSplit(row.path, '.');
  return std::ranges::equal(names, path, [](const std::string& name, const std::string& of_path) {
    return name == "*" || name == of_path;
  });
}

const Row* FindRow(const std::vector<std::string>& path) {
  const auto* const row =
      std::ranges::find_if(kTable, [&](const Row& each) { return Matches(each, path); });
  return row == std::end(kTable) ? nullptr : row;
}

std::string TakenBy(Taker taker, const Job& job) {
  const bool shards = taker == Taker::kShards || (taker == Taker::kBoundKeepers &&
                                                  job.downpour().staleness_policy() == DROP_OLDER);
  if (shards) {
    return job.downpour().has_rounds() ? "the parameter servers, all from one round on"
                                       : "each parameter server, from its next push on";
  }
  return taker == Taker::kCoordinator ? "the coordinator, at once"
                                      : "each worker, from its next push on";
}

// Where a path leads, in a job.
struct Place {
  const Message* parent = nullptr;
  const FieldDescriptor* field = nullptr;

  std::string Text() const {
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(*parent, field, -1, &text);
    return text;
  }
};

// What nobody has said cannot be begun: parameter servers and workers are laid out for what the job
// has, and no other optimizer takes the place of the one that it trains with.
absl::StatusOr<Place> Find(const std::vector<std::string>& path, const Job& job) {
  Place place{&job, nullptr};
  std::string walked;
  for (size_t i = 0; i < path.size(); ++i) {
    absl::StrAppend(&walked, i == 0 ? "" : ".", path[i]);
    place.field = place.parent->GetDescriptor()->FindFieldByName(path[i]);
    if (place.field == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("there is no ", walked));
    }
    if (place.field->is_repeated() ||
        (place.field->has_presence() &&
         !place.parent->GetReflection()->HasField(*place.parent, place.field))) {
      return absl::InvalidArgumentError(
          absl::StrCat("the job has no ", walked, ", and cannot get one while it trains"));
    }
    if (i + 1 < path.size()) {
      if (place.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        return absl::InvalidArgumentError(absl::StrCat(walked, " has no fields"));
      }
      place.parent = &place.parent->GetReflection()->GetMessage(*place.parent, place.field);
    }
  }
  return place;
}

absl::Status Annotated(const absl::Status& status, const std::string& setting) {
  return Annotate(status, absl::StrCat("set ", setting));
}

}  // namespace

std::string SettablePaths() {
  std::vector<std::string> paths;
  for (const Row& row : kTable) {
    paths.emplace_back(row.path);
  }
  return absl::StrJoin(paths, ", ");
}

absl::StatusOr<ChangedSettings> ChangeSettings(const Job& job,
                                               std::span<const std::string> settings) {
  if (settings.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("nothing is to be set; these may be, as PATH=VALUE: ", SettablePaths()));
  }
  ChangedSettings changed{.job = job, .changes = {}};
  std::map<std::string, const Row*> rows;  // by path, in whose order the changes are told
  for (const std::string& setting : settings) {
    const std::string name = OverridePath(setting);
    const std::vector<std::string> path = absl::StrSplit(name, '.');
    const Row* const row = FindRow(path);
    if (row == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("set ", setting, ": ", name,
                                                     " is not one of those that may change while a "
                                                     "job trains: ",
                                                     SettablePaths()));
    }
    if (row->is_a_programs && IsJoined(job)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "set ", setting, ": ", name, " is the programs' own in a job that they have joined"));
    }
    if (row->taker != Taker::kCoordinator && TrainsInGroups(job)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "set ", setting, ": ", name,
          " is what all members of a synchronous job's group go by, and they have it "
          "from its beginning on; end the job (cancel), and go on from it with another "
          "value (submit --resume)"));
    }
    RETURN_IF_ERROR(Annotated(Find(path, job).status(), setting));
    RETURN_IF_ERROR(ApplyOverride(setting, &changed.job));
    rows.emplace(name, row);
  }
  for (const auto& [name, row] : rows) {
    const std::vector<std::string> path = absl::StrSplit(name, '.');
    ASSIGN_OR_RETURN(const Place before, Find(path, job));
    absl::StatusOr<Place> after = Find(path, changed.job);
    RETURN_IF_ERROR(Annotated(after.status(), name));
    if (before.Text() != after->Text()) {
      SettingChange& change = changed.changes.emplace_back();
      change.set_path(name);
      change.set_from(before.Text());
      change.set_to(after->Text());
      change.set_taken_by(TakenBy(row->taker, job));
    }
  }
  return changed;
}

}  // namespace monsoon
