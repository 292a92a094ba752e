#include "coordinator/members/member_text.h"

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/security/member_book.h"
#include "common/security/token_book.h"

namespace monsoon {

TokenStatus StatusOfToken(const JoinTokenRecord& token, absl::Time now) {
  const absl::string_view end = TokenBook::EndOf(token, now);
  TokenStatus status;
  status.set_id(token.id());
  status.set_role(token.role());
  status.set_job(token.job());
  status.set_note(token.note());
  status.set_created_ms(token.created_ms());
  status.set_expires_ms(token.expires_ms());
  status.set_uses_left(token.uses_left());
  status.set_joined(static_cast<uint32_t>(token.used_by_size()));
  status.set_last_used_ms(token.last_used_ms());
  status.set_revoked_ms(token.revoked_ms());
  status.set_state(end.empty() ? "usable" : std::string(end));
  return status;
}

MemberStatus StatusOfMember(const MemberRecord& member, absl::Time now) {
  MemberStatus status;
  status.set_member(MemberBook::NameOf(member));
  status.set_identity(member.identity());
  status.set_key(member.key());
  *status.mutable_host() = member.host();
  status.set_joined_ms(member.joined_ms());
  status.set_renewed_ms(member.renewed_ms());
  status.set_not_after_ms(member.not_after_ms());
  status.set_token(member.token());
  status.set_revoked_ms(member.revoked_ms());
  status.set_state(std::string(MemberBook::StateOf(member, now)));
  return status;
}

std::string HostOfPeer(absl::string_view peer) {
  absl::string_view rest = peer;
  const bool four = absl::ConsumePrefix(&rest, "ipv4:");
  if (!four && !absl::ConsumePrefix(&rest, "ipv6:")) {
    return std::string(peer);
  }
  const std::string host(rest.substr(0, rest.rfind(':')));
  return absl::StrReplaceAll(host, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
}

}  // namespace monsoon
