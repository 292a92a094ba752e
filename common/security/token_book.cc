#include "common/security/token_book.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/security/digest.h"
#include "common/security/member_shares.h"

namespace monsoon {
namespace {

std::string AtText(int64_t unix_ms) {
  return absl::FormatTime(absl::RFC3339_sec, absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

absl::Status CheckTerms(const TokenTerms& terms) {
  if (terms.role == Role::kCoordinator) {
    return absl::InvalidArgumentError("nobody joins a cluster as its coordinator");
  }
  if (terms.lifetime < absl::Seconds(1) || terms.lifetime > kLongestTokenLife) {
    return absl::InvalidArgumentError(absl::StrCat("a token lives for 1s to ",
                                                   absl::FormatDuration(kLongestTokenLife),
                                                   ", not ", absl::FormatDuration(terms.lifetime)));
  }
  if (terms.uses < 1 || terms.uses > kMostTokenUses) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token has 1 to ", kMostTokenUses, " uses, not ", terms.uses));
  }
  if (terms.note.size() > kMostNoteBytes || FindInvalidUtf8(terms.note) != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token's note is text of at most ", kMostNoteBytes, " bytes"));
  }
  if (!terms.job.empty() && terms.role != Role::kWorker && terms.role != Role::kViewer) {
    return absl::InvalidArgumentError(
        absl::StrCat("workers and viewers may be there for one job; a token of role ",
                     RoleName(terms.role), " is for all"));
  }
  // Any member's name will do to see whether the job's is one.
  return CheckIdentity({Role::kWorker, "0", "any", terms.job});
}

// Why it is refused to who has its secret.
absl::Status CheckUsable(const JoinTokenRecord& token, absl::Time now) {
  const absl::string_view end = TokenBook::EndOf(token, now);
  if (end.empty()) {
    return absl::OkStatus();
  }
  const std::string name = absl::StrCat("token ", token.id(), " ");
  if (end == "revoked") {
    return absl::PermissionDeniedError(
        absl::StrCat(name, "was revoked at ", AtText(token.revoked_ms()), "; ask for another one"));
  }
  if (end == "expired") {
    return absl::PermissionDeniedError(
        absl::StrCat(name, "expired at ", AtText(token.expires_ms()), ", ",
                     absl::FormatDuration(absl::Trunc(
                         now - absl::FromUnixMillis(token.expires_ms()), absl::Seconds(1))),
                     " ago by the coordinator's clock; ask for another one"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(name, "is used up: ", token.used_by_size(),
                   " joined with it, which is as many as it was for; ask for another one"));
}

// When it came to be of no use, as far as it has; else when it will.
int64_t EndMs(const JoinTokenRecord& token) {
  if (token.revoked_ms() != 0) {
    return token.revoked_ms();
  }
  return token.uses_left() == 0 ? token.last_used_ms() : token.expires_ms();
}

bool HasJoined(const JoinTokenRecord& token, absl::string_view fingerprint) {
  return std::ranges::find(token.used_by(), fingerprint) != token.used_by().end();
}

// When another one is created.
bool IsForgotten(const JoinTokenRecord& token, int64_t created_ms) {
  return EndMs(token) <= created_ms - absl::ToInt64Milliseconds(kEndedTokenKept);
}

constexpr char kRoomRemedy[] = "one that has ended is forgotten after a week";

// That there is room for another one, and in the share of who makes it.
absl::Status CheckRoom(const JoinTokens& tokens, const std::string& by, int64_t now_ms) {
  std::vector<const JoinTokenRecord*> kept;
  for (const JoinTokenRecord& token : tokens.token()) {
    if (!IsForgotten(token, now_ms)) {
      kept.push_back(&token);
    }
  }
  if (kept.size() >= kMostTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMostTokens, " tokens, and no room for another: ", kRoomRemedy));
  }
  MemberShares shares({.what = "tokens",
                       .total = kMostTokens,
                       .least = kLeastTokens,
                       .most = MemberShares::MostBeside(kMostTokens, kLeastTokens, kept.size()),
                       .remedy = kRoomRemedy});
  for (const JoinTokenRecord* const token : kept) {
    shares.Count(token->by(), 1);
  }
  return shares.Take(by, 1);
}

absl::Status Add(const JoinTokenRecord& created, JoinTokens* tokens) {
  auto* const list = tokens->mutable_token();
  if (std::ranges::find(*list, created.id(), &JoinTokenRecord::id) != list->end()) {
    return absl::FailedPreconditionError(absl::StrCat("token ", created.id(), " is there already"));
  }
  list->erase(std::remove_if(list->begin(), list->end(),
                             [&](const JoinTokenRecord& token) {
                               return IsForgotten(token, created.created_ms());
                             }),
              list->end());
  *list->Add() = created;
  return absl::OkStatus();
}

absl::Status NoSuchToken(absl::StatusCode code, absl::string_view id) {
  return absl::Status(code, absl::StrCat("there is no token ", id,
                                         " in this cluster; it may have ended long ago, or the "
                                         "coordinator has lost its state"));
}

}  // namespace

absl::Time TokenBook::OpenUntil() const {
  absl::Time until = absl::InfinitePast();
  for (const JoinTokenRecord& token : tokens_.token()) {
    if (token.revoked_ms() != 0) {
      continue;
    }
    absl::Time end = absl::FromUnixMillis(token.expires_ms());
    if (token.uses_left() == 0) {
      end = std::min(end, absl::FromUnixMillis(token.last_used_ms()) + kUsedUpOpen);
    }
    until = std::max(until, end);
  }
  return until;
}

absl::string_view TokenBook::EndOf(const JoinTokenRecord& token, absl::Time now) {
  if (token.revoked_ms() != 0) {
    return "revoked";
  }
  if (now >= absl::FromUnixMillis(token.expires_ms())) {
    return "expired";
  }
  return token.uses_left() == 0 ? "used up" : "";
}

const JoinTokenRecord* TokenBook::Find(absl::string_view id) const {
  const auto found = std::ranges::find(tokens_.token(), id, &JoinTokenRecord::id);
  return found == tokens_.token().end() ? nullptr : &*found;
}

absl::Status TokenBook::Apply(const JoinTokenUpdate& update, JoinTokens* tokens) {
  if (update.has_created()) {
    return Add(update.created(), tokens);
  }
  const std::string& id = update.has_used() ? update.used().id() : update.revoked().id();
  const auto found = std::ranges::find(*tokens->mutable_token(), id, &JoinTokenRecord::id);
  if (found == tokens->mutable_token()->end()) {
    return NoSuchToken(absl::StatusCode::kFailedPrecondition, id);
  }
  if (update.has_revoked()) {
    found->set_revoked_ms(update.revoked().revoked_ms());
    return absl::OkStatus();
  }
  if (found->uses_left() == 0 || HasJoined(*found, update.used().used_by())) {
    return absl::FailedPreconditionError(
        absl::StrCat("token ", id, " has no use left for this key"));
  }
  found->set_uses_left(found->uses_left() - 1);
  found->add_used_by(update.used().used_by());
  found->set_last_used_ms(update.used().used_ms());
  return absl::OkStatus();
}

absl::StatusOr<JoinTokenUpdate> TokenBook::Create(const TokenTerms& terms, const JoinToken& token,
                                                  absl::Time now) const {
  RETURN_IF_ERROR(CheckTerms(terms));
  const int64_t now_ms = absl::ToUnixMillis(now);
  RETURN_IF_ERROR(CheckRoom(tokens_, terms.by, now_ms));
  JoinTokenUpdate update;
  JoinTokenRecord* const created = update.mutable_created();
  created->set_by(terms.by);
  created->set_id(token.id);
  created->set_secret_sha256(Sha256(token.secret));
  created->set_role(std::string(RoleName(terms.role)));
  created->set_job(terms.job);
  created->set_note(terms.note);
  created->set_created_ms(now_ms);
  created->set_expires_ms(absl::ToUnixMillis(now + terms.lifetime));
  created->set_uses_left(terms.uses);
  return update;
}

absl::StatusOr<Redemption> TokenBook::Redeem(absl::string_view id, absl::string_view secret,
                                             absl::string_view fingerprint, absl::Time now) const {
  const JoinTokenRecord* const token = Find(id);
  if (token == nullptr) {
    return NoSuchToken(absl::StatusCode::kUnauthenticated, id);
  }
  if (!SameSecret(Sha256(secret), token->secret_sha256())) {
    return absl::UnauthenticatedError(
        absl::StrCat("the secret of token ", id, " is wrong; paste the token whole"));
  }
  const bool again = HasJoined(*token, fingerprint);
  const absl::Status usable = CheckUsable(*token, now);
  if (!usable.ok() && !(again && EndOf(*token, now) == "used up")) {
    return usable;
  }
  Redemption redemption;
  ASSIGN_OR_RETURN(redemption.role, ParseRole(token->role()));
  redemption.job = token->job();
  if (!again) {
    JoinTokenUsed* const used = redemption.update.emplace().mutable_used();
    used->set_id(token->id());
    used->set_used_by(std::string(fingerprint));
    used->set_used_ms(absl::ToUnixMillis(now));
  }
  return redemption;
}

absl::StatusOr<JoinTokenUpdate> TokenBook::Revoke(absl::string_view id, absl::Time now) const {
  const JoinTokenRecord* const token = Find(id);
  if (token == nullptr) {
    return NoSuchToken(absl::StatusCode::kNotFound, id);
  }
  JoinTokenUpdate update;
  update.mutable_revoked()->set_id(token->id());
  update.mutable_revoked()->set_revoked_ms(token->revoked_ms() != 0 ? token->revoked_ms()
                                                                    : absl::ToUnixMillis(now));
  return update;
}

}  // namespace monsoon
