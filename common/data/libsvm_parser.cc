#include "common/data/libsvm_parser.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/number_text.h"

namespace monsoon {
namespace {

// Of a file that has no line breaks, no more is kept.
constexpr size_t kMaxLineBytes = 64 << 20;
constexpr absl::string_view kBlanks = " \t\r";

// Takes the next word off the front of `text`; "" at its end.
absl::string_view NextWord(absl::string_view* text) {
  const size_t begin = std::min(text->find_first_not_of(kBlanks), text->size());
  const size_t end = std::min(text->find_first_of(kBlanks, begin), text->size());
  const absl::string_view word = text->substr(begin, end - begin);
  text->remove_prefix(end);
  return word;
}

}  // namespace

absl::Status LibsvmParser::Parse(absl::string_view piece, Visitor visit) {
  while (true) {
    const size_t end = piece.find('\n');
    if (begun_.size() + std::min(end, piece.size()) > kMaxLineBytes) {
      return Error(absl::StrCat("a line of more than ", kMaxLineBytes, " bytes"));
    }
    if (end == absl::string_view::npos) {
      absl::StrAppend(&begun_, piece);
      return absl::OkStatus();
    }
    if (begun_.empty()) {
      RETURN_IF_ERROR(Line(piece.substr(0, end), visit));
    } else {
      absl::StrAppend(&begun_, piece.substr(0, end));
      RETURN_IF_ERROR(Line(begun_, visit));
      begun_.clear();
    }
    ++line_;
    piece.remove_prefix(end + 1);
  }
}

absl::Status LibsvmParser::Finish(Visitor visit) { return Line(begun_, visit); }

absl::Status LibsvmParser::Line(absl::string_view text, Visitor visit) {
  text = text.substr(0, text.find('#'));
  const absl::string_view label = NextWord(&text);
  if (label.empty()) {
    return absl::OkStatus();
  }
  if (label.find(':') != absl::string_view::npos) {
    return Error(
        absl::StrCat("the line begins with ", Content(label, quoting_), ", not with a label"));
  }
  values_.clear();
  for (absl::string_view word = NextWord(&text); !word.empty(); word = NextWord(&text)) {
    RETURN_IF_ERROR(Value(word));
  }
  return visit(label, values_, line_);
}

absl::Status LibsvmParser::Value(absl::string_view word) {
  if (absl::StartsWith(word, "qid:")) {
    return Error("qid (queries of a ranking) is not supported: no loss ranks");
  }
  const size_t colon = word.find(':');
  uint32_t index = 0;
  if (colon == absl::string_view::npos || !ParseWholeNumber(word.substr(0, colon), &index)) {
    return Error(absl::StrCat(Content(word, quoting_), " is no INDEX:VALUE"));
  }
  if (index == 0) {
    return Error("index 0: indices count from 1 (scikit-learn: zero_based=False)");
  }
  if (index > features_) {
    return Error(absl::StrCat(IndexText(index), " is above the ", features_, " features"));
  }
  if (!values_.empty() && index - 1 <= values_.back().index) {
    return Error(quoting_ == Quoting::kShow
                     ? absl::StrCat(IndexText(index), " follows index ", values_.back().index + 1,
                                    ": they do not ascend")
                     : absl::StrCat(IndexText(index), " is not above the one before"));
  }
  const absl::StatusOr<float> value = ParseFloat(word.substr(colon + 1), quoting_);
  if (!value.ok()) {
    return Error(absl::StrCat(IndexText(index), ": ", value.status().message()));
  }
  values_.push_back({index - 1, *value});
  return absl::OkStatus();
}

std::string LibsvmParser::IndexText(uint32_t index) const {
  return quoting_ == Quoting::kShow
             ? absl::StrCat("index ", index)
             : absl::StrCat("the index of value ", values_.size() + 1, " of the line");
}

absl::Status LibsvmParser::Error(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ":", line_, ": ", message));
}

}  // namespace monsoon
