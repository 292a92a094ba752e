#include "common/security/host_names.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/shorten.h"

namespace monsoon {
namespace {

// RFC 1035, and '_', which names inside container networks have.
constexpr size_t kMostLabelBytes = 63;
constexpr size_t kMostNameBytes = 253;

bool IsLabel(absl::string_view label) {
  return !label.empty() && label.size() <= kMostLabelBytes && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_';
         });
}

bool IsDnsName(absl::string_view name) {
  const std::vector<absl::string_view> labels = absl::StrSplit(name, '.');
  return name.size() <= kMostNameBytes && std::ranges::all_of(labels, IsLabel);
}

}  // namespace

bool IsIpAddress(absl::string_view name) {
  unsigned char address[16];
  const std::string text(name);
  return inet_pton(AF_INET, text.c_str(), address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), address) == 1;
}

absl::Status CheckHostNames(const std::vector<std::string>& names) {
  if (names.size() > kMostHostNames) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.size(), " names of a host, and ", kMostHostNames, " are the most"));
  }
  for (const std::string& name : names) {
    if (!IsIpAddress(name) && !IsDnsName(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", Shorten(absl::CHexEscape(name), kMostNameBytes),
                       "\" is neither an IP address nor a name that a host can have"));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
