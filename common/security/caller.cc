#include "common/security/caller.h"

#include "absl/strings/match.h"
#include "common/security/identity.h"

namespace monsoon {

std::string QuotaName(const Caller& caller) {
  if (caller.member.has_value()) {
    return MemberName(caller.member->identity);
  }
  if (!absl::StartsWith(caller.address, "ipv")) {
    return "";
  }
  const size_t scheme = caller.address.find(':') + 1;
  return caller.address.substr(scheme, caller.address.rfind(':') - scheme);
}

}  // namespace monsoon
