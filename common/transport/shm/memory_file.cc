#include "common/transport/shm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

absl::Status SystemError(absl::StatusCode code, const std::string& what) {
  return absl::Status(code, absl::StrCat(what, ": ", std::strerror(errno)));
}

// The size stays as it is, and so do the seals.
constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status Seal(int fd, int seals) {
  return fcntl(fd, F_ADD_SEALS, seals) == 0
             ? absl::OkStatus()
             : SystemError(absl::StatusCode::kUnimplemented, "sealing a memory file");
}

}  // namespace

MemoryMapping::~MemoryMapping() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

absl::StatusOr<MemoryFile> MemoryFile::Create(const std::string& name, size_t size) {
  ASSIGN_OR_RETURN(MemoryFile file, Make(name, size));
  RETURN_IF_ERROR(Seal(file.fd(), kFixed));
  return file;
}

absl::StatusOr<MemoryFile> MemoryFile::CreateForOneWriter(const std::string& name, size_t size,
                                                          MemoryMapping* mapping) {
  ASSIGN_OR_RETURN(MemoryFile file, Make(name, size));
  ASSIGN_OR_RETURN(*mapping, file.Map(Access::kReadWrite));
  RETURN_IF_ERROR(Seal(file.fd(), kFixed | F_SEAL_FUTURE_WRITE));
  return file;
}

absl::StatusOr<MemoryFile> MemoryFile::Make(const std::string& name, size_t size) {
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return SystemError(absl::StatusCode::kResourceExhausted, "memfd_create");
  }
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return SystemError(absl::StatusCode::kResourceExhausted,
                       absl::StrCat("a memory file of ", size, " bytes"));
  }
  return MemoryFile(std::move(fd), size);
}

absl::StatusOr<MemoryFile> MemoryFile::Adopt(UniqueFd fd, size_t least_size) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kFixed) != kFixed) {
    return absl::InvalidArgumentError(
        "the peer's memory file is not sealed against shrinking, growing and other seals");
  }
  struct stat status;
  if (fstat(fd.get(), &status) != 0) {
    return SystemError(absl::StatusCode::kInvalidArgument, "fstat of the peer's memory file");
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < least_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer's memory file has ", size, " bytes; ", least_size, " are needed"));
  }
  return MemoryFile(std::move(fd), size);
}

absl::StatusOr<MemoryMapping> MemoryFile::Map(Access access) const {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = mmap(nullptr, size_, protection, MAP_SHARED, fd_.get(), 0);
  if (data == MAP_FAILED) {
    return SystemError(absl::StatusCode::kResourceExhausted,
                       absl::StrCat("mmap of ", size_, " bytes"));
  }
  // A hint: page faults and TLB misses are a good part of what large vectors
  // cost. Systems without huge pages for shared memory ignore it.
  madvise(data, size_, MADV_HUGEPAGE);
  return MemoryMapping(data, size_);
}

}  // namespace monsoon
