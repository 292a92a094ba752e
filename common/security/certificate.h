// What certificates say: that of a cluster's authority, and those that it has signed. Nothing here
// is verified; peer_verifier.h does that.
//
// Plain functions and values. Thread safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/security/identity.h"

namespace monsoon {

struct Validity {
  absl::Time begin;
  absl::Time end;  // the last second of it
};

// A cluster's certificate authority.
struct Authority {
  std::string cluster;
  std::string fingerprint;  // of its key (PrivateKey::Fingerprint): what tokens carry
  Validity validity;
};

// Who a member is.
struct Peer {
  Identity identity;
  std::vector<std::string> hosts;
  std::string key_fingerprint;
  Validity validity;
};

// Of the first certificate in the PEM text. InvalidArgument where it cannot be read or is of
// another kind; an authority has signed its own.
absl::StatusOr<Authority> ReadAuthority(absl::string_view pem);
absl::StatusOr<Peer> ReadPeer(absl::string_view pem);

}  // namespace monsoon
