// JoinToken: what lets somebody join a cluster who has no certificate yet. As one word:
//
//   msn1.<authority>.<id>.<secret>     msn1.<authority>.<id>.<secret>@HOST:PORT
//
// with the SHA-256 of the authority's key (43 digits of base64url), by which the joiner knows the
// cluster before it sends the secret, the id (12 hexadecimal digits), by which people name the
// token, and the secret (43 digits of base64url). The second form, an invitation, says also where
// the coordinator is.
//
// Errors say what is wrong with a text and quote nothing of it, since it is a secret.
//
// Plain functions and values. Thread safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/security/certificate.h"

namespace monsoon {

inline constexpr size_t kTokenIdBytes = 6;
inline constexpr size_t kTokenSecretBytes = 32;

struct JoinToken {
  std::string authority;  // 32 bytes: Authority::fingerprint
  std::string id;         // lower-case hexadecimal
  std::string secret;     // kTokenSecretBytes bytes
};

struct Invitation {
  JoinToken token;
  std::string address;  // as it was written: not parsed here
};

// With an id and a secret that nobody can foretell.
JoinToken DrawToken(const Authority& authority);

std::string ToText(const JoinToken& token);

// Each takes what the other does not: InvalidArgument where there is an address, or none. It says
// too where a text is cut short, broken into lines, of another version, or no token at all.
absl::StatusOr<JoinToken> ParseToken(absl::string_view text);
absl::StatusOr<Invitation> ParseInvitation(absl::string_view text);

// Unauthenticated where the token is of another cluster than the one that showed this authority's
// certificate. Nothing secret may be sent before.
absl::Status CheckAuthority(const JoinToken& token, const Authority& authority);

}  // namespace monsoon
