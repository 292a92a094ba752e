#include "common/data/idx_header.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/data/file_prefix.h"

namespace monsoon {
namespace {

const char* ElementTypeName(uint8_t type) {
  switch (type) {
    case 0x08:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0b:
      return "16-bit integers";
    case 0x0c:
      return "32-bit integers";
    case 0x0d:
      return "32-bit floats";
    case 0x0e:
      return "64-bit floats";
    default:
      return nullptr;
  }
}

// What stands at the front of a file that is not IDX, for the message.
std::string FoundBytes(std::span<const uint8_t> bytes, Quoting quoting) {
  const size_t count = std::min<size_t>(bytes.size(), 4);
  if (count == 0) {
    return "an empty file";
  }
  if (quoting == Quoting::kDescribe) {
    return "another magic";
  }
  std::string found = "magic ";
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppendFormat(&found, "%02x", bytes[i]);
  }
  return found;
}

}  // namespace

absl::StatusOr<IdxHeader> ParseIdxHeader(std::span<const uint8_t> bytes, const std::string& path,
                                         Quoting quoting) {
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0 || ElementTypeName(bytes[2]) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not an IDX file: found ", FoundBytes(bytes, quoting),
                     ", expected 00000803 for images or 00000801 for labels"));
  }
  if (bytes[2] != kIdxUnsignedByte) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": found ", FoundBytes(bytes, quoting),
                                                   ", an IDX file of ", ElementTypeName(bytes[2]),
                                                   "; only unsigned bytes (type 08) are read"));
  }
  const uint32_t dimensions = bytes[3];
  if (dimensions == 0 || dimensions > kIdxMaxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found ", FoundBytes(bytes, quoting), ", an IDX file of ", dimensions,
                     " dimensions; 1 to ", kIdxMaxDimensions, " are read"));
  }
  IdxHeader header;
  header.data_offset = 4 + 4 * static_cast<uint64_t>(dimensions);
  if (bytes.size() < header.data_offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the IDX header is cut short after ", bytes.size(), " bytes"));
  }
  header.data_bytes = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const uint8_t* p = bytes.data() + 4 + 4 * i;
    const uint32_t length = static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 |
                            static_cast<uint32_t>(p[2]) << 8 | static_cast<uint32_t>(p[3]);
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": dimension ", i, " of the IDX header is 0"));
    }
    if (header.data_bytes > std::numeric_limits<uint64_t>::max() / 4 / length) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the IDX header's dimensions overflow"));
    }
    header.data_bytes *= length;
    header.shape.push_back(length);
  }
  return header;
}

absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path, const DataAccess& access) {
  ASSIGN_OR_RETURN(const FilePrefix prefix, ReadFilePrefix(path, access.roots, kIdxMaxHeaderBytes));
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(prefix.bytes.data()),
                                       prefix.bytes.size());
  ASSIGN_OR_RETURN(IdxHeader header, ParseIdxHeader(bytes, path, access.quoting));
  header.compressed = prefix.compressed;
  RETURN_IF_ERROR(
      CheckFileSize(path, access.roots, prefix, header.data_offset + header.data_bytes));
  return header;
}

}  // namespace monsoon
