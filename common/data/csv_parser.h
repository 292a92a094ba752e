// Comma-separated values as of RFC 4180: fields in quotes may hold delimiters, line breaks and
// doubled quotes; lines end with LF or CRLF. Stricter than many: quotes stand around a whole field
// or nowhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

// Thread safety: none.
class CsvParser {
 public:
  // A row, and the line of the file that it begins in, from 1. An error ends the parse.
  using Visitor =
      absl::FunctionRef<absl::Status(std::span<const absl::string_view> fields, uint64_t line)>;

  // `path` is for messages. The delimiter is no quote and no line break.
  CsvParser(std::string path, char delimiter) : path_(std::move(path)), delimiter_(delimiter) {}

  // The next bytes of the file, cut anywhere; visits the rows that end in them.
  // InvalidArgument with path and line where they are not RFC 4180, `visit`'s errors as they are.
  // After an error, no more calls.
  absl::Status Parse(absl::string_view piece, Visitor visit);
  // The file has ended; its last line needs no line break.
  absl::Status Finish(Visitor visit);

 private:
  enum class State { kRowStart, kFieldStart, kPlain, kQuoted, kQuoteEnd, kCarriageReturn };

  absl::Status Take(char c, Visitor visit);
  absl::Status Append(const char* text, size_t size);
  absl::Status EndRow(Visitor visit);
  absl::Status Error(uint64_t line, absl::string_view message) const;

  const std::string path_;
  const char delimiter_;
  State state_ = State::kRowStart;
  uint64_t line_ = 1;
  uint64_t row_line_ = 1;
  uint64_t quote_line_ = 1;   // of the open quote
  std::string text_;          // of the row's fields, end to end
  std::vector<size_t> ends_;  // of its finished fields
  std::vector<absl::string_view> fields_;
};

}  // namespace monsoon
