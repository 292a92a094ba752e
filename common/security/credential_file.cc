#include "common/security/credential_file.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/security/peer_verifier.h"
#include "common/security/secret_file.h"

namespace monsoon {
namespace {

constexpr absl::string_view kEnd = "-----END CERTIFICATE-----\n";
constexpr absl::string_view kBegin = "-----BEGIN CERTIFICATE-----\n";

// The certificates in the text, each whole.
std::vector<std::string> CertificatesIn(absl::string_view text) {
  std::vector<std::string> certificates;
  size_t begin = text.find(kBegin);
  while (begin != absl::string_view::npos) {
    const size_t end = text.find(kEnd, begin);
    if (end == absl::string_view::npos) {
      return certificates;
    }
    certificates.emplace_back(text.substr(begin, end + kEnd.size() - begin));
    begin = text.find(kBegin, end);
  }
  return certificates;
}

struct KeyFile {
  PrivateKey key;
  std::vector<std::string> certificates;
};

absl::Status Unusable(const std::string& path, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(
      path, why, "; put the file back as it was, or ask for a new token and join again"));
}

absl::StatusOr<KeyFile> ReadKeyFile(const std::string& path, size_t certificates) {
  ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(path));
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(text);
  if (!key.ok()) {
    return Unusable(path, absl::StrCat(": ", key.status().message()));
  }
  KeyFile file = {*std::move(key), CertificatesIn(text)};
  if (file.certificates.size() != certificates) {
    return Unusable(
        path, absl::StrCat(" has ", file.certificates.size(), " certificates, not ", certificates));
  }
  return file;
}

// That the authority has signed the certificate, whenever that was.
absl::Status CheckSigned(const Credential& credential) {
  ASSIGN_OR_RETURN(const PeerVerifier verifier, PeerVerifier::Create(credential.authority));
  ASSIGN_OR_RETURN(const Peer peer, ReadPeer(credential.certificate));
  return verifier.Verify(credential.certificate, peer.validity.end).status();
}

absl::Status Check(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : Unusable(path, absl::StrCat(": ", status.message()));
}

}  // namespace

absl::Status SaveCredential(const std::string& path, const Credential& credential,
                            Existing existing) {
  RETURN_IF_ERROR(CheckPair(credential.key, credential.certificate));
  RETURN_IF_ERROR(CheckSigned(credential));
  return WriteSecretFile(
      path, absl::StrCat(credential.key.ToPem(), credential.certificate, credential.authority),
      existing);
}

absl::StatusOr<Credential> LoadCredential(const std::string& path) {
  ASSIGN_OR_RETURN(KeyFile file, ReadKeyFile(path, 2));
  Credential credential = {std::move(file.key), std::move(file.certificates[0]),
                           std::move(file.certificates[1])};
  RETURN_IF_ERROR(Check(path, CheckPair(credential.key, credential.certificate)));
  RETURN_IF_ERROR(Check(path, CheckSigned(credential)));
  return credential;
}

absl::Status SaveAuthority(const std::string& path, const CertificateAuthority& authority) {
  return WriteSecretFile(path, absl::StrCat(authority.key().ToPem(), authority.certificate()),
                         Existing::kKeep);
}

absl::StatusOr<CertificateAuthority> LoadAuthority(const std::string& path) {
  ASSIGN_OR_RETURN(const KeyFile file, ReadKeyFile(path, 1));
  absl::StatusOr<CertificateAuthority> authority =
      CertificateAuthority::FromPem(file.key, file.certificates[0]);
  RETURN_IF_ERROR(Check(path, authority.status()));
  return authority;
}

}  // namespace monsoon
