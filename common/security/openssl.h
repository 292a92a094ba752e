// What the sources of this folder share of OpenSSL: owners of its objects, its errors, PEM.
// Only they include it; the folder's other headers do without OpenSSL's.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "openssl/asn1.h"
#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"

namespace monsoon {

template <auto Free>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

using OwnedBio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using OwnedCertificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using OwnedExtension = std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>>;
using OwnedNames = std::unique_ptr<GENERAL_NAMES, FreeWith<GENERAL_NAMES_free>>;
using OwnedRequest = std::unique_ptr<X509_REQ, FreeWith<X509_REQ_free>>;
using OwnedTime = std::unique_ptr<ASN1_TIME, FreeWith<ASN1_STRING_free>>;

// `code` with `what` and OpenSSL's oldest reason, whose queue it empties.
absl::Status OpensslError(absl::StatusCode code, absl::string_view what);

// Reads `text`, which it does not copy.
OwnedBio ReadFrom(absl::string_view text);
// What was written into a BIO_s_mem().
std::string TextOf(BIO* bio);

// Certificates and requests that peers send have no more bytes.
inline constexpr size_t kMostPemBytes = 64 << 10;

// The first certificate of the PEM text, whatever stands around it.
absl::StatusOr<OwnedCertificate> ReadCertificate(absl::string_view pem);
// As there; of a request that is signed by its own key, which is on P-256.
absl::StatusOr<OwnedRequest> ReadRequest(absl::string_view pem);
std::string WritePem(const X509& certificate);

// SHA-256 of the key's SubjectPublicKeyInfo, 32 bytes.
std::string FingerprintOf(const EVP_PKEY& key);
// An elliptic curve key on P-256.
bool IsP256(const EVP_PKEY& key);

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time);

}  // namespace monsoon
