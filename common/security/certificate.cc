#include "common/security/certificate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/security/alternative_names.h"
#include "common/security/openssl.h"
#include "openssl/objects.h"

namespace monsoon {
namespace {

absl::StatusOr<Validity> ValidityOf(const X509& certificate) {
  ASSIGN_OR_RETURN(const absl::Time begin, TimeOf(X509_get0_notBefore(&certificate)));
  ASSIGN_OR_RETURN(const absl::Time end, TimeOf(X509_get0_notAfter(&certificate)));
  return Validity{begin, end};
}

absl::StatusOr<std::string> KeyFingerprintOf(const X509& certificate) {
  const EVP_PKEY* const key = X509_get0_pubkey(&certificate);
  if (key == nullptr || !IsP256(*key)) {
    return absl::InvalidArgumentError(
        "the certificate's key is not an elliptic curve key on P-256");
  }
  return FingerprintOf(*key);
}

// The organisation in an authority's name (certificate_authority.cc).
absl::StatusOr<std::string> ClusterOf(const X509& certificate) {
  char text[kMostClusterBytes + 1] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(&certificate), NID_organizationName, text,
                            sizeof(text));
  // Any member of it will do to see whether the name is one.
  RETURN_IF_ERROR(CheckIdentity({Role::kCoordinator, "0", text, ""}));
  return std::string(text);
}

}  // namespace

absl::StatusOr<Authority> ReadAuthority(absl::string_view pem) {
  ASSIGN_OR_RETURN(const OwnedCertificate certificate, ReadCertificate(pem));
  ASSIGN_OR_RETURN(std::string fingerprint, KeyFingerprintOf(*certificate));
  if (X509_check_ca(certificate.get()) != 1 ||
      X509_verify(certificate.get(), X509_get0_pubkey(certificate.get())) != 1) {
    return OpensslError(absl::StatusCode::kInvalidArgument,
                        "the certificate is not that of a cluster's authority");
  }
  ASSIGN_OR_RETURN(std::string cluster, ClusterOf(*certificate));
  ASSIGN_OR_RETURN(const Validity validity, ValidityOf(*certificate));
  return Authority{std::move(cluster), std::move(fingerprint), validity};
}

absl::StatusOr<Peer> ReadPeer(absl::string_view pem) {
  ASSIGN_OR_RETURN(const OwnedCertificate certificate, ReadCertificate(pem));
  ASSIGN_OR_RETURN(std::string fingerprint, KeyFingerprintOf(*certificate));
  absl::StatusOr<AlternativeNames> names = ReadNames(*certificate);
  if (!names.ok()) {
    return Annotate(names.status(), "the certificate says not whose it is");
  }
  ASSIGN_OR_RETURN(const Validity validity, ValidityOf(*certificate));
  return Peer{std::move(names->identity), std::move(names->hosts), std::move(fingerprint),
              validity};
}

}  // namespace monsoon
