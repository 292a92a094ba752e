// FuzzFile: an input as a file that lies in memory only, for readers that want a
// path. One at a time in a process.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace monsoon {

class FuzzFile {
 public:
  FuzzFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {}
  ~FuzzFile() { close(fd_); }
  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;

  // The path of a file that holds `data`.
  const std::string& Write(const uint8_t* data, size_t size) {
    if (fd_ < 0 || ftruncate(fd_, 0) != 0 ||
        pwrite(fd_, data, size, 0) != static_cast<ssize_t>(size)) {
      std::abort();
    }
    return path_;
  }

 private:
  const int fd_;
  const std::string path_ = "/proc/self/fd/" + std::to_string(fd_);
};

}  // namespace monsoon
