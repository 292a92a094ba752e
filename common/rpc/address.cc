#include "common/rpc/address.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace monsoon {
namespace {

// A dotted IPv4 address of 127.0.0.0/8, not a name such as 127.0.0.1.evil.com.
bool IsLoopbackIpv4(absl::string_view host) {
  const std::vector<absl::string_view> parts = absl::StrSplit(host, '.');
  if (parts.size() != 4 || parts[0] != "127") {
    return false;
  }
  for (absl::string_view part : parts) {
    if (part.empty() || part.size() > 3 ||
        part.find_first_not_of("0123456789") != absl::string_view::npos) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsUnixAddress(absl::string_view address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:");
}

bool IsLoopbackAddress(absl::string_view address) {
  if (IsUnixAddress(address)) {
    return true;
  }
  const size_t colon = address.rfind(':');
  const absl::string_view host =
      colon == absl::string_view::npos ? address : address.substr(0, colon);
  return absl::EqualsIgnoreCase(host, "localhost") || host == "[::1]" || IsLoopbackIpv4(host);
}

absl::Status CheckReachability(absl::string_view address, bool insecure) {
  if (insecure || IsLoopbackAddress(address)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("address ", address,
                   " can be reached by other machines, and there is no TLS; listen on localhost "
                   "or allow it with --insecure"));
}

}  // namespace monsoon
