#include "common/data/csv_parser.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// Nobody's row is longer; a quote that nobody closes makes one of the rest of the file.
constexpr size_t kMaxRowBytes = 64 << 20;
constexpr size_t kMaxFields = 1 << 22;

}  // namespace

absl::Status CsvParser::Parse(absl::string_view piece, Visitor visit) {
  size_t i = 0;
  while (i < piece.size()) {
    // Most bytes are a field's plain ones: taken as runs.
    size_t end = i;
    if (state_ == State::kQuoted) {
      while (end < piece.size() && piece[end] != '"' && piece[end] != '\n' && piece[end] != '\0') {
        ++end;
      }
    } else if (state_ == State::kPlain) {
      while (end < piece.size() && piece[end] != delimiter_ && piece[end] != '"' &&
             piece[end] != '\n' && piece[end] != '\r' && piece[end] != '\0') {
        ++end;
      }
    }
    RETURN_IF_ERROR(Append(piece.data() + i, end - i));
    i = end;
    if (i < piece.size()) {
      RETURN_IF_ERROR(Take(piece[i++], visit));
    }
  }
  return absl::OkStatus();
}

absl::Status CsvParser::Finish(Visitor visit) {
  switch (state_) {
    case State::kRowStart:
      return absl::OkStatus();
    case State::kQuoted:
      return Error(quote_line_, "the quote that begins a field here is never closed");
    case State::kFieldStart:
    case State::kPlain:
    case State::kQuoteEnd:
    case State::kCarriageReturn:
      break;
  }
  return EndRow(visit);
}

absl::Status CsvParser::Take(char c, Visitor visit) {
  if (c == '\0') {
    return Error(line_, "a byte of 0: this is no text (UTF-16 is to be written as UTF-8)");
  }
  switch (state_) {
    case State::kQuoted:
      if (c == '"') {
        state_ = State::kQuoteEnd;
        return absl::OkStatus();
      }
      line_ += c == '\n' ? 1 : 0;
      return Append(&c, 1);
    case State::kCarriageReturn:
      if (c != '\n') {
        return Error(line_, "a carriage return that no line feed follows");
      }
      return EndRow(visit);
    case State::kQuoteEnd:
      if (c == '"') {
        state_ = State::kQuoted;
        return Append(&c, 1);
      }
      break;
    case State::kRowStart:
    case State::kFieldStart:
      if (c == '"') {
        state_ = State::kQuoted;
        quote_line_ = line_;
        return absl::OkStatus();
      }
      break;
    case State::kPlain:
      break;
  }
  if (c == delimiter_) {
    if (ends_.size() >= kMaxFields) {
      return Error(row_line_, absl::StrCat("a row of more than ", kMaxFields, " fields"));
    }
    ends_.push_back(text_.size());
    state_ = State::kFieldStart;
    return absl::OkStatus();
  }
  if (c == '\r') {
    state_ = State::kCarriageReturn;
    return absl::OkStatus();
  }
  if (c == '\n') {
    return EndRow(visit);
  }
  if (c == '"' || state_ == State::kQuoteEnd) {
    return Error(line_, state_ == State::kQuoteEnd
                            ? "text after the quote that ends a field; a quote in a field is "
                              "written twice"
                            : "a quote in a field without quotes; write the field in quotes, and "
                              "quotes in it twice");
  }
  state_ = State::kPlain;
  return Append(&c, 1);
}

absl::Status CsvParser::Append(const char* text, size_t size) {
  if (text_.size() + size > kMaxRowBytes) {
    return state_ == State::kQuoted
               ? Error(quote_line_, absl::StrCat("the quote that begins a field here is not closed "
                                                 "within ",
                                                 kMaxRowBytes, " bytes"))
               : Error(row_line_, absl::StrCat("a row of more than ", kMaxRowBytes, " bytes"));
  }
  text_.append(text, size);
  return absl::OkStatus();
}

absl::Status CsvParser::EndRow(Visitor visit) {
  ends_.push_back(text_.size());
  fields_.clear();
  size_t begin = 0;
  for (const size_t end : ends_) {
    fields_.push_back(absl::string_view(text_).substr(begin, end - begin));
    begin = end;
  }
  RETURN_IF_ERROR(visit(fields_, row_line_));
  text_.clear();
  ends_.clear();
  row_line_ = ++line_;
  state_ = State::kRowStart;
  return absl::OkStatus();
}

absl::Status CsvParser::Error(uint64_t line, absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ": ", message));
}

}  // namespace monsoon
