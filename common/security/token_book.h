// TokenBook: the tokens with which others may join, as a coordinator keeps them. Decisions look at
// them and make updates; Apply alone changes them, so that a journal of the updates makes the same
// tokens again. Of a secret there is the SHA-256.
//
// What a decision allows may be told only once its update is durable.
//
// Plain class: no clock, no randomness, no I/O. Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/security/identity.h"
#include "common/security/join_token.h"
#include "proto/join_token.pb.h"

namespace monsoon {

inline constexpr size_t kMostTokens = 1000;
// That one member may have made, however many others have made some.
inline constexpr size_t kLeastTokens = 20;
inline constexpr uint32_t kMostTokenUses = 10'000;
inline constexpr absl::Duration kLongestTokenLife = absl::Hours(24 * 366);
inline constexpr size_t kMostNoteBytes = 200;
// So long one that is used up lets its last user ask again, whose answer may be lost.
inline constexpr absl::Duration kUsedUpOpen = absl::Minutes(1);
// So long a token that is of no use is known by what ended it.
inline constexpr absl::Duration kEndedTokenKept = absl::Hours(24 * 7);

// What a token is made for.
struct TokenTerms {
  Role role = Role::kWorker;
  absl::Duration lifetime = absl::Hours(24);
  uint32_t uses = 1;
  std::string job;   // "": any
  std::string note;  // for people
  std::string by;    // whose share it takes (QuotaName, caller.h)
};

// What somebody who joins gets.
struct Redemption {
  Role role = Role::kWorker;
  std::string job;
  // None for a key that has joined with the token before.
  std::optional<JoinTokenUpdate> update;
};

class TokenBook {
 public:
  // Of `tokens`, which outlive this.
  explicit TokenBook(const JoinTokens* tokens) : tokens_(*tokens) {}

  // FailedPrecondition, and nothing changes, for what no decision below would have made of them.
  static absl::Status Apply(const JoinTokenUpdate& update, JoinTokens* tokens);

  // InvalidArgument where the terms are out of range, among them a coordinator's role, which
  // nobody joins in; ResourceExhausted where there are kMostTokens, or `terms.by` has its share of
  // them. `token` is new (DrawToken).
  absl::StatusOr<JoinTokenUpdate> Create(const TokenTerms& terms, const JoinToken& token,
                                         absl::Time now) const;

  // What the holder of `secret` and of the key with this fingerprint may become. Unauthenticated
  // for a token that is not there and for a wrong secret, which say nothing else of it;
  // PermissionDenied for one that is revoked, has expired or is used up, in that order.
  absl::StatusOr<Redemption> Redeem(absl::string_view id, absl::string_view secret,
                                    absl::string_view fingerprint, absl::Time now) const;

  // NotFound where there is none of that id. One that was revoked stays so from the first time.
  absl::StatusOr<JoinTokenUpdate> Revoke(absl::string_view id, absl::Time now) const;

  // Until when somebody may come to join who is to be told something: with a token that is of use,
  // or that was used up a minute ago at most.
  absl::Time OpenUntil() const;

  // Why it is of no use: "revoked", "expired" or "used up"; "" where it is of use.
  static absl::string_view EndOf(const JoinTokenRecord& token, absl::Time now);

 private:
  const JoinTokenRecord* Find(absl::string_view id) const;

  const JoinTokens& tokens_;
};

}  // namespace monsoon
