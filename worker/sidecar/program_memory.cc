#include "worker/sidecar/program_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

// Whole pages.
size_t StrideOf(size_t floats) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)) / sizeof(float);
  return (floats + page - 1) / page * page;
}

absl::Status Failed(const char* what, size_t floats) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no shared memory of ", SharedBytes(StrideOf(floats)),
                   " bytes for three vectors: ", what, ": ", strerror(errno)));
}

}  // namespace

ProgramMemory::ProgramMemory(UniqueFd fd, float* vectors, size_t floats, size_t stride)
    : fd_(std::move(fd)), vectors_(vectors), floats_(floats), stride_(stride) {}

ProgramMemory::~ProgramMemory() { munmap(vectors_, SharedBytes(stride_)); }

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Create(size_t floats) {
  UniqueFd fd(memfd_create("monsoon-vectors", MFD_CLOEXEC));
  if (fd.get() < 0) {
    return Failed("memfd_create", floats);
  }
  if (ftruncate(fd.get(), static_cast<off_t>(SharedBytes(StrideOf(floats)))) != 0) {
    return Failed("ftruncate", floats);
  }
  return Map(std::move(fd), floats);
}

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Adopt(UniqueFd fd, size_t floats) {
  struct stat found {};
  if (fstat(fd.get(), &found) != 0 ||
      static_cast<size_t>(found.st_size) != SharedBytes(StrideOf(floats))) {
    return absl::InternalError(absl::StrCat("the program's memory of ", found.st_size,
                                            " bytes is not that of ", floats, " floats"));
  }
  return Map(std::move(fd), floats);
}

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Map(UniqueFd fd, size_t floats) {
  const size_t stride = StrideOf(floats);
  void* const mapped =
      mmap(nullptr, SharedBytes(stride), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) {
    return Failed("mmap", floats);
  }
  return std::unique_ptr<ProgramMemory>(
      new ProgramMemory(std::move(fd), static_cast<float*>(mapped), floats, stride));
}

}  // namespace monsoon
