// MemberBook: those who have joined a cluster, as a coordinator keeps them: names, so that no two
// are called the same, and keys, so that one can be thrown out. Decisions look at them and make
// updates; Apply alone changes them, so that a journal of the updates makes the same book again.
//
// A member is its role and name, "worker/7". It is live until it is revoked or its newest
// certificate has ended; a live one's name is nobody else's. A member that renews with another key
// has both until the earlier one's certificate has ended, and to revoke it is to revoke all.
//
// What a decision allows may be told only once its update is durable.
//
// Plain class: no clock, no randomness, no I/O. Thread safety: none.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/security/identity.h"
#include "proto/member_record.pb.h"
#include "proto/revocations.pb.h"

namespace monsoon {

inline constexpr size_t kMostMembers = 4096;
// Keys of one member whose certificates hold, but for its newest.
inline constexpr int kMostEarlierKeys = 4;
// So long after its end a member is told of to people.
inline constexpr absl::Duration kEndedMemberKept = absl::Hours(24 * 7);
// So long after its end a revoked certificate is refused by this list, too: clocks differ.
inline constexpr absl::Duration kRevokedKept = absl::Hours(1);

// Who has a certificate now.
struct Holder {
  Identity identity;
  std::string key;  // fingerprint
  std::vector<std::string> hosts;
  absl::Time not_after;
};

class MemberBook {
 public:
  // Of `members`, which outlive this.
  explicit MemberBook(const MemberRecords* members) : members_(*members) {}

  // FailedPrecondition, and nothing changes, for what no decision below would have made of them.
  static absl::Status Apply(const MemberUpdate& update, MemberRecords* members);

  // `joins` with the token of that id. AlreadyExists names who is called so, or whose the key is;
  // PermissionDenied for a key that is revoked; ResourceExhausted where there are kMostMembers.
  absl::StatusOr<MemberUpdate> Admit(const Holder& joins, absl::string_view token,
                                     absl::Time now) const;

  // The holder of `key`, which may be an earlier one of it, goes on as `renews`. NotFound where
  // nobody is known by the key and this identity; PermissionDenied where it is revoked;
  // AlreadyExists where the new key is another's; ResourceExhausted where it has too many.
  absl::StatusOr<MemberUpdate> Renew(absl::string_view key, const Holder& renews,
                                     absl::Time now) const;

  // `member` is as MemberName has it. NotFound where there is none. One that was revoked stays so
  // from the first time.
  absl::StatusOr<MemberUpdate> Revoke(absl::string_view member, absl::Time now) const;

  // The member that is called so, a live one before one that is not; null: there is none.
  const MemberRecord* Find(absl::string_view member, absl::Time now) const;
  // Whether it is a key, the newest or an earlier one, of a member that is revoked.
  bool IsRevoked(absl::string_view key) const;
  // All such keys.
  Revocations Revoked() const;

  // "live", "revoked" or "ended".
  static absl::string_view StateOf(const MemberRecord& member, absl::Time now);
  // "worker/7"; "" where it has no identity, as in no book that Apply made.
  static std::string NameOf(const MemberRecord& member);

 private:
  const MemberRecord* FindKey(absl::string_view key) const;

  const MemberRecords& members_;
};

}  // namespace monsoon
