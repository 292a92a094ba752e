#include "common/security/member_id.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr size_t kFingerprintBytes = 32;

MemberIdentity Make(const Identity& identity, const std::string& key) {
  MemberIdentity proto;
  proto.set_identity(ToUri(identity));
  proto.set_key(key);
  return proto;
}

}  // namespace

bool IsMember(const MemberId& member, const Peer& peer) {
  return member.key == peer.key_fingerprint && member.identity == peer.identity;
}

MemberIdentity ToProto(const Caller& caller) {
  return caller.open || !caller.member.has_value()
             ? MemberIdentity()
             : Make(caller.member->identity, caller.member->key_fingerprint);
}

MemberIdentity ToProto(const MemberId& member) { return Make(member.identity, member.key); }

absl::StatusOr<std::optional<MemberId>> ParseMemberId(const MemberIdentity& proto) {
  if (proto.identity().empty() && proto.key().empty()) {
    return std::nullopt;
  }
  MemberId member;
  ASSIGN_OR_RETURN(member.identity, ParseIdentity(proto.identity()));
  if (proto.key().size() != kFingerprintBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the key of ", MemberName(member.identity),
                                                   " has a fingerprint of ", proto.key().size(),
                                                   " bytes, not ", kFingerprintBytes));
  }
  member.key = proto.key();
  return member;
}

std::string MemberName(const MemberIdentity& proto) {
  const absl::StatusOr<Identity> identity = ParseIdentity(proto.identity());
  return identity.ok() ? MemberName(*identity) : "nobody";
}

}  // namespace monsoon
