#include "common/security/member_book.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/security/digest.h"
#include "common/security/revocations.h"

namespace monsoon {
namespace {

std::string AtText(int64_t unix_ms) {
  return absl::FormatTime(absl::RFC3339_sec, absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

bool HasKey(const MemberRecord& member, absl::string_view key) {
  return member.key() == key || std::ranges::any_of(member.earlier(), [&](const MemberKey& had) {
           return had.fingerprint() == key;
         });
}

bool IsLive(const MemberRecord& member, int64_t now_ms) {
  return member.revoked_ms() == 0 && now_ms <= member.not_after_ms();
}

// When the last certificate of any of its keys ends.
int64_t LastEndMs(const MemberRecord& member) {
  int64_t last = member.not_after_ms();
  for (const MemberKey& had : member.earlier()) {
    last = std::max(last, had.not_after_ms());
  }
  return last;
}

bool IsForgotten(const MemberRecord& member, int64_t now_ms) {
  const absl::Duration kept = member.revoked_ms() == 0 ? kEndedMemberKept : kRevokedKept;
  return absl::FromUnixMillis(LastEndMs(member)) + kept < absl::FromUnixMillis(now_ms);
}

// The record that `joined` takes the place of: of its key, or of its name.
bool IsReplaced(const MemberRecord& member, const MemberRecord& joined) {
  return member.revoked_ms() == 0 &&
         (HasKey(member, joined.key()) || MemberBook::NameOf(member) == MemberBook::NameOf(joined));
}

// What keeps `joined` out; OK where nothing does.
absl::Status CheckAdmitted(const MemberRecord& joined, const MemberRecords& members) {
  const std::string name = MemberBook::NameOf(joined);
  if (name.empty() || joined.key().size() != kSha256Bytes) {
    return absl::FailedPreconditionError("a member without an identity or a key");
  }
  for (const MemberRecord& member : members.member()) {
    const std::string other = MemberBook::NameOf(member);
    const bool same_key = HasKey(member, joined.key());
    if (same_key && member.revoked_ms() != 0) {
      return absl::PermissionDeniedError(absl::StrCat("the key of ", other, " was revoked at ",
                                                      AtText(member.revoked_ms()),
                                                      "; join with a new one"));
    }
    if (same_key && other != name) {
      return absl::AlreadyExistsError(absl::StrCat("this key is that of ", other, "; whoever is ",
                                                   name, " too needs another key"));
    }
    if (!same_key && other == name && IsLive(member, joined.joined_ms())) {
      return absl::AlreadyExistsError(absl::StrCat(
          name, " is there already, with another key: joined at ", AtText(member.joined_ms()),
          member.host().empty() ? "" : absl::StrCat(" from ", absl::StrJoin(member.host(), ", ")),
          ", certificate until ", AtText(member.not_after_ms()),
          "; join as somebody else, or throw that one out first: member revoke ", name));
    }
  }
  return absl::OkStatus();
}

absl::Status NotAFit(const absl::Status& why) {
  return absl::FailedPreconditionError(why.message());
}

absl::Status Add(const MemberRecord& joined, MemberRecords* members) {
  if (const absl::Status fits = CheckAdmitted(joined, *members); !fits.ok()) {
    return NotAFit(fits);
  }
  auto* const list = members->mutable_member();
  list->erase(std::remove_if(list->begin(), list->end(),
                             [&](const MemberRecord& member) {
                               return IsForgotten(member, joined.joined_ms()) ||
                                      IsReplaced(member, joined);
                             }),
              list->end());
  *list->Add() = joined;
  return absl::OkStatus();
}

// What of the member's keys but `newest` may still be shown.
std::vector<MemberKey> EarlierKeys(const MemberRecord& member, absl::string_view newest,
                                   int64_t now_ms) {
  std::vector<MemberKey> keys(member.earlier().begin(), member.earlier().end());
  keys.emplace_back().set_fingerprint(member.key());
  keys.back().set_not_after_ms(member.not_after_ms());
  std::erase_if(keys, [&](const MemberKey& key) {
    const absl::Time kept_until = absl::FromUnixMillis(key.not_after_ms()) + kRevokedKept;
    return key.fingerprint() == newest || kept_until < absl::FromUnixMillis(now_ms);
  });
  return keys;
}

absl::Status Change(const MemberRenewed& renewed, MemberRecord* member) {
  if (member->revoked_ms() != 0 || renewed.key().size() != kSha256Bytes) {
    return absl::FailedPreconditionError("a revoked member, or one without a key, renews");
  }
  const std::vector<MemberKey> earlier = EarlierKeys(*member, renewed.key(), renewed.renewed_ms());
  // The key may have been an earlier one, with a certificate that ends later.
  int64_t not_after = renewed.not_after_ms();
  for (const MemberKey& had : member->earlier()) {
    not_after =
        had.fingerprint() == renewed.key() ? std::max(not_after, had.not_after_ms()) : not_after;
  }
  member->mutable_earlier()->Assign(earlier.begin(), earlier.end());
  member->set_key(renewed.key());
  *member->mutable_host() = renewed.host();
  member->set_renewed_ms(renewed.renewed_ms());
  member->set_not_after_ms(not_after);
  return absl::OkStatus();
}

}  // namespace

absl::string_view MemberBook::StateOf(const MemberRecord& member, absl::Time now) {
  if (member.revoked_ms() != 0) {
    return "revoked";
  }
  return IsLive(member, absl::ToUnixMillis(now)) ? "live" : "ended";
}

std::string MemberBook::NameOf(const MemberRecord& member) {
  const absl::StatusOr<Identity> identity = ParseIdentity(member.identity());
  return identity.ok() ? MemberName(*identity) : "";
}

const MemberRecord* MemberBook::FindKey(absl::string_view key) const {
  for (const MemberRecord& member : members_.member()) {
    if (HasKey(member, key)) {
      return &member;
    }
  }
  return nullptr;
}

const MemberRecord* MemberBook::Find(absl::string_view member, absl::Time now) const {
  const MemberRecord* found = nullptr;
  for (const MemberRecord& known : members_.member()) {
    if (NameOf(known) == member && (found == nullptr || StateOf(*found, now) != "live")) {
      found = &known;
    }
  }
  return found;
}

absl::Status MemberBook::Apply(const MemberUpdate& update, MemberRecords* members) {
  if (update.has_admitted()) {
    return Add(update.admitted(), members);
  }
  const std::string& key = update.has_renewed() ? update.renewed().was() : update.revoked().key();
  const auto found = std::ranges::find_if(
      *members->mutable_member(), [&](const MemberRecord& member) { return HasKey(member, key); });
  if (found == members->mutable_member()->end()) {
    return absl::FailedPreconditionError("nobody is known by this key");
  }
  if (update.has_renewed()) {
    return Change(update.renewed(), &*found);
  }
  if (update.revoked().revoked_ms() == 0) {
    return absl::FailedPreconditionError("revoked at no time");
  }
  found->set_revoked_ms(update.revoked().revoked_ms());
  return absl::OkStatus();
}

absl::StatusOr<MemberUpdate> MemberBook::Admit(const Holder& joins, absl::string_view token,
                                               absl::Time now) const {
  MemberUpdate update;
  MemberRecord* const joined = update.mutable_admitted();
  joined->set_identity(ToUri(joins.identity));
  joined->set_key(joins.key);
  joined->mutable_host()->Assign(joins.hosts.begin(), joins.hosts.end());
  joined->set_joined_ms(absl::ToUnixMillis(now));
  joined->set_not_after_ms(absl::ToUnixMillis(joins.not_after));
  joined->set_token(std::string(token));
  RETURN_IF_ERROR(CheckAdmitted(*joined, members_));
  size_t others = 0;
  for (const MemberRecord& member : members_.member()) {
    if (member.revoked_ms() == 0 && HasKey(member, joins.key)) {
      // It joined before, and its answer was lost: what else it has stays.
      for (const MemberKey& had : EarlierKeys(member, joins.key, joined->joined_ms())) {
        *joined->add_earlier() = had;
      }
    } else if (!IsReplaced(member, *joined) && !IsForgotten(member, joined->joined_ms())) {
      ++others;
    }
  }
  if (others >= kMostMembers) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the cluster has ", kMostMembers,
        " members, and no room for another: one is forgotten a week after its certificate ends"));
  }
  return update;
}

