// The header of an IDX file, the MNIST family's format (LeCun): two zero
// bytes, the element type, the number of dimensions D, then D lengths as
// big-endian uint32, then the elements in C order. Plain or gzip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/access/data_access.h"

namespace monsoon {

inline constexpr uint8_t kIdxUnsignedByte = 0x08;
// Images of the MNIST family have 3 dimensions, colour ones 4.
inline constexpr uint32_t kIdxMaxDimensions = 4;
inline constexpr size_t kIdxMaxHeaderBytes = 4 + 4 * kIdxMaxDimensions;

struct IdxHeader {
  // [items, ...]: [60000, 28, 28] for images, [60000] for labels. None is 0.
  std::vector<uint32_t> shape;
  uint64_t data_offset = 0;  // bytes before the first element, uncompressed
  uint64_t data_bytes = 0;   // of all elements; one byte each
  bool compressed = false;   // gzip
};

// Parses the first bytes of a file. Only unsigned bytes are accepted. Errors
// name `path` and, where it is quoted, the magic found.
absl::StatusOr<IdxHeader> ParseIdxHeader(std::span<const uint8_t> bytes, const std::string& path,
                                         Quoting quoting);

// Reads the header and checks that the file is as long as it promises. Does
// not read the elements.
absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path, const DataAccess& access);

}  // namespace monsoon
