#include "common/safetensors/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/json/json_writer.h"

namespace monsoon {
namespace {

// More have no use, and each costs memory.
constexpr size_t kMaxDimensions = 64;

// Of types of whole bytes; of others the sizes are not checked.
std::optional<uint64_t> BytesOfType(const std::string& type) {
  static const auto* const bytes = new std::map<std::string, uint64_t>{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
      {"F32", 4},  {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8},
  };
  const auto found = bytes->find(type);
  return found == bytes->end() ? std::nullopt : std::make_optional(found->second);
}

// Takes the parser's events and ends at the first that does not fit. No value is
// nested deeper than a list in a tensor.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string error;  // the first

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not whole or too large");
  }
  bool binary(binary_t&) override { return Unexpected("bytes"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr) {
      return Unexpected("a number");
    }
    if (list_->size() == kMaxDimensions) {
      return Fail(absl::StrCat("\"", field_, "\" of tensor \"", name_, "\" is too long"));
    }
    list_->push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      return header.metadata.emplace(field_, value).second || Twice(field_);
    }
    if (place_ != Place::kTensor || field_ != "dtype") {
      return Unexpected("a text");
    }
    type_ = value;
    return true;
  }
  bool key(string_t& value) override {
    if (place_ == Place::kTop) {
      name_ = value;
      return names_.insert(value).second || Twice(value);
    }
    field_ = value;
    if (place_ == Place::kMetadata) {
      return true;
    }
    if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") {
      return Fail(absl::StrCat("tensor \"", name_, "\" has an unknown field \"", field_, "\""));
    }
    return fields_.insert(field_).second || Twice(field_);
  }
  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        place_ = name_ == kSafetensorsMetadata ? Place::kMetadata : Place::kTensor;
        fields_.clear();
        shape_.clear();
        offsets_.clear();
        return true;
      default:
        return Unexpected("an object");
    }
  }
  bool end_object() override {
    if (place_ == Place::kTensor && !AddTensor()) {
      return false;
    }
    place_ = place_ == Place::kTop ? Place::kStart : Place::kTop;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || list_ != nullptr || field_ == "dtype") {
      return Unexpected("a list");
    }
    list_ = field_ == "shape" ? &shape_ : &offsets_;
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("its header is not JSON from byte ", position, " on"));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor };

  bool Fail(std::string what) {
    error = std::move(what);
    return false;
  }
  bool Twice(const std::string& what) {
    return Fail(absl::StrCat("its header has \"", what, "\" twice"));
  }
  bool Unexpected(absl::string_view what) {
    const std::string where = place_ == Place::kStart ? std::string("for the header")
                              : place_ == Place::kTop
                                  ? absl::StrCat("for \"", name_, "\"")
                                  : absl::StrCat("for \"", field_, "\" of \"", name_, "\"");
    return Fail(absl::StrCat("its header has ", what, " ", where));
  }
  bool AddTensor() {
    if (fields_.size() != 3 || offsets_.size() != 2) {
      return Fail(absl::StrCat("tensor \"", name_, "\" lacks its dtype, shape or two offsets"));
    }
    header.tensors.push_back({.name = std::move(name_),
                              .type = std::move(type_),
                              .shape = std::move(shape_),
                              .begin = offsets_[0],
                              .end = offsets_[1]});
    return true;
  }

  Place place_ = Place::kStart;
  std::set<std::string> names_;   // in the file
  std::set<std::string> fields_;  // of the tensor that is read
  std::string name_;
  std::string field_;
  std::string type_;
  std::vector<uint64_t> shape_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t>* list_ = nullptr;  // the one that is read
};

absl::Status CheckShape(const PlacedTensor& tensor) {
  const std::optional<uint64_t> size = BytesOfType(tensor.type);
  if (!size.has_value()) {
    return absl::OkStatus();
  }
  uint64_t bytes = *size;
  bool overflow = false;
  for (const uint64_t extent : tensor.shape) {
    overflow |= __builtin_mul_overflow(bytes, extent, &bytes);
  }
  if (overflow || bytes != tensor.end - tensor.begin) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\" has ",
                                                   tensor.end - tensor.begin,
                                                   " bytes, which its type and shape do not fit"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes) {
  // The parser would skip a byte-order mark, and end at a zero byte.
  if (json.empty() || json[0] != '{' || json.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError("it does not begin with a header in JSON");
  }
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) {
    return absl::InvalidArgumentError(handler.error);
  }
  SafetensorsHeader header = std::move(handler.header);
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const PlacedTensor& a, const PlacedTensor& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  uint64_t end = 0;
  for (const PlacedTensor& tensor : header.tensors) {
    if (tensor.begin != end || tensor.end < tensor.begin || tensor.end > data_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", tensor.name, "\" is at bytes ", tensor.begin, " to ", tensor.end,
          " of the data, expected from ", end, " and at most to ", data_bytes));
    }
    RETURN_IF_ERROR(CheckShape(tensor));
    end = tensor.end;
  }
  if (end != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its tensors have ", end, " bytes, after the header it has ", data_bytes));
  }
  return header;
}

std::string SafetensorsHeaderText(const SafetensorsHeader& header) {
  JsonWriter json;
  json.BeginObject();
  if (!header.metadata.empty()) {
    json.Key(kSafetensorsMetadata).BeginObject();
    for (const auto& [key, value] : header.metadata) {
      json.Member(key, value);
    }
    json.EndObject();
  }
  for (const PlacedTensor& tensor : header.tensors) {
    json.Key(tensor.name).BeginObject().Member("dtype", tensor.type);
    json.Key("shape").BeginArray();
    for (const uint64_t extent : tensor.shape) {
      json.Value(extent);
    }
    json.EndArray();
    json.Key("data_offsets").BeginArray().Value(tensor.begin).Value(tensor.end).EndArray();
    json.EndObject();
  }
  json.EndObject();
  return json.text();
}

}  // namespace monsoon