absl::StatusOr<MemberUpdate> MemberBook::Renew(absl::string_view key, const Holder& renews,
                                               absl::Time now) const {
  const MemberRecord* const member = FindKey(key);
  const std::string name = MemberName(renews.identity);
  if (member == nullptr || member->identity() != ToUri(renews.identity)) {
    return absl::NotFoundError(
        absl::StrCat("the coordinator does not know ", name,
                     " by this key: it has lost its state, or the credential was made on the "
                     "cluster's first host; join again with a token"));
  }
  if (member->revoked_ms() != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(name, " was revoked at ", AtText(member->revoked_ms()),
                     "; whoever runs the cluster may give it another token"));
  }
  const MemberRecord* const holder = FindKey(renews.key);
  if (holder != nullptr && holder != member) {
    return absl::AlreadyExistsError(absl::StrCat("the key with which ", name, " renews is that of ",
                                                 NameOf(*holder), "; make another one"));
  }
  const int64_t now_ms = absl::ToUnixMillis(now);
  if (EarlierKeys(*member, renews.key, now_ms).size() > kMostEarlierKeys) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name, " has ", kMostEarlierKeys + 1,
                     " keys whose certificates hold; renew the newest one"));
  }
  MemberUpdate update;
  MemberRenewed* const renewed = update.mutable_renewed();
  renewed->set_was(std::string(key));
  renewed->set_key(renews.key);
  renewed->mutable_host()->Assign(renews.hosts.begin(), renews.hosts.end());
  renewed->set_renewed_ms(now_ms);
  renewed->set_not_after_ms(absl::ToUnixMillis(renews.not_after));
  return update;
}

absl::StatusOr<MemberUpdate> MemberBook::Revoke(absl::string_view member, absl::Time now) const {
  const MemberRecord* const found = Find(member, now);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "nobody has joined as ", member,
        "; `member list` names all who have, and credentials that were made on the cluster's "
        "first host are not among them"));
  }
  MemberUpdate update;
  update.mutable_revoked()->set_key(found->key());
  update.mutable_revoked()->set_revoked_ms(found->revoked_ms() != 0 ? found->revoked_ms()
                                                                    : absl::ToUnixMillis(now));
  return update;
}

bool MemberBook::IsRevoked(absl::string_view key) const {
  const MemberRecord* const member = FindKey(key);
  return member != nullptr && member->revoked_ms() != 0;
}

Revocations MemberBook::Revoked() const {
  std::vector<MemberKey> keys;
  for (const MemberRecord& member : members_.member()) {
    if (member.revoked_ms() != 0) {
      keys.insert(keys.end(), member.earlier().begin(), member.earlier().end());
      keys.emplace_back().set_fingerprint(member.key());
      keys.back().set_not_after_ms(member.not_after_ms());
    }
  }
  return MakeRevocations(std::move(keys));
}

}  // namespace monsoon
