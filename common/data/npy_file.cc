#include "common/data/npy_file.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/file_prefix.h"

namespace monsoon {

absl::StatusOr<NpyHeader> ReadNpyHeader(const std::string& path, const DataAccess& access) {
  ASSIGN_OR_RETURN(const FilePrefix prefix,
                   ReadFilePrefix(path, access.roots, kNpyMaxHeaderBytes + 12));
  if (prefix.compressed) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is compressed; gunzip it first"));
  }
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(prefix.bytes.data()),
                                       prefix.bytes.size());
  if (access.quoting == Quoting::kDescribe && !IsNpy(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a .npy file: it begins with other bytes"));
  }
  ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(bytes, path));
  RETURN_IF_ERROR(
      CheckFileSize(path, access.roots, prefix, header.data_offset + header.data_bytes));
  return header;
}

}  // namespace monsoon
