// Reads the uncompressed bytes of a data file, plain or gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace monsoon {

// Bytes [offset, offset + size) of the uncompressed content, which must end
// there. NotFound or PermissionDenied where the file cannot be opened;
// DataLoss, naming the file and how far it could be read, where it is
// shorter, longer, or damaged (gzip's CRC is checked). Blocks on the disk.
absl::StatusOr<std::vector<uint8_t>> ReadDataFile(const std::string& path, uint64_t offset,
                                                  uint64_t size);

}  // namespace monsoon
