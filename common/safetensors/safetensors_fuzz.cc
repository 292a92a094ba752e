// A safetensors file: it is refused, or its tensors fill it without gaps and what it
// says can be written and read as the same.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/check.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"
#include "common/storage/storage.h"
#include "common/testing/fuzz/fuzz_file.h"

namespace monsoon {
namespace {

void Check(const SafetensorsReader& reader, size_t size) {
  CHECK_EQ(reader.file_bytes(), size);
  uint64_t end = reader.head().size();
  SafetensorsHeader header{.metadata = reader.metadata()};
  for (const SafetensorsReader::Tensor& tensor : reader.tensors()) {
    CHECK_EQ(tensor.offset, end);
    CHECK(reader.Find(tensor.name) == &tensor);
    end += tensor.bytes;
    std::vector<std::byte> out(tensor.bytes);
    const absl::Status read = reader.Read(tensor, 0, out);
    CHECK(read.ok() || absl::IsInvalidArgument(read));
    header.tensors.push_back({.name = tensor.name,
                              .type = tensor.type,
                              .shape = tensor.shape,
                              .begin = tensor.offset - reader.head().size(),
                              .end = end - reader.head().size()});
  }
  CHECK_EQ(end, size);
  const auto again =
      ParseSafetensorsHeader(SafetensorsHeaderText(header), size - reader.head().size());
  CHECK(again.ok());
  CHECK_EQ(again->tensors.size(), header.tensors.size());
  CHECK(again->metadata == header.metadata);
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    CHECK_EQ(again->tensors[i].name, header.tensors[i].name);
    CHECK_EQ(again->tensors[i].begin, header.tensors[i].begin);
    CHECK(again->tensors[i].shape == header.tensors[i].shape);
  }
}

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const file = new monsoon::FuzzFile;
  const auto reader =
      monsoon::SafetensorsReader::Open(monsoon::PosixStorage(), file->Write(data, size));
  if (reader.ok()) {
    monsoon::Check(*reader, size);
  }
  return 0;
}
