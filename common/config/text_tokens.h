// A configuration file as a list of tokens, read to the end whatever is wrong.
#pragma once

#include <google/protobuf/io/tokenizer.h>

#include <string>
#include <vector>

#include "common/config/diagnostics.h"

namespace monsoon {

struct TextToken {
  google::protobuf::io::Tokenizer::TokenType type;
  std::string text;
  int line = 1;
  int column = 1;
  // Index of the diagnostic that refuses this token, -1: none. Its text must
  // not be handed to Tokenizer's parse functions then.
  int refused_by = -1;

  bool IsSymbol(char c) const {
    return type == google::protobuf::io::Tokenizer::TYPE_SYMBOL && text.size() == 1 && text[0] == c;
  }
  bool IsIdentifier() const { return type == google::protobuf::io::Tokenizer::TYPE_IDENTIFIER; }
};

// Reads `path` whole. Errors are diagnostics at line 1: missing, not readable,
// not a regular file, over kMaxConfigBytes.
bool ReadConfigFile(const std::string& path, std::string* contents,
                    std::vector<Diagnostic>* diagnostics);

// The tokens of protobuf text with '#' comments; the last one is TYPE_END.
// Bad characters, strings, numbers and UTF-8 are told with an empty field.
std::vector<TextToken> Tokenize(const std::string& file, const std::string& contents,
                                std::vector<Diagnostic>* diagnostics);

// A configuration is written by hand; anything larger is some other file.
inline constexpr size_t kMaxConfigBytes = 1 << 20;
// After so many errors of one file the rest is left out, with a line saying so.
inline constexpr size_t kMaxDiagnosticsPerFile = 100;

}  // namespace monsoon
