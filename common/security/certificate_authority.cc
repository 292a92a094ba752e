#include "common/security/certificate_authority.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random_bytes.h"
#include "common/base/status.h"
#include "common/security/alternative_names.h"
#include "common/security/openssl.h"
#include "common/security/signing_request.h"
#include "openssl/bn.h"
#include "openssl/objects.h"

namespace monsoon {
namespace {

constexpr absl::string_view kAuthorityName = "Monsoon certificate authority";
// RFC 5280 wants a positive number of at most 20 bytes.
constexpr size_t kSerialBytes = 16;

void SetSerial(X509* certificate) {
  std::string bytes = RandomBytes(kSerialBytes);
  bytes[0] = static_cast<char>((bytes[0] & 0x7f) | 0x40);
  BIGNUM* const number = BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()), nullptr);
  CHECK(number != nullptr &&
        BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr);
  BN_free(number);
}

void SetValidity(absl::Time begin, absl::Time end, X509* certificate) {
  const OwnedTime first(ASN1_TIME_set(nullptr, absl::ToTimeT(begin)));
  const OwnedTime last(ASN1_TIME_set(nullptr, absl::ToTimeT(end)));
  CHECK(first != nullptr && last != nullptr);
  CHECK(X509_set1_notBefore(certificate, first.get()) == 1);
  CHECK(X509_set1_notAfter(certificate, last.get()) == 1);
}

// `name` is what people see; nothing goes by it.
void SetSubject(absl::string_view cluster, absl::string_view name, X509* certificate) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const auto add = [&](int nid, absl::string_view text) {
    CHECK(X509_NAME_add_entry_by_NID(subject, nid, MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()), -1, 0) == 1);
  };
  add(NID_organizationName, cluster);
  add(NID_commonName, name);
}

// `value` is written as in OpenSSL's configuration. `issuer` has its own key identifier by then.
void AddExtension(int nid, const std::string& value, X509* issuer, X509* certificate) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OwnedExtension extension(X509V3_EXT_nconf_nid(nullptr, &context, nid, value.c_str()));
  CHECK(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

OwnedCertificate NewCertificate() {
  OwnedCertificate certificate(X509_new());
  CHECK(certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1);
  SetSerial(certificate.get());
  return certificate;
}

}  // namespace

absl::StatusOr<CertificateAuthority> CertificateAuthority::Create(absl::string_view cluster,
                                                                  absl::Time now) {
  RETURN_IF_ERROR(CheckIdentity({Role::kCoordinator, "0", std::string(cluster), ""}));
  const PrivateKey key = PrivateKey::Generate();
  const OwnedCertificate certificate = NewCertificate();
  X509* const own = certificate.get();
  SetValidity(now - kBackdating, now + kAuthorityLifetime, own);
  SetSubject(cluster, kAuthorityName, own);
  CHECK(X509_set_issuer_name(own, X509_get_subject_name(own)) == 1);
  CHECK(X509_set_pubkey(own, key.mutable_key()) == 1);
  AddExtension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0", own, own);
  AddExtension(NID_key_usage, "critical,keyCertSign", own, own);
  AddExtension(NID_name_constraints, absl::StrCat("critical,permitted;URI:", cluster), own, own);
  AddExtension(NID_subject_key_identifier, "hash", own, own);
  CHECK(X509_sign(own, key.mutable_key(), EVP_sha256()) > 0);
  return FromPem(key, WritePem(*certificate));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::FromPem(const PrivateKey& key,
                                                                   absl::string_view certificate) {
  ASSIGN_OR_RETURN(const OwnedCertificate own, ReadCertificate(certificate));
  ASSIGN_OR_RETURN(Authority facts, ReadAuthority(certificate));
  if (facts.fingerprint != key.Fingerprint()) {
    return absl::InvalidArgumentError(absl::StrCat("the certificate of the authority of cluster ",
                                                   facts.cluster,
                                                   " is of another key than the one beside it"));
  }
  return CertificateAuthority(key, std::move(facts), WritePem(*own));
}

absl::Status CertificateAuthority::CheckGrant(absl::string_view request, const Grant& grant,
                                              absl::Time now) const {
  if (grant.identity.cluster != facts_.cluster) {
    return absl::InvalidArgumentError(absl::StrCat("the authority of cluster ", facts_.cluster,
                                                   " signs no member of cluster ",
                                                   grant.identity.cluster));
  }
  if (now >= facts_.validity.end) {
    return absl::FailedPreconditionError(
        absl::StrCat("the authority of cluster ", facts_.cluster, " ended at ",
                     absl::FormatTime(absl::RFC3339_sec, facts_.validity.end, absl::UTCTimeZone()),
                     "; make another one"));
  }
  ASSIGN_OR_RETURN(const SigningRequest asked, ReadSigningRequest(request));
  if (asked.identity != grant.identity) {
    return absl::PermissionDeniedError(absl::StrCat("the request asks for ", ToUri(asked.identity),
                                                    ", but its sender may be ",
                                                    ToUri(grant.identity), " only"));
  }
  for (const std::string& host : asked.hosts) {
    if (std::ranges::find(grant.hosts, host) == grant.hosts.end()) {
      return absl::PermissionDeniedError(absl::StrCat("the request of ", MemberName(grant.identity),
                                                      " asks for the host's name ", host,
                                                      ", which is not its own"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CertificateAuthority::Sign(absl::string_view request,
                                                       const Grant& grant, absl::Time now) const {
  ASSIGN_OR_RETURN(const OwnedExtension names, MakeExtension({grant.identity, grant.hosts}));
  RETURN_IF_ERROR(CheckGrant(request, grant, now));
  ASSIGN_OR_RETURN(const OwnedRequest asked, ReadRequest(request));
  ASSIGN_OR_RETURN(const OwnedCertificate issuer, ReadCertificate(certificate_));
  const OwnedCertificate certificate = NewCertificate();
  X509* const member = certificate.get();
  SetValidity(now - kBackdating, std::min(now + grant.lifetime, facts_.validity.end), member);
  SetSubject(facts_.cluster, MemberName(grant.identity), member);
  CHECK(X509_set_issuer_name(member, X509_get_subject_name(issuer.get())) == 1);
  CHECK(X509_set_pubkey(member, X509_REQ_get0_pubkey(asked.get())) == 1);
  AddExtension(NID_basic_constraints, "critical,CA:FALSE", issuer.get(), member);
  AddExtension(NID_key_usage, "critical,digitalSignature", issuer.get(), member);
  AddExtension(NID_ext_key_usage, "serverAuth,clientAuth", issuer.get(), member);
  AddExtension(NID_subject_key_identifier, "hash", issuer.get(), member);
  AddExtension(NID_authority_key_identifier, "keyid:always", issuer.get(), member);
  CHECK(X509_add_ext(member, names.get(), -1) == 1);
  CHECK(X509_sign(member, key_.mutable_key(), EVP_sha256()) > 0);
  return WritePem(*certificate);
}

}  // namespace monsoon
