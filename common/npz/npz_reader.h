// NpzReader: reads the arrays of a NumPy .npz file, as numpy.savez (stored) and
// savez_compressed (deflated) write it, zip64 included. The content is not trusted: every
// offset and length is checked against the file, and each member against its CRC.
//
// Thread safety: const calls may run concurrently.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/npz/npy_header.h"

namespace monsoon {

class NpzReader {
 public:
  struct Array {
    std::vector<uint64_t> shape;
    std::vector<float> values;  // C order
  };

  // Reads the directory. NotFound when there is no such file, InvalidArgument
  // when it is no archive of .npy members; errors name `path`.
  static absl::StatusOr<NpzReader> Open(const std::string& path);
  // The same of a file that is open for reading already; `fd` is the reader's from now on. Without
  // `tell_names` errors name no member before all are known to be .npy files: another archive's
  // names may be nobody's business.
  static absl::StatusOr<NpzReader> Take(const std::string& path, int fd, bool tell_names);

  NpzReader(NpzReader&& other) noexcept;
  NpzReader& operator=(NpzReader&&) = delete;
  ~NpzReader();

  // Names without ".npy", sorted.
  std::vector<std::string> Names() const;

  // NotFound when there is no such member; InvalidArgument when it is not
  // float32 in C order; DataLoss when its bytes do not match the CRC. Errors
  // name the file and the member.
  absl::StatusOr<Array> Read(const std::string& name) const;

  // What an array is, of any type of NpyType. Errors as of Read.
  absl::StatusOr<NpyHeader> Header(const std::string& name) const;

  // What it takes in the file, compressed or not.
  absl::StatusOr<uint64_t> StoredBytes(const std::string& name) const;

  // Calls `look` with the bytes of an array's elements, piece by piece, whole elements each. Its
  // error ends it. The CRC is judged at the end. Takes some KiB of memory.
  absl::Status Stream(const std::string& name,
                      absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look) const;

 private:
  struct Member {
    uint64_t offset = 0;  // of the local header
    uint64_t bytes = 0;   // uncompressed
    uint64_t stored = 0;
    uint32_t crc = 0;
    bool deflated = false;
  };
  class MemberStream;
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
  absl::StatusOr<const Member*> Find(const std::string& name) const;
  // "model.npz: member w.npy".
  std::string Where(const std::string& name) const;
  // The elements follow in `stream`; begins with the `prefix` that was read with the header.
  absl::StatusOr<NpyHeader> BeginMember(const std::string& name, MemberStream* stream,
                                        std::vector<uint8_t>* prefix) const;

  std::string path_;
  int fd_;
  uint64_t bytes_;
  bool tell_names_ = true;
  std::map<std::string, Member> members_;
};

}  // namespace monsoon
