#include "common/security/join_token.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/random_bytes.h"
#include "common/base/status.h"
#include "common/security/digest.h"

namespace monsoon {
namespace {

constexpr absl::string_view kFamily = "msn";
constexpr absl::string_view kVersion = "msn1";

absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a token to join with: ", why));
}

// `bytes` of them, written in base64url as ToText does: no two texts mean the same.
absl::StatusOr<std::string> Decode(absl::string_view what, absl::string_view digits, size_t bytes) {
  const size_t expected = (bytes * 8 + 5) / 6;
  if (digits.size() < expected) {
    return Refused(absl::StrCat("its ", what, " is cut short: it has ", digits.size(),
                                " digits of ", expected));
  }
  if (digits.size() > expected) {
    return Refused(
        absl::StrCat("its ", what, " has ", digits.size(), " digits, and ", expected, " is right"));
  }
  std::string decoded;
  if (!absl::WebSafeBase64Unescape(digits, &decoded) || decoded.size() != bytes ||
      absl::WebSafeBase64Escape(decoded) != digits) {
    return Refused(absl::StrCat("its ", what, " is not written in base64url"));
  }
  return decoded;
}

absl::Status CheckId(absl::string_view id) {
  const bool digits = std::ranges::all_of(
      id, [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); });
  if (id.size() != 2 * kTokenIdBytes || !digits) {
    return Refused(absl::StrCat("its id is not one of ", 2 * kTokenIdBytes, " hexadecimal digits"));
  }
  return absl::OkStatus();
}

absl::StatusOr<JoinToken> ParseParts(absl::string_view text) {
  if (std::ranges::any_of(text, [](char c) { return absl::ascii_isspace(c); })) {
    return Refused("there is a space or the end of a line in it; paste it as one word");
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (!absl::StartsWith(text, kFamily)) {
    return Refused(absl::StrCat("it does not begin with ", kVersion, "."));
  }
  if (parts[0] != kVersion) {
    return Refused(absl::StrCat("it is one of another version than ", kVersion,
                                ", which is the one that this program knows"));
  }
  if (parts.size() < 4) {
    return Refused(absl::StrCat("it is cut short: it has ", parts.size(), " parts of 4"));
  }
  if (parts.size() > 4) {
    return Refused(absl::StrCat("it has ", parts.size(), " parts, and 4 is right"));
  }
  JoinToken token;
  ASSIGN_OR_RETURN(token.authority, Decode("second part", parts[1], kSha256Bytes));
  RETURN_IF_ERROR(CheckId(parts[2]));
  token.id = std::string(parts[2]);
  ASSIGN_OR_RETURN(token.secret, Decode("secret", parts[3], kTokenSecretBytes));
  return token;
}

}  // namespace

JoinToken DrawToken(const Authority& authority) {
  return {authority.fingerprint, absl::BytesToHexString(RandomBytes(kTokenIdBytes)),
          RandomBytes(kTokenSecretBytes)};
}

std::string ToText(const JoinToken& token) {
  return absl::StrCat(kVersion, ".", absl::WebSafeBase64Escape(token.authority), ".", token.id, ".",
                      absl::WebSafeBase64Escape(token.secret));
}

absl::StatusOr<JoinToken> ParseToken(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::StrContains(text, '@')) {
    return Refused("it was pasted with the coordinator's address; leave out '@' and what follows");
  }
  return ParseParts(text);
}

absl::StatusOr<Invitation> ParseInvitation(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const size_t at = text.find('@');
  if (at == absl::string_view::npos || at + 1 == text.size()) {
    RETURN_IF_ERROR(ParseParts(text.substr(0, at)).status());
    return Refused("the coordinator's address is missing: write TOKEN@HOST:PORT");
  }
  ASSIGN_OR_RETURN(JoinToken token, ParseParts(text.substr(0, at)));
  return Invitation{std::move(token), std::string(text.substr(at + 1))};
}

absl::Status CheckAuthority(const JoinToken& token, const Authority& authority) {
  if (SameSecret(token.authority, authority.fingerprint)) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError(
      absl::StrCat("the token is not of cluster ", authority.cluster,
                   ", which answers there: it is of another cluster, or the cluster's authority "
                   "was made anew since. Nothing secret was sent; ask for another token"));
}

}  // namespace monsoon
