// A data file as zlib reads it: gzip, or plain as it is. A compressed one that grows out of all
// proportion is given up: some hundred KiB of it would keep a worker busy with GiB of nothing.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/data/access/data_roots.h"

namespace monsoon {

// So much of any file is inflated ...
inline constexpr uint64_t kFreeExpansion = uint64_t{64} << 20;
// ... and beyond that so many bytes for each that the file has: data reach 100, and even one-hot
// rows of float32 hardly 300; zlib's most is 1032, of zeros.
inline constexpr uint64_t kMostExpansion = 500;

// InvalidArgument, naming `what`, where so many bytes are more than `stored` ones may hold.
absl::Status CheckExpansion(const std::string& what, uint64_t stored, uint64_t bytes);

// Thread safety: none.
class GzipFile {
 public:
  // Errors of DataRoots::OpenFile.
  static absl::StatusOr<GzipFile> Open(const std::string& path, const DataRoots& roots);

  // The next `size` bytes of the content; fewer only at its end. DataLoss, naming the path and the
  // place, where the compressed data is cut short or damaged; InvalidArgument where it expands by
  // more than the above.
  absl::StatusOr<size_t> Read(void* out, size_t size);

  // Of what was read so far.
  bool compressed() const { return gzdirect(file_.get()) == 0; }
  uint64_t file_bytes() const { return file_bytes_; }
  // The last four bytes of a gzip file: its last member's length modulo 2^32.
  uint32_t trailer() const { return trailer_; }

 private:
  struct Closer {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };

  GzipFile(std::string path, uint64_t file_bytes, uint32_t trailer, gzFile file)
      : path_(std::move(path)), file_bytes_(file_bytes), trailer_(trailer), file_(file) {}

  absl::Status Error() const;

  std::string path_;
  uint64_t file_bytes_;
  uint32_t trailer_;
  uint64_t at_ = 0;  // of the content
  std::unique_ptr<gzFile_s, Closer> file_;
};

}  // namespace monsoon
