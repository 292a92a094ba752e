#include "common/config/worker_roots.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

bool IsNone(const std::vector<std::string>& folders) {
  return folders.size() == 1 && folders[0] == kNoDataRoots;
}

absl::StatusOr<DataRoots> RootsOf(const std::vector<std::string>& folders) {
  RETURN_IF_ERROR(CheckDataFolders(folders));
  return IsNone(folders) ? absl::StatusOr<DataRoots>(DataRoots::None()) : DataRoots::Below(folders);
}

}  // namespace

absl::Status CheckDataFolders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (folder == kNoDataRoots) {
      if (folders.size() > 1) {
        return absl::InvalidArgumentError("\"none\" stands for no data folder, beside others");
      }
    } else if (!absl::StartsWith(folder, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("the data folder \"", absl::CHexEscape(folder), "\" is no absolute path"));
    } else if (std::ranges::any_of(folder,
                                   [](unsigned char c) { return absl::ascii_iscntrl(c); })) {
      return absl::InvalidArgumentError("a path has no control characters");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<DataRoots> RootsOfWorker(const std::vector<std::string>& given,
                                        const WorkerTask& task, const Cluster& cluster,
                                        bool beside_owner) {
  if (!given.empty()) {
    std::vector<std::string> folders = given;
    for (std::string& folder : folders) {
      std::error_code error;
      const std::filesystem::path absolute = std::filesystem::absolute(folder, error);
      if (!error && !folder.empty() && folder != kNoDataRoots) {
        folder = absolute.lexically_normal().string();
      }
    }
    absl::StatusOr<DataRoots> roots = RootsOf(folders);
    return roots.ok() ? std::move(roots) : Annotate(roots.status(), "--data");
  }
  for (const auto* const roots : {&task.data_roots(), &cluster.data_roots()}) {
    if (!roots->empty()) {
      return RootsOf({roots->begin(), roots->end()});
    }
  }
  return beside_owner ? DataRoots::Anywhere() : DataRoots::None();
}

}  // namespace monsoon
