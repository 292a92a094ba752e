#include "common/data/joined_array.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/data/file_pattern.h"
#include "common/data/gzip_file.h"
#include "common/data/npy_file.h"
#include "common/data/stream_file.h"
#include "common/npz/npz_reader.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little, ".npy elements are little-endian");

std::string ShapeText(std::span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string WhereText(const std::string& path, const std::string& member) {
  return member.empty() ? path : absl::StrCat(path, ": array ", member);
}

absl::StatusOr<NpzReader> OpenNpz(const std::string& path, const DataAccess& access) {
  ASSIGN_OR_RETURN(UniqueFd file, access.roots.OpenFile(path));
  return NpzReader::Take(path, file.Release(), access.quoting == Quoting::kShow);
}

absl::StatusOr<NpyHeader> ReadHeader(const std::string& path, const std::string& member,
                                     const DataAccess& access) {
  if (member.empty()) {
    return ReadNpyHeader(path, access);
  }
  ASSIGN_OR_RETURN(const NpzReader reader, OpenNpz(path, access));
  ASSIGN_OR_RETURN(const NpyHeader header, reader.Header(member));
  ASSIGN_OR_RETURN(const uint64_t stored, reader.StoredBytes(member));
  RETURN_IF_ERROR(CheckExpansion(WhereText(path, member), stored, header.data_bytes));
  return header;
}

absl::StatusOr<JoinedArray> Open(const std::string& pattern, const std::string& member,
                                 const DataAccess& access) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(pattern, access.roots));
  JoinedArray array{.name = WhereText(pattern, member), .member = member};
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(const NpyHeader header, ReadHeader(path, member, access));
    const std::string found = absl::StrCat(NpyTypeName(header.type), " ", ShapeText(header.shape));
    if (header.shape.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(WhereText(path, member), " holds one ",
                                                     NpyTypeName(header.type),
                                                     " without a dimension, not an array"));
    }
    if (array.parts.empty()) {
      array.type = header.type;
      array.shape = header.shape;
      array.shape[0] = 0;
    } else if (header.type != array.type || header.shape.size() != array.shape.size() ||
               !std::equal(header.shape.begin() + 1, header.shape.end(), array.shape.begin() + 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat(WhereText(path, member), " holds ", found, ", but ", array.parts[0].path,
                       " has rows of ", NpyTypeName(array.type), " ", ShapeText(array.row_shape()),
                       ": all files of a pattern have one type and shape"));
    }
    array.shape[0] += header.shape[0];
    array.parts.push_back(
        {.path = path, .data_offset = header.data_offset, .rows = header.shape[0]});
  }
  return array;
}

template <typename T>
double As(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

uint64_t JoinedArray::row_elements() const {
  uint64_t elements = 1;
  for (size_t i = 1; i < shape.size(); ++i) {
    elements *= shape[i];
  }
  return elements;
}

std::string JoinedArray::Text() const {
  return absl::StrCat(NpyTypeName(type), " ", ShapeText(shape));
}

std::string JoinedArray::SampleText(uint64_t row) const {
  std::string text = absl::StrCat("sample ", row);
  if (parts.size() > 1) {
    for (const Part& part : parts) {
      if (row < part.rows) {
        return absl::StrCat(text, " (sample ", row, " of ", part.path, ")");
      }
      row -= part.rows;
    }
  }
  return text;
}

absl::StatusOr<JoinedArray> OpenNpyArray(const std::string& pattern, const DataAccess& access) {
  return Open(pattern, "", access);
}

absl::StatusOr<JoinedArray> OpenNpzArray(const std::string& pattern, const std::string& member,
                                         const DataAccess& access) {
  return Open(pattern, member, access);
}

absl::Status StreamArray(const JoinedArray& array, const DataRoots& roots,
                         absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look) {
  for (const JoinedArray::Part& part : array.parts) {
    if (array.member.empty()) {
      RETURN_IF_ERROR(
          StreamFile(part.path, roots, part.data_offset, part.rows * array.row_bytes(), look));
      continue;
    }
    ASSIGN_OR_RETURN(const NpzReader reader, OpenNpz(part.path, DataAccess::ForJobs(roots)));
    uint64_t bytes = 0;
    RETURN_IF_ERROR(reader.Stream(array.member, [&](std::span<const uint8_t> piece) {
      bytes += piece.size();
      return look(piece);
    }));
    if (bytes != part.rows * array.row_bytes()) {
      return absl::DataLossError(absl::StrCat(part.path, ": array ", array.member,
                                              " was another one when its header was read"));
    }
  }
  return absl::OkStatus();
}

double ElementAt(NpyType type, std::span<const uint8_t> bytes, size_t i) {
  const uint8_t* const at = bytes.data() + i * NpyTypeBytes(type);
  switch (type) {
    case NpyType::kUint8:
      return As<uint8_t>(at);
    case NpyType::kInt8:
      return As<int8_t>(at);
    case NpyType::kUint16:
      return As<uint16_t>(at);
    case NpyType::kInt16:
      return As<int16_t>(at);
    case NpyType::kUint32:
      return As<uint32_t>(at);
    case NpyType::kInt32:
      return As<int32_t>(at);
    case NpyType::kUint64:
      return As<uint64_t>(at);
    case NpyType::kInt64:
      return As<int64_t>(at);
    case NpyType::kFloat32:
      return As<float>(at);
    case NpyType::kFloat64:
      return As<double>(at);
  }
  return 0;
}

}  // namespace monsoon
