#include "common/config/text_tokens.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/utf8.h"

namespace monsoon {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

// Tokenizer's errors in our words.
std::string Reworded(const std::string& message) {
  if (absl::StartsWith(message, "String literals cannot cross") ||
      absl::StartsWith(message, "Unexpected end of string")) {
    return "the string is not closed on its line";
  }
  if (absl::StartsWith(message, "Interpreting non ascii")) {
    return "a character outside ASCII may stand in strings and comments only";
  }
  if (absl::StartsWith(message, "Need space between number")) {
    return "a number must be followed by a space";
  }
  if (absl::StartsWith(message, "Invalid escape")) {
    return "an unknown escape sequence in the string";
  }
  return absl::StartsWith(message, "Invalid control characters") ? "control characters in the text"
                                                                 : message;
}

class Collector : public google::protobuf::io::ErrorCollector {
 public:
  Collector(const std::string& file, std::vector<Diagnostic>* diagnostics)
      : file_(file), diagnostics_(diagnostics) {}

  void AddError(int line, int column, const std::string& message) override {
    const std::string reworded = Reworded(message);
    // Garbage gives an error a byte; one a line is enough.
    if (!diagnostics_->empty() && diagnostics_->back().file == file_ &&
        diagnostics_->back().line == line + 1 && diagnostics_->back().message == reworded) {
      last_ = static_cast<int>(diagnostics_->size()) - 1;
      return;
    }
    if (added_ == kMaxDiagnosticsPerFile) {
      return;
    }
    ++added_;
    last_ = static_cast<int>(diagnostics_->size());
    diagnostics_->push_back({file_, line + 1, column + 1, "", reworded, ""});
  }

  // The index of the last error since the last call, -1: none.
  int TakeLast() { return std::exchange(last_, -1); }

 private:
  const std::string& file_;
  std::vector<Diagnostic>* diagnostics_;
  size_t added_ = 0;
  int last_ = -1;
};

// Replaces what is not UTF-8 by '?', telling the first place of each line.
std::string CheckUtf8(const std::string& file, const std::string& contents,
                      std::vector<Diagnostic>* diagnostics) {
  std::string clean = contents;
  int line = 1, told_line = 0;
  size_t line_start = 0, at = 0, scanned = 0, told = 0;
  while ((at = FindInvalidUtf8(clean, at)) != std::string::npos) {
    for (; scanned < at; ++scanned) {
      if (clean[scanned] == '\n') {
        ++line;
        line_start = scanned + 1;
      }
    }
    if (line != told_line && told < kMaxDiagnosticsPerFile) {
      diagnostics->push_back(
          {file, line, static_cast<int>(at - line_start) + 1, "",
           absl::StrFormat("byte 0x%02x is not valid UTF-8", static_cast<unsigned char>(clean[at])),
           "save the file as UTF-8"});
      told_line = line;
      ++told;
    }
    clean[at] = '?';
  }
  return clean;
}

}  // namespace

bool ReadConfigFile(const std::string& path, std::string* contents,
                    std::vector<Diagnostic>* diagnostics) {
  const auto refuse = [&](const std::string& message, const std::string& suggestion = "") {
    diagnostics->push_back({path, 1, 1, "", message, suggestion});
    return false;
  };
  const auto unreadable = [&](const std::string& why) {
    return refuse(
        absl::StrCat("cannot read the file: ", why),
        absl::StrContains(absl::StrCat("/", path), "/~/")
            ? "~ in a path is not expanded, nor does a shell behind =: write the whole path"
            : "");
  };
  std::error_code error;
  // Opening a FIFO would wait for its writer.
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) {
    return unreadable(error.message());
  }
  if (!std::filesystem::is_regular_file(status)) {
    return unreadable(std::filesystem::is_directory(status) ? "it is a directory"
                                                            : "it is not a regular file");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  contents->clear();
  char buffer[1 << 14];
  do {
    file.read(buffer, sizeof(buffer));
    contents->append(buffer, static_cast<size_t>(file.gcount()));
  } while (file && contents->size() <= kMaxConfigBytes);
  if (!file.is_open() || file.bad()) {
    return unreadable(std::strerror(errno));
  }
  return contents->size() <= kMaxConfigBytes ||
         refuse(absl::StrCat("the file is larger than ", kMaxConfigBytes, " bytes"),
                "is it a data file?");
}

std::vector<TextToken> Tokenize(const std::string& file, const std::string& contents,
                                std::vector<Diagnostic>* diagnostics) {
  const std::string clean = CheckUtf8(file, contents, diagnostics);
  ArrayInputStream stream(clean.data(), static_cast<int>(clean.size()));
  Collector collector(file, diagnostics);
  Tokenizer tokenizer(&stream, &collector);
  tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokenizer.set_allow_f_after_float(true);
  std::vector<TextToken> tokens;
  bool more = true;
  while (more) {
    more = tokenizer.Next();
    const Tokenizer::Token& current = tokenizer.current();
    tokens.push_back(
        {current.type, current.text, current.line + 1, current.column + 1, collector.TakeLast()});
    if (const int index = tokens.back().refused_by; index >= 0) {
      Diagnostic& diagnostic = (*diagnostics)[index];
      if (current.type == Tokenizer::TYPE_STRING && diagnostic.line == current.line + 1) {
        diagnostic.column = current.column + 1;  // of the quote, not of the line's end
      }
    }
  }
  return tokens;
}

}  // namespace monsoon
