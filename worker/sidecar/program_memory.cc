#include "worker/sidecar/program_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"

namespace monsoon {
namespace {

// Below, to give pages back and to get them anew takes more than they are worth.
constexpr size_t kManyBytes = size_t{4} << 20;

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

ProgramMemory::ProgramMemory(UniqueFd fd, float* vectors, size_t floats, size_t stride,
                             size_t values_in_a_float)
    : fd_(std::move(fd)),
      vectors_(vectors),
      floats_(floats),
      stride_(stride),
      values_in_a_float_(values_in_a_float) {}

ProgramMemory::~ProgramMemory() { munmap(vectors_, SharedBytes(stride_)); }

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Create(size_t values,
                                                                     size_t values_in_a_float) {
  const size_t floats = values / values_in_a_float;
  UniqueFd fd(memfd_create("monsoon-vectors", MFD_CLOEXEC));
  if (fd.get() < 0) {
    return Failed("memfd_create", floats);
  }
  if (ftruncate(fd.get(), static_cast<off_t>(SharedBytes(StrideOf(floats)))) != 0) {
    return Failed("ftruncate", floats);
  }
  return Map(std::move(fd), floats, values_in_a_float);
}

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Adopt(UniqueFd fd, size_t values,
                                                                    size_t values_in_a_float) {
  const size_t floats = values / values_in_a_float;
  struct stat found {};
  if (fstat(fd.get(), &found) != 0 ||
      static_cast<size_t>(found.st_size) != SharedBytes(StrideOf(floats))) {
    return absl::InternalError(absl::StrCat("the program's memory of ", found.st_size,
                                            " bytes is not that of ", floats, " floats"));
  }
  return Map(std::move(fd), floats, values_in_a_float);
}

absl::StatusOr<std::unique_ptr<ProgramMemory>> ProgramMemory::Map(UniqueFd fd, size_t floats,
                                                                  size_t values_in_a_float) {
  const size_t stride = StrideOf(floats);
  void* const mapped =
      mmap(nullptr, SharedBytes(stride), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) {
    return Failed("mmap", floats);
  }
  return std::unique_ptr<ProgramMemory>(new ProgramMemory(
      std::move(fd), static_cast<float*>(mapped), floats, stride, values_in_a_float));
}

void ProgramMemory::ReleaseEvaluated() {
  const size_t bytes = stride_ * sizeof(float);
  if (bytes >= kManyBytes &&
      fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(2 * bytes), static_cast<off_t>(bytes)) != 0) {
    LOG(WARNING) << "the memory of an evaluation stays: fallocate: " << strerror(errno);
  }
}

}  // namespace monsoon
