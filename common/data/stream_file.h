// Reads the content of a data file, plain or gzip, from end to end in pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/data/access/data_roots.h"

namespace monsoon {

// Calls `look` with the uncompressed bytes [offset, offset + bytes), piece by piece; pieces but the
// last are multiples of 64 KiB. Its error ends it. Errors as of GzipFile; DataLoss, naming the file
// and the place, where the content does not end there, or is damaged (gzip's CRC). Takes some KiB
// of memory and blocks on the disk.
absl::Status StreamFile(const std::string& path, const DataRoots& roots, uint64_t offset,
                        uint64_t bytes,
                        absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look);

}  // namespace monsoon
