#include "common/base/inner_path.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace monsoon {

bool IsInnerPath(absl::string_view name) {
  const bool plain = std::ranges::none_of(
      name, [](unsigned char c) { return c == '\\' || absl::ascii_iscntrl(c); });
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  return plain && (name.empty() || name[0] != '~') &&
         std::ranges::none_of(parts, [](absl::string_view part) {
           return part.empty() || part == "." || part == "..";
         });
}

}  // namespace monsoon
