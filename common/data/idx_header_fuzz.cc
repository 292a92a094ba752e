// An IDX file, plain or gzip: its header is refused, or says how many elements
// there are; and the file is refused unless it has them.
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/data/access/data_access.h"
#include "common/data/idx_header.h"
#include "common/testing/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const file = new monsoon::FuzzFile;
  const auto header =
      monsoon::ParseIdxHeader(std::span(data, size), "fuzz", monsoon::Quoting::kShow);
  if (header.ok()) {
    CHECK_LE(header->data_offset, monsoon::kIdxMaxHeaderBytes);
    uint64_t elements = 1;
    for (const uint32_t extent : header->shape) {
      CHECK_GT(extent, 0u);
      elements *= extent;
    }
    CHECK_EQ(header->data_bytes, elements);
  }
  const auto whole = monsoon::ReadIdxHeader(file->Write(data, size), monsoon::DataAccess::Own());
  if (whole.ok() && !whole->compressed) {
    CHECK_EQ(whole->data_offset + whole->data_bytes, size);
  }
  return 0;
}
