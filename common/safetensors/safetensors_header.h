// The JSON header of a safetensors file, read and written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace monsoon {

// What the file begins with: the header's length.
inline constexpr uint64_t kSafetensorsLengthBytes = 8;
// Longer headers are refused, here and by the format's own library.
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;
// The member that holds no tensor.
inline constexpr char kSafetensorsMetadata[] = "__metadata__";

// A tensor, its bytes and their place among the data of all.
struct PlacedTensor {
  std::string name;
  std::string type;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<PlacedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Of a header before `data_bytes` of data, which the tensors fill without gaps; they
// come by their place. InvalidArgument says what is wrong, without the file's name.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes);

std::string SafetensorsHeaderText(const SafetensorsHeader& header);

}  // namespace monsoon
