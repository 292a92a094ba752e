// A tolerant reader of protobuf text: where TextFormat stops at its first
// error, this one tells them all, each with its place and a suggestion, and
// keeps what it understood. It knows where every field stands.
//
// Stricter than TextFormat: nan, inf and overflowing numbers, octal numbers,
// NUL in strings, a second value of a singular field, extensions and Any are
// refused; nesting ends at kMaxDepth.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "common/config/diagnostics.h"
#include "common/config/location_map.h"

namespace monsoon {

// Levels of messages and lists. Our own messages need less than ten.
inline constexpr int kMaxDepth = 32;

struct TextSource {
  std::string file;  // for diagnostics
  std::string contents;
  std::string root;  // put before field paths: "model" for an inlined file
};

// Parses into `message`, which is not cleared. Returns false when the
// structure was not understood (an unclosed brace, garbage), so that a look
// at the meaning would only invent errors; true also when single fields were
// refused. Those are in `diagnostics` with their field path.
bool ParseText(const TextSource& source, google::protobuf::Message* message, LocationMap* locations,
               std::vector<Diagnostic>* diagnostics);

}  // namespace monsoon
