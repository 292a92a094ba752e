#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

// A job's name as a file's: a peer may have named it, so '/' and what else is not
// plain becomes %XX, and no two names become one.
std::string Escaped(const std::string& job) {
  std::string name;
  for (const char c : job) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '_' || c == '.') {
      name.push_back(c);
    } else {
      absl::StrAppendFormat(&name, "%%%02X", byte);
    }
  }
  return name;
}

}  // namespace

std::string JobsFolder(const std::string& state_dir) { return InFolder(state_dir, "jobs"); }

std::string LastWriterPath(const std::string& state_dir, uint32_t shard) {
  return absl::StrCat(state_dir, "/ps-", shard, "/written");
}

std::string JobFolder(const std::string& state_dir, const std::string& job, uint64_t job_term) {
  return InFolder(JobsFolder(state_dir), absl::StrCat(Escaped(job), "@", job_term));
}

bool GenerationParts::complete() const {
  return shards > 0 && manifest.size() == shards &&
         std::find(manifest.begin(), manifest.end(), "") == manifest.end();
}

absl::StatusOr<std::vector<GenerationParts>> ListGenerations(const Storage* storage,
                                                             const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, storage->List(folder));
  // By generation and shards, which are the same in all parts of a job's folder.
  struct Found {
    GenerationParts parts;
    std::vector<uint64_t> epoch;  // of each manifest
  };
  std::map<std::pair<uint64_t, uint32_t>, Found> generations;
  for (const std::string& file_name : names) {
    const std::optional<PartName> name = PartName::OfManifest(file_name);
    if (!name.has_value()) {
      continue;
    }
    Found& found = generations[{name->generation, name->shards}];
    found.parts.generation = name->generation;
    found.parts.shards = name->shards;
    found.parts.manifest.resize(name->shards);
    found.epoch.resize(name->shards);
    std::string& manifest = found.parts.manifest[name->shard];
    uint64_t& epoch = found.epoch[name->shard];
    if (manifest.empty() || name->epoch > epoch) {
      manifest = InFolder(folder, file_name);
      epoch = name->epoch;
    }
  }
  std::vector<GenerationParts> newest_first;
  for (auto& [key, found] : generations) {
    newest_first.push_back(std::move(found.parts));
  }
  std::reverse(newest_first.begin(), newest_first.end());
  return newest_first;
}

absl::StatusOr<std::vector<ShardPart>> ListPartsOf(const Storage* storage,
                                                   const std::string& folder, uint32_t shard) {
  ASSIGN_OR_RETURN(std::vector<GenerationParts> generations, ListGenerations(storage, folder));
  std::vector<ShardPart> own;
  for (GenerationParts& parts : generations) {
    if (shard < parts.manifest.size() && !parts.manifest[shard].empty()) {
      own.push_back({parts.generation, std::move(parts.manifest[shard])});
    }
  }
  return own;
}

}  // namespace monsoon
