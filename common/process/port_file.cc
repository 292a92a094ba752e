#include "common/process/port_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace monsoon {

absl::Status WritePortFile(const std::string& path, const std::string& address) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  const std::string text = absl::StrCat(address, "\n");
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  std::FILE* const file = fd < 0 ? nullptr : fdopen(fd, "w");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write --port_file ", temporary));
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write --port_file ", path));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
