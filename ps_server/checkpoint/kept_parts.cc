#include "ps_server/checkpoint/kept_parts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

// One task's parts in a job's folder.
struct OldJob {
  std::string folder;
  int64_t written_ms = 0;  // the newest
  std::vector<PartFiles> parts;
};

// Nothing where it has none there.
absl::StatusOr<OldJob> FindOldJob(const Storage& storage, const std::string& folder,
                                  uint32_t task) {
  OldJob job{folder, 0, {}};
  ASSIGN_OR_RETURN(const std::vector<ShardPart> parts, ListPartsOf(&storage, folder, task));
  for (const ShardPart& part : parts) {
    ASSIGN_OR_RETURN(const std::unique_ptr<PartReader> reader,
                     PartReader::Open(&storage, part.manifest));
    job.written_ms = std::max(job.written_ms, reader->manifest().written_ms());
    job.parts.push_back(FilesOf(folder, reader->manifest()));
  }
  return job;
}

}  // namespace

PartFiles FilesOf(const std::string& folder, const CheckpointManifest& manifest) {
  return {InFolder(folder, PartName::Of(manifest).Text(kManifestEnding)),
          InFolder(folder, manifest.file())};
}

absl::StatusOr<std::vector<OwnPart>> ListOwnParts(const Storage& storage, const std::string& folder,
                                                  uint32_t shard) {
  const absl::StatusOr<std::vector<std::string>> names = storage.List(folder);
  if (absl::IsNotFound(names.status())) {
    return std::vector<OwnPart>();
  }
  RETURN_IF_ERROR(names.status());
  // By what to list them by, and by the prefix of their names, which the last ones do without.
  enum Prefix : size_t { kTemporary, kPassedOver, kNone };
  constexpr absl::string_view kPrefixes[] = {kTemporaryPrefix, kPassedOverPrefix, ""};
  std::map<std::tuple<uint64_t, uint64_t, uint32_t, size_t>, OwnPart> parts;
  for (const std::string& file_name : *names) {
    absl::string_view stem = file_name;
    size_t prefix = kTemporary;
    while (!absl::ConsumePrefix(&stem, kPrefixes[prefix])) {
      ++prefix;
    }
    const bool manifest = absl::ConsumeSuffix(&stem, kManifestEnding);
    if (!manifest && !absl::ConsumeSuffix(&stem, kPartEnding)) {
      continue;
    }
    const std::optional<PartName> name = PartName::OfManifest(absl::StrCat(stem, kManifestEnding));
    if (!name.has_value() || name->shard != shard) {
      continue;
    }
    OwnPart& part = parts[{name->generation, name->epoch, name->shards, prefix}];
    part.name = *name;
    part.whole = part.whole || (manifest && prefix == kNone);
    part.passed_over = part.passed_over || (manifest && prefix == kPassedOver);
    part.files = {InFolder(folder, absl::StrCat(kPrefixes[prefix], name->Text(kManifestEnding))),
                  InFolder(folder, absl::StrCat(kPrefixes[prefix], name->Text(kPartEnding)))};
  }
  std::vector<OwnPart> newest_first;
  for (auto& [key, part] : parts) {
    newest_first.push_back(std::move(part));
  }
  std::ranges::reverse(newest_first);
  return newest_first;
}

absl::Status RemovePart(Storage* storage, const PartFiles& files) {
  MONSOON_FAIL_POINT_STATUS("checkpoint.before_delete");
  RETURN_IF_ERROR(storage->Remove(files.manifest));
  MONSOON_FAIL_POINT_STATUS("checkpoint.manifest_deleted");
  RETURN_IF_ERROR(storage->Remove(files.file));
  MONSOON_FAIL_POINT_STATUS("checkpoint.part_deleted");
  return absl::OkStatus();
}

absl::Status SetPartAside(Storage* storage, PartFiles* files) {
  const std::string aside = InFolder(FolderOf(files->manifest),
                                     absl::StrCat(kPassedOverPrefix, NameOfPath(files->manifest)));
  RETURN_IF_ERROR(storage->Rename(files->manifest, aside));
  files->manifest = aside;
  return absl::OkStatus();
}

bool KeptParts::Has(uint64_t generation) const {
  return std::ranges::any_of(parts_,
                             [&](const Part& part) { return part.generation == generation; });
}

uint64_t KeptParts::bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) {
    bytes += part.bytes;
  }
  return bytes;
}

std::vector<PartFiles> KeptParts::Add(const CheckpointManifest& manifest, uint64_t applied,
                                      bool ordered, uint64_t best) {
  parts_.push_back(
      {manifest.generation(), manifest.bytes(), applied, ordered, FilesOf(folder_, manifest)});
  std::vector<PartFiles> garbage = std::exchange(leftover_, {});
  std::deque<Part> kept;
  size_t newer = 0;
  size_t newer_ordered = 0;
  for (Part& part : std::views::reverse(parts_)) {
    const bool is_needed = newer < kGenerations || (part.ordered && newer_ordered < kGenerations) ||
                           (best != 0 && part.generation == best);
    ++newer;
    newer_ordered += part.ordered;
    if (is_needed) {
      kept.push_front(std::move(part));
    } else {
      garbage.push_back(std::move(part.files));
    }
  }
  parts_ = std::move(kept);
  return garbage;
}

void RemoveOldJobs(Storage* storage, const std::string& state_dir, uint32_t task, size_t keep,
                   const std::vector<std::string>& present, std::vector<std::string>* log) {
  const std::string root = JobsFolder(state_dir);
  const absl::StatusOr<std::vector<std::string>> names = storage->List(root);
  if (!names.ok()) {
    log->push_back(std::string(names.status().message()));
    return;
  }
  std::vector<OldJob> jobs;
  for (const std::string& name : *names) {
    const std::string folder = InFolder(root, absl::StripSuffix(name, "/"));
    if (!absl::EndsWith(name, "/") || std::ranges::find(present, folder) != present.end()) {
      continue;
    }
    absl::StatusOr<OldJob> job = FindOldJob(*storage, folder, task);
    if (!job.ok()) {
      log->push_back(std::string(job.status().message()));
    } else if (!job->parts.empty()) {
      jobs.push_back(*std::move(job));
    }
  }
  std::ranges::sort(jobs, [](const OldJob& a, const OldJob& b) {
    return std::tie(a.written_ms, a.folder) > std::tie(b.written_ms, b.folder);
  });
  for (size_t i = keep; i < jobs.size(); ++i) {
    for (const PartFiles& files : jobs[i].parts) {
      if (const absl::Status status = RemovePart(storage, files); !status.ok()) {
        log->push_back(std::string(status.message()));
      }
    }
    (void)storage->RemoveFolder(jobs[i].folder);  // unless another task has parts there
  }
}

}  // namespace monsoon
