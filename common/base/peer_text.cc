#include "common/base/peer_text.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace monsoon {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Of Unicode: what nobody sees, or what changes how all that follows is seen.
constexpr std::array kHidden = {
    Range{0x00, 0x1f},        // C0 controls, ESC among them
    Range{0x7f, 0x9f},        // DEL and C1 controls, which are escape sequences to some terminals
    Range{0xad, 0xad},        // soft hyphen
    Range{0x61c, 0x61c},      // Arabic letter mark
    Range{0x180e, 0x180e},    // Mongolian vowel separator
    Range{0x200b, 0x200f},    // zero width, directions
    Range{0x2028, 0x202e},    // line and paragraph separators, embeddings and overrides
    Range{0x2060, 0x206f},    // invisible operators, isolates
    Range{0xfeff, 0xfeff},    // byte order mark
    Range{0xfff9, 0xfffb},    // interlinear annotation
    Range{0xe0000, 0xe0fff},  // tags, variation selectors
};

// Bytes of a character that begins so, where it is valid.
size_t LengthOf(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// The value of one valid character.
uint32_t CodeOf(absl::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  uint32_t code = character.size() == 1 ? first : first & (0x7f >> character.size());
  for (const char next : character.substr(1)) {
    code = code << 6 | (static_cast<uint8_t>(next) & 0x3f);
  }
  return code;
}

bool IsHidden(uint32_t code) {
  return std::ranges::any_of(
      kHidden, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

std::string Escape(uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code < 0x80       ? absl::StrCat("\\x", absl::Hex(code, absl::kZeroPad2))
             : code < 0x1'0000 ? absl::StrCat("\\u", absl::Hex(code, absl::kZeroPad4))
                               : absl::StrCat("\\U", absl::Hex(code, absl::kZeroPad8));
  }
}

std::string Shown(absl::string_view text, size_t most, bool keep_newlines) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    // Looked at one by one: of a text of any length no more than can be shown.
    const absl::string_view character = text.substr(at, LengthOf(text[at]));
    std::string piece;
    if (FindInvalidUtf8(character) == 0) {
      piece = absl::StrCat("\\x", absl::Hex(static_cast<uint8_t>(text[at]), absl::kZeroPad2));
      at += 1;
    } else {
      const uint32_t code = CodeOf(character);
      const bool stays = !IsHidden(code) || (keep_newlines && code == '\n');
      piece = stays ? std::string(character) : Escape(code);
      at += character.size();
    }
    if (shown.size() + piece.size() > most) {
      return shown + "...";
    }
    shown += piece;
  }
  return shown;
}

}  // namespace

std::string PeerText(absl::string_view text, size_t most) {
  return Shown(text, most, /*keep_newlines=*/false);
}

std::string PeerLines(absl::string_view text, size_t most) {
  return Shown(text, most, /*keep_newlines=*/true);
}

}  // namespace monsoon
