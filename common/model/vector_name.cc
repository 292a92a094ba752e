#include "common/model/vector_name.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace monsoon {

absl::Status CheckVectorName(const std::string& name) {
  const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
  if (name.empty() || name.size() > kMaxVectorName || !std::ranges::all_of(name, printable)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::CHexEscape(name.substr(0, kMaxVectorName)), "\" is no name for a vector: 1 to ",
        kMaxVectorName, " printable characters without blanks are"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
