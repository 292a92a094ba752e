#include "common/npz/npy_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr size_t kMaxDimensions = 32;  // NumPy's own limit
// NumPy pads the header so that the data starts at a multiple of this.
constexpr size_t kAlignment = 64;

struct TypeRow {
  NpyType type;
  const char* code;  // descr without the byte order
  const char* name;
  uint64_t bytes;
};

constexpr TypeRow kTypes[] = {
    {NpyType::kUint8, "u1", "uint8", 1},     {NpyType::kInt8, "i1", "int8", 1},
    {NpyType::kUint16, "u2", "uint16", 2},   {NpyType::kInt16, "i2", "int16", 2},
    {NpyType::kUint32, "u4", "uint32", 4},   {NpyType::kInt32, "i4", "int32", 4},
    {NpyType::kUint64, "u8", "uint64", 8},   {NpyType::kInt64, "i8", "int64", 8},
    {NpyType::kFloat32, "f4", "float32", 4}, {NpyType::kFloat64, "f8", "float64", 8},
};

const TypeRow& Row(NpyType type) { return kTypes[static_cast<size_t>(type)]; }

// The text of a key's value up to its end: a quoted string, a tuple or a word.
std::optional<absl::string_view> ValueOf(absl::string_view dictionary, absl::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = absl::StrCat(std::string(1, quote), key, std::string(1, quote));
    const size_t at = dictionary.find(quoted);
    if (at == absl::string_view::npos) {
      continue;
    }
    absl::string_view rest =
        absl::StripLeadingAsciiWhitespace(dictionary.substr(at + quoted.size()));
    if (!absl::ConsumePrefix(&rest, ":")) {
      return std::nullopt;
    }
    rest = absl::StripLeadingAsciiWhitespace(rest);
    if (rest.empty()) {
      return std::nullopt;
    }
    const char first = rest[0];
    if (first == '\'' || first == '"' || first == '(') {
      const size_t end = rest.find(first == '(' ? ')' : first, 1);
      if (end == absl::string_view::npos) {
        return std::nullopt;
      }
      return rest.substr(1, end - 1);
    }
    return absl::StripAsciiWhitespace(rest.substr(0, rest.find_first_of(",}")));
  }
  return std::nullopt;
}

absl::Status Malformed(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": malformed .npy header: ", what));
}

absl::Status ParseType(absl::string_view descr, const std::string& path, NpyHeader* header) {
  const char order = descr.empty() ? ' ' : descr[0];
  const absl::string_view code = descr.empty() ? descr : descr.substr(1);
  for (const TypeRow& row : kTypes) {
    if (code == row.code && (order == '<' || (order == '|' && row.bytes == 1))) {
      header->type = row.type;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": element type '", descr.substr(0, 40),
                   "' is not read; save the array as '<f4', '|u1' or a little-endian integer"));
}

absl::Status ParseShape(absl::string_view tuple, const std::string& path, NpyHeader* header) {
  uint64_t elements = 1;
  while (!(tuple = absl::StripAsciiWhitespace(tuple)).empty()) {
    const size_t comma = tuple.find(',');
    uint64_t length = 0;
    if (!absl::SimpleAtoi(tuple.substr(0, comma), &length) ||
        header->shape.size() == kMaxDimensions) {
      return Malformed(path, "the shape is not a tuple of integers");
    }
    if (length != 0 && elements > std::numeric_limits<uint64_t>::max() / 16 / length) {
      return Malformed(path, "the shape overflows");
    }
    elements *= length;
    header->shape.push_back(length);
    tuple = comma == absl::string_view::npos ? absl::string_view() : tuple.substr(comma + 1);
  }
  header->data_bytes = elements * NpyTypeBytes(header->type);
  return absl::OkStatus();
}

}  // namespace

uint64_t NpyTypeBytes(NpyType type) { return Row(type).bytes; }
const char* NpyTypeName(NpyType type) { return Row(type).name; }
bool IsIntegerNpyType(NpyType type) {
  return type != NpyType::kFloat32 && type != NpyType::kFloat64;
}
bool IsSignedNpyType(NpyType type) { return Row(type).code[0] == 'i'; }

bool IsNpy(std::span<const uint8_t> bytes) {
  return bytes.size() >= kMagicBytes && std::memcmp(bytes.data(), kMagic, kMagicBytes) == 0;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const uint8_t> bytes, const std::string& path) {
  if (!IsNpy(bytes)) {
    std::string found;
    for (const uint8_t byte : bytes.first(std::min(bytes.size(), kMagicBytes))) {
      absl::StrAppendFormat(&found, "%02x", byte);
    }
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a .npy file: found ",
                     found.empty() ? "an empty file" : absl::StrCat("magic ", found),
                     ", expected 934e554d5059"));
  }
  if (bytes.size() < 12) {
    return Malformed(path, "it is cut short");
  }
  const uint8_t version = bytes[6];
  if (version < 1 || version > 3) {
    return Malformed(path, absl::StrCat("version ", version, " is not 1, 2 or 3"));
  }
  const size_t start = version == 1 ? 10 : 12;
  uint64_t length = static_cast<uint64_t>(bytes[8]) | static_cast<uint64_t>(bytes[9]) << 8;
  if (version > 1) {
    length |= static_cast<uint64_t>(bytes[10]) << 16 | static_cast<uint64_t>(bytes[11]) << 24;
  }
  if (length > kNpyMaxHeaderBytes || start + length > bytes.size()) {
    return Malformed(path, absl::StrCat("its length of ", length, " bytes is beyond the file or ",
                                        kNpyMaxHeaderBytes));
  }
  const absl::string_view dictionary(reinterpret_cast<const char*>(bytes.data()) + start, length);
  const std::optional<absl::string_view> descr = ValueOf(dictionary, "descr");
  const std::optional<absl::string_view> order = ValueOf(dictionary, "fortran_order");
  const std::optional<absl::string_view> shape = ValueOf(dictionary, "shape");
  if (!descr || !order || !shape || (*order != "True" && *order != "False")) {
    return Malformed(path, "it lacks descr, fortran_order or shape");
  }
  NpyHeader header;
  header.data_offset = start + length;
  RETURN_IF_ERROR(ParseType(*descr, path, &header));
  RETURN_IF_ERROR(ParseShape(*shape, path, &header));
  if (*order == "True" && header.shape.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is in Fortran order; save it with numpy.ascontiguousarray"));
  }
  return header;
}

std::string NpyFloatHead(std::span<const uint64_t> shape) {
  static_assert(std::endian::native == std::endian::little, "elements are little-endian");
  std::string tuple = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    absl::StrAppend(&tuple, i > 0 ? " " : "", shape[i], i + 1 < shape.size() || i == 0 ? "," : "");
  }
  std::string dictionary =
      absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", tuple, "), }");
  constexpr size_t kPreamble = 10;
  const size_t unpadded = kPreamble + dictionary.size() + 1;
  dictionary.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dictionary.push_back('\n');
  std::string head(kMagic, kMagicBytes);
  head += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff),
           static_cast<char>(dictionary.size() >> 8)};
  return head + dictionary;
}

}  // namespace monsoon
