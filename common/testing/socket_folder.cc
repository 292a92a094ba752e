#include "common/testing/socket_folder.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace monsoon::testing {
namespace {

class Folder {
 public:
  Folder() : path_("/tmp/monsoon-test-XXXXXX"), owner_(getpid()) {
    if (mkdtemp(path_.data()) == nullptr) {
      std::perror("mkdtemp under /tmp");
      std::abort();
    }
  }
  ~Folder() {
    std::error_code ignored;
    if (getpid() == owner_) {  // else it is a fork, whose parent goes on
      std::filesystem::remove_all(path_, ignored);
    }
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const pid_t owner_;
};

}  // namespace

const std::string& SocketFolder() {
  static const Folder folder;
  return folder.path();
}

std::string SocketAddress(absl::string_view name) {
  return absl::StrCat("unix:", SocketFolder(), "/", name);
}

std::string UniqueSocketAddress() {
  static std::atomic<int> next = 0;
  return SocketAddress(absl::StrCat("s", next.fetch_add(1)));
}

}  // namespace monsoon::testing
