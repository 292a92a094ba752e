// An .npy file: its header is refused, or says where how many elements are; and
// the file is refused unless it has them.
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/data/access/data_access.h"
#include "common/data/npy_file.h"
#include "common/testing/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const file = new monsoon::FuzzFile;
  const auto header = monsoon::ParseNpyHeader(std::span(data, size), "fuzz");
  if (header.ok()) {
    CHECK_LE(header->data_offset, monsoon::kNpyMaxHeaderBytes);
    uint64_t elements = 1;
    for (const uint64_t extent : header->shape) {
      elements *= extent;
    }
    CHECK_EQ(header->data_bytes, elements * monsoon::NpyTypeBytes(header->type));
  }
  const auto whole = monsoon::ReadNpyHeader(file->Write(data, size), monsoon::DataAccess::Own());
  if (whole.ok() && header.ok()) {
    CHECK_EQ(whole->data_offset + whole->data_bytes, size);
  }
  return 0;
}
