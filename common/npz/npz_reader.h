// NpzReader: reads float32 members of an uncompressed NumPy .npz file, zip64
// included. The content is not trusted: every offset and length is checked
// against the file, and each member against its CRC.
//
// Thread safety: Read may run concurrently.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace monsoon {

class NpzReader {
 public:
  struct Array {
    std::vector<uint64_t> shape;
    std::vector<float> values;  // C order
  };

  // Reads the directory. NotFound when there is no such file, InvalidArgument
  // when it is no archive of uncompressed .npy members; errors name `path`.
  static absl::StatusOr<NpzReader> Open(const std::string& path);

  NpzReader(NpzReader&& other) noexcept;
  NpzReader& operator=(NpzReader&&) = delete;
  ~NpzReader();

  // Names without ".npy", sorted.
  std::vector<std::string> Names() const;

  // NotFound when there is no such member; InvalidArgument when it is not
  // float32 in C order; DataLoss when its bytes do not match the CRC. Errors
  // name the file and the member.
  absl::StatusOr<Array> Read(const std::string& name) const;

 private:
  struct Member {
    uint64_t offset = 0;  // of the local header
    uint64_t bytes = 0;
    uint32_t crc = 0;
  };
  struct Directory {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t count = 0;
  };

  NpzReader(std::string path, int fd, uint64_t bytes) : path_(path), fd_(fd), bytes_(bytes) {}

  absl::Status ReadAt(uint64_t offset, std::span<uint8_t> out) const;
  absl::Status Malformed(absl::string_view what) const;
  absl::StatusOr<Directory> FindDirectory() const;
  absl::StatusOr<Directory> FindDirectory64(uint64_t end_offset) const;
  absl::Status ReadDirectory(const Directory& directory);
  absl::Status AddMember(std::span<const uint8_t> entry, size_t name_bytes, size_t extra_bytes);
  absl::StatusOr<uint64_t> DataOffset(const std::string& name, const Member& member) const;

  std::string path_;
  int fd_;
  uint64_t bytes_;
  std::map<std::string, Member> members_;
};

}  // namespace monsoon
