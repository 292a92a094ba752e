// MemberId: which member somebody is: what it is called, and its key. Certificates that are renewed
// have both again. Whoever joins under a name that was another's has another key, and is another
// member.
//
// A plain value without I/O.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/security/caller.h"
#include "common/security/certificate.h"
#include "common/security/identity.h"
#include "proto/member_identity.pb.h"

namespace monsoon {

struct MemberId {
  Identity identity;
  std::string key;  // its fingerprint

  friend bool operator==(const MemberId&, const MemberId&) = default;
};

// Whether it is this one. Allocates nothing.
bool IsMember(const MemberId& member, const Peer& peer);

// An unset one where the caller does not prove which member it is.
MemberIdentity ToProto(const Caller& caller);
MemberIdentity ToProto(const MemberId& member);
// Nothing for an unset one. InvalidArgument says what is wrong.
absl::StatusOr<std::optional<MemberId>> ParseMemberId(const MemberIdentity& proto);

// "worker/7"; "nobody" for an unset or a wrong one.
std::string MemberName(const MemberIdentity& proto);

}  // namespace monsoon
