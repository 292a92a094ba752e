// An .npz archive: it is refused, or each of its members is refused or read whole.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/npz/npz_reader.h"
#include "common/testing/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const file = new monsoon::FuzzFile;
  const auto reader = monsoon::NpzReader::Open(file->Write(data, size));
  if (!reader.ok()) {
    return 0;
  }
  for (const std::string& name : reader->Names()) {
    const auto array = reader->Read(name);
    if (array.ok()) {
      uint64_t elements = 1;
      for (const uint64_t extent : array->shape) {
        elements *= extent;
      }
      CHECK_EQ(array->values.size(), elements);
      // Deflated members are larger than the file, by a factor of 1032 at most.
      CHECK_LE(array->values.size() * sizeof(float), 1100 * size);
    }
    const auto header = reader->Header(name);
    uint64_t bytes = 0;
    const absl::Status streamed = reader->Stream(name, [&](std::span<const uint8_t> piece) {
      bytes += piece.size();
      return absl::OkStatus();
    });
    if (streamed.ok()) {
      CHECK(header.ok());
      CHECK_EQ(bytes, header->data_bytes);
    }
    CHECK(streamed.ok() || !array.ok());
  }
  CHECK(!reader->Read("no such member").ok());
  return 0;
}
