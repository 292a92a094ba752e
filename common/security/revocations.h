// RevokedKeys: the keys whose certificates count no more, as whoever serves calls asks for them.
// A list is made by the coordinator, and told to others (proto/revocations.proto).
//
// Keys are only added. One is dropped when its last certificate has ended by the clock of whoever
// asks, which is the clock by which certificates are verified: so no list that lacks it, as one of
// a coordinator that has lost its state, lets anybody in again.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "proto/revocations.pb.h"

namespace monsoon {

// More keys of a list are passed over: no coordinator's has as many.
inline constexpr size_t kMostRevokedKeys = 32'768;

// A list of these keys, sorted, each once.
Revocations MakeRevocations(std::vector<MemberKey> keys);

// Thread safe.
class RevokedKeys {
 public:
  // Whether the key with this fingerprint is one of them.
  bool Contains(absl::string_view fingerprint) const;
  // Adds those of `list`, and drops what has ended. True: other keys are there than before.
  bool Add(const Revocations& list, absl::Time now);
  // All of them.
  Revocations All() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, int64_t, std::less<>> keys_ ABSL_GUARDED_BY(mutex_);  // with not_after_ms
};

}  // namespace monsoon
