// MemoryFile: memory with a file descriptor (memfd_create), to be handed to
// other processes over a Unix socket. It has no name and ends with its last
// descriptor and mapping, so that nothing is left behind by any death.
//
// Its size never changes: a mapping can always be touched. Linux only.
//
// Thread safety: const calls.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"

namespace monsoon {

// Owns mapped pages.
class MemoryMapping {
 public:
  MemoryMapping() = default;
  MemoryMapping(void* data, size_t size) : data_(data), size_(size) {}
  MemoryMapping(MemoryMapping&& other) noexcept { Swap(&other); }
  MemoryMapping& operator=(MemoryMapping&& other) noexcept {
    MemoryMapping(std::move(other)).Swap(this);
    return *this;
  }
  ~MemoryMapping();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }

 private:
  void Swap(MemoryMapping* other) {
    std::swap(data_, other->data_);
    std::swap(size_, other->size_);
  }

  void* data_ = nullptr;  // page-aligned
  size_t size_ = 0;
};

class MemoryFile {
 public:
  // `size` bytes of zeros, sealed against shrinking, growing and other seals. `name` is for
  // /proc/PID/maps only. ResourceExhausted when the system gives none.
  static absl::StatusOr<MemoryFile> Create(const std::string& name, size_t size);
  // As Create, mapped at *mapping, which alone writes it from now on: nobody else can map or
  // write it, so what is handed out is read-only for the receiver. Unimplemented where the system
  // cannot do that.
  static absl::StatusOr<MemoryFile> CreateForOneWriter(const std::string& name, size_t size,
                                                       MemoryMapping* mapping);

  // A peer's file. InvalidArgument unless it has `least_size` bytes and is sealed as by Create:
  // else the peer could take pages away from under a mapping, whose next reader the system kills
  // with SIGBUS. A seal cannot be taken off.
  static absl::StatusOr<MemoryFile> Adopt(UniqueFd fd, size_t least_size);

  int fd() const { return fd_.get(); }
  size_t size() const { return size_; }

  enum class Access { kRead, kReadWrite };
  absl::StatusOr<MemoryMapping> Map(Access access) const;

 private:
  // Not sealed yet.
  static absl::StatusOr<MemoryFile> Make(const std::string& name, size_t size);

  MemoryFile(UniqueFd fd, size_t size) : fd_(std::move(fd)), size_(size) {}

  UniqueFd fd_;
  size_t size_ = 0;
};

}  // namespace monsoon
