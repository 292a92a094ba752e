#include "common/config/state_dir.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace monsoon {
namespace {

constexpr char kDefaultName[] = "monsoon";

std::string Absolute(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  std::string text = (error ? path : absolute).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') {
    text.pop_back();
  }
  return text;
}

// FNV-1a, the two halves as one: stable across builds, unlike absl::Hash.
uint32_t Hash(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// A cluster's name may have '/' and "..", a folder's may not.
std::string FolderName(const std::string& cluster) {
  std::string name = cluster.empty() ? kDefaultName : cluster;
  for (char& c : name) {
    const bool plain =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    c = plain ? c : '_';
  }
  return name;
}

}  // namespace

absl::StatusOr<std::string> ResolveStateDir(const Cluster& cluster, const std::string& cluster_file,
                                            const EnvironmentLookup& environment) {
  const std::filesystem::path file = Absolute(cluster_file);
  if (cluster.has_state_dir()) {
    return cluster.state_dir().empty() ? "" : Absolute(file.parent_path() / cluster.state_dir());
  }
  if (const std::optional<std::string> folder = environment("MONSOON_STATE_DIR")) {
    return folder->empty() ? "" : Absolute(*folder);
  }
  std::string base = environment("XDG_STATE_HOME").value_or("");
  if (!absl::StartsWith(base, "/")) {
    const std::string home = environment("HOME").value_or("");
    if (!absl::StartsWith(home, "/")) {
      return absl::FailedPreconditionError(absl::StrCat(
          "no folder for the state of the cluster of ", cluster_file,
          ": it has no state_dir, and neither MONSOON_STATE_DIR, XDG_STATE_HOME nor HOME is set; "
          "write state_dir (\"\": in memory only)"));
    }
    base = home + "/.local/state";
  }
  return Absolute(
      absl::StrFormat("%s/monsoon/%s-%08x", base, FolderName(cluster.name()), Hash(file.string())));
}

std::optional<std::string> SystemEnvironmentVariable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::make_optional<std::string>(value);
}

}  // namespace monsoon
