// A .npy file on the disk.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/data/access/data_access.h"
#include "common/npz/npy_header.h"

namespace monsoon {

// Reads the header and checks that the file is as long as it promises. Does
// not read the elements.
absl::StatusOr<NpyHeader> ReadNpyHeader(const std::string& path, const DataAccess& access);

}  // namespace monsoon
