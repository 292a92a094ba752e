// CertificateAuthority: the key with which a cluster says who its members are. Its certificate is
// signed by itself, holds for ten years, can sign members but no other authority (path length 0),
// and none but those of its own cluster (name constraint).
//
// The time is passed in: nothing here reads a clock.
//
// Copies share the key, which never changes. Thread safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/security/certificate.h"
#include "common/security/identity.h"
#include "common/security/private_key.h"

namespace monsoon {

// A certificate begins so long before it is signed: its holder's clock may be late.
inline constexpr absl::Duration kBackdating = absl::Minutes(5);
inline constexpr absl::Duration kMemberLifetime = absl::Hours(24 * 7);
inline constexpr absl::Duration kAuthorityLifetime = absl::Hours(24 * 3653);

// What the authority is told to certify. It is what the certificate says: the request has no part
// in it but the key.
struct Grant {
  Identity identity;
  std::vector<std::string> hosts;
  absl::Duration lifetime = kMemberLifetime;  // cut short where the authority ends before
};

class CertificateAuthority {
 public:
  // A new one, with a new key. InvalidArgument where `cluster` is no name (identity.h).
  static absl::StatusOr<CertificateAuthority> Create(absl::string_view cluster, absl::Time now);
  // InvalidArgument where the certificate is no authority's, or of another key.
  static absl::StatusOr<CertificateAuthority> FromPem(const PrivateKey& key,
                                                      absl::string_view certificate);

  const PrivateKey& key() const { return key_; }
  const Authority& facts() const { return facts_; }
  const std::string& certificate() const { return certificate_; }  // PEM

  // The certificate, in PEM form, for the key of a request (signing_request.h).
  // PermissionDenied where the request asks for another identity or another host's name than
  // `grant` has, and names it; InvalidArgument for a request that does not prove its key, and for
  // a grant of another cluster or that is none; FailedPrecondition where the authority has ended.
  absl::StatusOr<std::string> Sign(absl::string_view request, const Grant& grant,
                                   absl::Time now) const;

 private:
  CertificateAuthority(PrivateKey key, Authority facts, std::string certificate)
      : key_(std::move(key)), facts_(std::move(facts)), certificate_(std::move(certificate)) {}

  absl::Status CheckGrant(absl::string_view request, const Grant& grant, absl::Time now) const;

  PrivateKey key_;
  Authority facts_;
  std::string certificate_;
};

}  // namespace monsoon
