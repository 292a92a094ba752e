#include "coordinator/launcher/part_epoch.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

constexpr uint64_t kMaxNoteBytes = 64;

// None where the folder is missing.
absl::StatusOr<std::vector<std::string>> ListIfThere(const Storage& storage,
                                                     const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> names = storage.List(folder);
  if (absl::IsNotFound(names.status())) {
    return std::vector<std::string>();
  }
  return names;
}

// 0: none.
uint64_t NotedEpoch(const Storage& storage, const std::string& state_dir, uint32_t shard) {
  const absl::StatusOr<std::string> text =
      storage.ReadAll(LastWriterPath(state_dir, shard), kMaxNoteBytes);
  uint64_t epoch = 0;
  return text.ok() && absl::SimpleAtoi(*text, &epoch) ? epoch : 0;
}

}  // namespace

absl::StatusOr<uint64_t> NewestPartEpoch(const Storage& storage, const std::string& state_dir,
                                         uint32_t shard) {
  uint64_t newest = NotedEpoch(storage, state_dir, shard);
  const std::string jobs = JobsFolder(state_dir);
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListIfThere(storage, jobs));
  for (const std::string& folder : folders) {
    if (!absl::EndsWith(folder, "/")) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> files,
                     ListIfThere(storage, InFolder(jobs, folder)));
    for (const std::string& file : files) {
      const std::optional<PartName> name = PartName::OfManifest(file);
      if (name.has_value() && name->shard == shard) {
        newest = std::max(newest, name->epoch);
      }
    }
  }
  return newest;
}

}  // namespace monsoon
