#include "common/checkpoint/checkpoint_place.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

constexpr char kManifest[] = ".manifest";
constexpr char kPart[] = ".safetensors";

bool IsFile(const Storage& storage, const std::string& path) { return storage.Open(path).ok(); }

absl::StatusOr<CheckpointPlace> PlaceOfPart(const Storage& storage, const std::string& path) {
  if (!IsFile(storage, path)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  if (absl::EndsWith(path, kManifest)) {
    return CheckpointPlace{.folder = FolderOf(path), .manifest = path};
  }
  const std::string manifest = absl::StrCat(absl::StripSuffix(path, kPart), kManifest);
  if (!IsFile(storage, manifest)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no part of a checkpoint: it has no manifest beside it (", manifest,
                     "). A model's file is for evaluate, predict and submit --init"));
  }
  return CheckpointPlace{.folder = FolderOf(path), .manifest = manifest};
}

}  // namespace

absl::StatusOr<CheckpointPlace> PlaceOf(const Storage* storage, const std::string& path) {
  if (absl::EndsWith(path, kManifest) || absl::EndsWith(path, kPart)) {
    return PlaceOfPart(*storage, path);
  }
  const absl::StatusOr<std::vector<std::string>> names = storage->List(path);
  if (!names.ok() && IsFile(*storage, path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is no checkpoint: name a job's folder, or the manifest of a part in it"));
  }
  if (absl::IsInvalidArgument(names.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is neither a model's file nor the folder of a checkpoint"));
  }
  if (!names.ok()) {
    return absl::IsNotFound(names.status())
               ? absl::NotFoundError(absl::StrCat(path, ": there is no such file or folder"))
               : names.status();
  }
  if (std::any_of(names->begin(), names->end(),
                  [](const std::string& name) { return absl::EndsWith(name, kManifest); })) {
    return CheckpointPlace{.folder = path};
  }
  if (const auto jobs = storage->List(JobsFolder(path)); jobs.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is a state folder; name one of its jobs' folders in ", JobsFolder(path), ": ",
        jobs->empty() ? "there are none" : absl::StrJoin(*jobs, ", ")));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is no checkpoint: it has no manifest of a part (*", kManifest, ")"));
}

absl::StatusOr<LoadedCheckpoint> LoadFrom(const Storage* storage, const CheckpointPlace& place,
                                          std::vector<std::string>* skipped) {
  uint64_t generation = place.generation;
  if (!place.manifest.empty()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<PartReader> part,
                     PartReader::Open(storage, place.manifest));
    generation = part->manifest().generation();
  } else if (generation == 0) {
    return LoadNewest(storage, place.folder, skipped);
  }
  ASSIGN_OR_RETURN(const std::vector<GenerationParts> generations,
                   ListGenerations(storage, place.folder));
  for (const GenerationParts& parts : generations) {
    if (parts.generation == generation) {
      return LoadGeneration(storage, parts);
    }
  }
  return absl::NotFoundError(place.manifest.empty()
                                 ? absl::StrCat(place.folder, " has no generation ", generation)
                                 : absl::StrCat(place.manifest, " was deleted while it was read"));
}

}  // namespace monsoon
