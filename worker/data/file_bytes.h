// FileBytes: the bytes of parts of files, one part after another, read where they lie when they
// are asked for (pread: no page of them stays in this process).
//
// Thread safety: immutable once made; all calls may run at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/access/data_roots.h"
#include "common/process/unique_fd.h"
#include "worker/data/byte_store.h"

namespace monsoon {

class FileBytes : public ByteStore {
 public:
  struct Part {
    std::string path;
    uint64_t offset = 0;  // in the file
    uint64_t bytes = 0;
  };

  // Errors of DataRoots::OpenFile.
  static absl::StatusOr<FileBytes> Open(std::vector<Part> parts, const DataRoots& roots);

  FileBytes(FileBytes&& other) = default;
  FileBytes& operator=(FileBytes&&) = delete;

  uint64_t size() const override { return begins_.back(); }
  absl::StatusOr<const uint8_t*> Get(uint64_t begin, size_t size,
                                     std::vector<uint8_t>* scratch) const override;
  void Expect(uint64_t begin, size_t size) const override;

 private:
  FileBytes(std::vector<Part> parts, const DataRoots& roots);

  // The part that byte `at` is in.
  size_t PartOf(uint64_t at) const;
  absl::Status ReadPart(size_t part, uint64_t at, std::span<uint8_t> out) const;

  std::vector<Part> parts_;
  std::vector<uint64_t> begins_;  // of each part among all bytes, and their end
  // Of each part; empty: there are so many files that each is opened when it is read.
  std::vector<UniqueFd> descriptors_;
  DataRoots roots_;
};

}  // namespace monsoon
