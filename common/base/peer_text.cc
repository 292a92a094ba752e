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

// The character that begins `text`, which is valid there: its value and its bytes.
struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
};

Character FirstOf(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  Character character;
  character.bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  character.code = first & (character.bytes == 1 ? 0x7f : 0x7f >> character.bytes);
  for (size_t i = 1; i < character.bytes; ++i) {
    character.code = character.code << 6 | (static_cast<uint8_t>(text[i]) & 0x3f);
  }
  return character;
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
  // Where it is invalid; looked for in what can still be shown, whatever the length.
  size_t at = 0;
  while (at < text.size()) {
    // A character has 4 bytes at most.
    const absl::string_view rest = text.substr(at, 4);
    std::string piece;
    size_t taken = 1;
    if (FindInvalidUtf8(rest.substr(0, FirstOf(rest).bytes)) == 0) {
      piece = absl::StrCat("\\x", absl::Hex(static_cast<uint8_t>(rest[0]), absl::kZeroPad2));
    } else {
      const Character character = FirstOf(rest);
      taken = character.bytes;
      const bool stays = !IsHidden(character.code) || (keep_newlines && character.code == '\n');
      piece = stays ? std::string(rest.substr(0, taken)) : Escape(character.code);
    }
    if (shown.size() + piece.size() > most) {
      return shown + "...";
    }
    shown += piece;
    at += taken;
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
