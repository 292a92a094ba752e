#include "worker/sidecar/program_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {

ProgramMemory::ProgramMemory(UniqueFd fd, float* vectors, size_t floats, size_t stride)
    : fd_(std::move(fd)), vectors_(vectors), floats_(floats), stride_(stride) {}

ProgramMemory::~ProgramMemory() { munmap(vectors_, SharedBytes(stride_)); }

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Create(size_t floats) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)) / sizeof(float);
  const size_t stride = (floats + page - 1) / page * page;
  const size_t bytes = SharedBytes(stride);
  const auto failed = [bytes](const char* what) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no shared memory of ", bytes, " bytes for three vectors: ", what, ": ", strerror(errno)));
  };
  UniqueFd fd(memfd_create("monsoon-vectors", MFD_CLOEXEC));
  if (fd.get() < 0) {
    return failed("memfd_create");
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return failed("ftruncate");
  }
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) {
    return failed("mmap");
  }
  return std::unique_ptr<ProgramMemory>(
      new ProgramMemory(std::move(fd), static_cast<float*>(mapped), floats, stride));
}

}  // namespace monsoon
