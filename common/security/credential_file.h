// Credentials on the disk: a private key with the certificate of its identity and that of the
// cluster's authority, and the authority's own key with its certificate. Each is one file, whose
// rename replaces key and certificate together: no crash leaves a pair of which only one half was
// renewed.
//
// The file is PEM text: the private key (PKCS #8), its certificate, and the authority's
// certificate where it is another. Its modes are those of secret_file.h.
//
// Plain functions. Block on the disk.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/security/certificate_authority.h"
#include "common/security/private_key.h"
#include "common/security/secret_file.h"

namespace monsoon {

// Who this process is.
struct Credential {
  PrivateKey key;
  std::string certificate;  // PEM
  std::string authority;    // PEM, of the cluster's authority
};

// AlreadyExists as WriteSecretFile.
absl::Status SaveCredential(const std::string& path, const Credential& credential,
                            Existing existing = Existing::kReplace);
// NotFound where there is no file. FailedPrecondition where others can read it, and where its
// parts do not belong together: another key's certificate, or another authority's. Whether it has
// ended is not looked at (PeerVerifier::Verify).
absl::StatusOr<Credential> LoadCredential(const std::string& path);

// AlreadyExists where there is a file: an authority's key is nowhere else.
absl::Status SaveAuthority(const std::string& path, const CertificateAuthority& authority);
// As above.
absl::StatusOr<CertificateAuthority> LoadAuthority(const std::string& path);

}  // namespace monsoon
