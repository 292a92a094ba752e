#include "common/checkpoint/manifest.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/xxh3.h"

namespace monsoon {
namespace {

// "# xxh3 0123456789abcdef\n"
constexpr char kChecksumLine[] = "# xxh3 ";
constexpr size_t kChecksumLineBytes = sizeof(kChecksumLine) - 1 + 16 + 1;
constexpr char kVersionLine[] = "format_version: ";

std::string ChecksumLine(absl::string_view text) {
  return absl::StrFormat("%s%016x\n", kChecksumLine,
                         Xxh3::Of(std::as_bytes(std::span(text.data(), text.size()))));
}

// Keeps the parser's words from stderr.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) {
      text = absl::StrCat("line ", line + 1, ": ", message);
    }
  }
  std::string text;
};

// A number as StrCat writes it, from the beginning of `text`.
template <typename T>
bool ConsumeNumber(absl::string_view* text, T* value) {
  size_t digits = 0;
  while (digits < text->size() &&
         absl::ascii_isdigit(static_cast<unsigned char>((*text)[digits]))) {
    ++digits;
  }
  if (digits == 0 || (digits > 1 && (*text)[0] == '0') ||
      !absl::SimpleAtoi(text->substr(0, digits), value)) {
    return false;
  }
  text->remove_prefix(digits);
  return true;
}

}  // namespace

PartName PartName::Of(const CheckpointManifest& manifest) {
  return {.shard = manifest.shard(),
          .shards = manifest.shards(),
          .generation = manifest.generation(),
          .epoch = manifest.shard_epoch()};
}

std::string PartName::Text(absl::string_view ending) const {
  return absl::StrCat("ps-", shard, "-of-", shards, ".g", generation, ".e", epoch, ending);
}

std::optional<PartName> PartName::OfManifest(absl::string_view file_name) {
  PartName name;
  absl::string_view rest = file_name;
  if (!absl::ConsumePrefix(&rest, "ps-") || !ConsumeNumber(&rest, &name.shard) ||
      !absl::ConsumePrefix(&rest, "-of-") || !ConsumeNumber(&rest, &name.shards) ||
      !absl::ConsumePrefix(&rest, ".g") || !ConsumeNumber(&rest, &name.generation) ||
      !absl::ConsumePrefix(&rest, ".e") || !ConsumeNumber(&rest, &name.epoch) ||
      rest != kManifestEnding || name.shard >= name.shards || name.shards > kMaxPartShards) {
    return std::nullopt;
  }
  return name;
}

std::string ManifestText(const CheckpointManifest& manifest) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(manifest, &text);
  return WithChecksumLine(std::move(text));
}

std::string WithChecksumLine(std::string text) {
  text += ChecksumLine(text);
  return text;
}

absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text) {
  absl::string_view body = text;
  const bool has_line =
      text.size() >= kChecksumLineBytes &&
      absl::StartsWith(body.substr(text.size() - kChecksumLineBytes), kChecksumLine);
  if (has_line) {
    body.remove_suffix(kChecksumLineBytes);
    if (absl::string_view(text).substr(body.size()) != ChecksumLine(body)) {
      return absl::DataLossError("its checksum does not match");
    }
  }
  // Before all else, because a newer format may have other fields and another end.
  absl::string_view version = body.substr(0, body.find('\n'));
  uint64_t number = 0;
  if (absl::ConsumePrefix(&version, kVersionLine) && absl::SimpleAtoi(version, &number) &&
      number > kCheckpointFormat) {
    return NewerFormat(version);
  }
  if (!has_line) {
    return absl::DataLossError("its last line, the checksum, is missing");
  }
  CheckpointManifest manifest;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(body), &manifest)) {
    return absl::DataLossError(error.text);
  }
  if (number != kCheckpointFormat || manifest.format_version() != kCheckpointFormat) {
    return absl::DataLossError("its first line is not its format_version");
  }
  return manifest;
}

absl::Status NewerFormat(absl::string_view version) {
  return absl::FailedPreconditionError(
      absl::StrCat("it has format ", version, ", and this program reads formats up to ",
                   kCheckpointFormat, ": a newer Monsoon reads it"));
}

}  // namespace monsoon
