// NpzWriter: writes an uncompressed NumPy .npz file, a zip archive with one
// .npy member (`<f4`, C order) a tensor. Members, offsets and counts beyond
// the old zip limits get zip64 records. The same arrays give the same bytes.
//
// No member is held as a whole: its checksum, which stands before its values, is written last.
//
// The file is written beside `path` and renamed by Finish, so a reader of
// `path` sees the whole archive or none of it; without Finish nothing is left.
//
// libzip (1.7) would save about half of these files' 690 lines, but takes the
// bytes of all members in zip_close, so that every tensor must live until then,
// does not flush to the disk, and cannot be made to write zip64 records into a
// small file, where they can be tested. Stored members of 1 GiB took it 2.6 s to
// write and 1.6 s to read; zlib's CRC and plain file calls took 1.5 s and 1.2 s.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_replacement.h"

namespace monsoon {

class NpzWriter {
 public:
  struct Options {
    // Write zip64 records even where they are not needed.
    bool force_zip64 = false;
  };

  // Makes the temporary file. Errors name `path`.
  static absl::StatusOr<NpzWriter> Create(const std::string& path, Options options);
  static absl::StatusOr<NpzWriter> Create(const std::string& path) { return Create(path, {}); }

  NpzWriter(NpzWriter&&) = default;
  NpzWriter& operator=(NpzWriter&&) = delete;

  // Adds the member `name`.npy. `values` holds the product of `shape`
  // elements.
  absl::Status Add(const std::string& name, std::span<const uint32_t> shape,
                   std::span<const float> values);

  // The same of a member whose values come in pieces: Begin, Append until there are as many as
  // `shape` says, End.
  absl::Status Begin(const std::string& name, std::span<const uint64_t> shape);
  absl::Status Append(std::span<const float> values);
  absl::Status End();

  // Writes the directory, flushes to the disk and renames. Call once, last.
  absl::Status Finish();

 private:
  struct Member {
    std::string name;
    uint64_t bytes = 0;
    uint64_t offset = 0;
    uint32_t crc = 0;
    uint64_t missing = 0;  // bytes that are still to come
  };
  NpzWriter(FileReplacement file, Options options) : file_(std::move(file)), options_(options) {}

  std::string LocalHeader(const Member& member) const;
  std::string DirectoryEntry(const Member& member) const;
  std::string DirectoryEnd(uint64_t directory_offset, uint64_t directory_bytes) const;
  bool NeedsZip64(uint64_t value) const;

  FileReplacement file_;
  Options options_;
  std::vector<Member> members_;
};

}  // namespace monsoon
