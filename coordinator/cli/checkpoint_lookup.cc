#include "coordinator/cli/checkpoint_lookup.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/config/state_dir.h"
#include "common/model_file/model_file.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

constexpr char kLatest[] = "latest";

// A job's folder in a state folder: JOB@TERM/.
struct JobFolderName {
  std::string folder;
  std::string job;
  uint64_t term = 0;
};
std::optional<JobFolderName> ParseFolderName(absl::string_view name) {
  const size_t at = name.rfind('@');
  JobFolderName parsed;
  if (!absl::ConsumeSuffix(&name, "/") || at == absl::string_view::npos ||
      !absl::SimpleAtoi(name.substr(at + 1), &parsed.term)) {
    return std::nullopt;
  }
  parsed.folder = std::string(name);
  parsed.job = std::string(name.substr(0, at));
  return parsed;
}

// Whether `wanted` means that folder.
bool Means(const std::string& wanted, const JobFolderName& name) {
  return wanted == kLatest || wanted == name.job || wanted == name.folder;
}

}  // namespace

absl::StatusOr<std::string> CheckpointLookup::StateDir() const {
  ASSIGN_OR_RETURN(const LoadedCluster loaded, cluster_.Load());
  ASSIGN_OR_RETURN(std::string state_dir,
                   ResolveStateDir(loaded.cluster, loaded.path, env_.variable));
  if (state_dir.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the cluster of ", loaded.path, " keeps nothing on the disk: its state_dir is \"\""));
  }
  return state_dir;
}

absl::StatusOr<CheckpointPlace> CheckpointLookup::FindJob(const std::string& job) const {
  ASSIGN_OR_RETURN(const std::string state_dir, StateDir());
  return FindIn(state_dir, job);
}

absl::StatusOr<CheckpointPlace> CheckpointLookup::Find(const std::string& what) const {
  if (absl::StrContains(what, '/')) {
    return PlaceOf(env_.storage, what);
  }
  absl::StatusOr<CheckpointPlace> job = FindJob(what);
  if (job.ok()) {
    return job;
  }
  absl::StatusOr<CheckpointPlace> place = PlaceOf(env_.storage, what);
  return absl::IsNotFound(place.status())
             ? absl::NotFoundError(absl::StrCat(job.status().message(),
                                                "; nor is there a file or folder ", what, " here"))
             : place;
}

std::optional<CheckpointLookup::NamedJob> CheckpointLookup::JobOf(const std::string& what) const {
  if (what.empty() || absl::StrContains(what, '/')) {
    return std::nullopt;
  }
  std::string folder = what;
  if (what == kLatest) {
    const absl::StatusOr<CheckpointPlace> place = FindJob(what);
    if (!place.ok()) {
      return std::nullopt;
    }
    folder = std::string(NameOfPath(place->folder));
  }
  const std::optional<JobFolderName> name = ParseFolderName(absl::StrCat(folder, "/"));
  return name ? NamedJob{name->job, name->term} : NamedJob{what};
}

absl::StatusOr<CheckpointPlace> CheckpointLookup::FindFrom(const std::string& from,
                                                           const std::string& job) const {
  if (!job.empty() && env_.storage->List(JobsFolder(from)).ok()) {
    return FindIn(from, job);
  }
  ASSIGN_OR_RETURN(CheckpointPlace place, PlaceOf(env_.storage, from));
  // A folder may have been called otherwise since.
  const std::optional<JobFolderName> name =
      ParseFolderName(absl::StrCat(NameOfPath(place.folder), "/"));
  if (!job.empty() && name.has_value() && !Means(job, *name)) {
    return absl::InvalidArgumentError(
        absl::StrCat(place.folder, " is the folder of ", name->job, ", not of ", job));
  }
  return place;
}

absl::StatusOr<std::string> CheckpointLookup::ModelPath(const std::string& model) const {
  if (ModelFormatOf(model).has_value() || absl::StrContains(model, '/') ||
      env_.storage->Open(model).ok()) {
    return model;
  }
  ASSIGN_OR_RETURN(const CheckpointPlace place, Find(model));
  return place.manifest.empty() ? place.folder : place.manifest;
}

absl::StatusOr<CheckpointPlace> CheckpointLookup::FindIn(const std::string& state_dir,
                                                         const std::string& job) const {
  const std::string jobs = JobsFolder(state_dir);
  const absl::StatusOr<std::vector<std::string>> listed = env_.storage->List(jobs);
  if (!listed.ok() && !absl::IsNotFound(listed.status())) {
    return listed.status();
  }
  std::optional<std::pair<int64_t, uint64_t>> newest;
  CheckpointPlace place;
  std::set<std::string> others;
  for (const std::string& entry : listed.ok() ? *listed : std::vector<std::string>()) {
    const std::optional<JobFolderName> name = ParseFolderName(entry);
    if (!name.has_value()) {
      continue;
    }
    if (!Means(job, *name)) {
      others.insert(name->job);
      continue;
    }
    const std::string folder = InFolder(jobs, name->folder);
    // An id begins again with each coordinator's life.
    const std::pair<int64_t, uint64_t> written = {WrittenMs(folder), name->term};
    if (newest < written) {
      newest = written;
      place.folder = folder;
    }
  }
  if (newest.has_value()) {
    return place;
  }
  return absl::NotFoundError(
      others.empty() ? absl::StrCat("there is no checkpoint of any job in ", jobs)
                     : absl::StrCat("there is no checkpoint of ", job, " in ", jobs,
                                    "; there are those of ", absl::StrJoin(others, ", ")));
}

int64_t CheckpointLookup::WrittenMs(const std::string& folder) const {
  const auto generations = ListGenerations(env_.storage, folder);
  if (!generations.ok()) {
    return 0;
  }
  for (const GenerationParts& parts : *generations) {
    int64_t newest = 0;
    for (const std::string& manifest : parts.manifest) {
      if (!manifest.empty()) {
        const auto part = PartReader::Open(env_.storage, manifest);
        newest = part.ok() ? std::max(newest, (*part)->manifest().written_ms()) : newest;
      }
    }
    if (newest > 0) {
      return newest;
    }
  }
  return 0;
}

}  // namespace monsoon
