// PeerVerifier: whether a peer's certificate is one of its cluster, now. The peer's possession of
// the key is for TLS to prove; who has been thrown out is for a list elsewhere.
//
// The time is passed in: nothing here reads a clock.
//
// Never changes. Thread safe.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/security/certificate.h"
#include "common/security/private_key.h"

namespace monsoon {

class PeerVerifier {
 public:
  // Of the cluster whose authority has this certificate. InvalidArgument where it is none.
  static absl::StatusOr<PeerVerifier> Create(absl::string_view authority);

  const Authority& authority() const { return authority_; }

  // Whose certificate it is, the first of `chain` (PEM). Unauthenticated says which of these it
  // is: signed by another authority, of another cluster, ended (since when, by this host's clock),
  // not begun (how far the clocks are apart at least), or without an identity.
  absl::StatusOr<Peer> Verify(absl::string_view chain, absl::Time now) const;
  // The same without a look at the time.
  absl::StatusOr<Peer> VerifySigned(absl::string_view chain) const;

 private:
  PeerVerifier(Authority authority, std::string certificate)
      : authority_(std::move(authority)), certificate_(std::move(certificate)) {}

  Authority authority_;
  std::string certificate_;
};

// FailedPrecondition where the certificate is of another key, as in a pair of which only one half
// was renewed.
absl::Status CheckPair(const PrivateKey& key, absl::string_view certificate);

}  // namespace monsoon
