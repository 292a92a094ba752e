#include "common/security/openssl.h"

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/security/digest.h"
#include "openssl/core_names.h"
#include "openssl/err.h"
#include "openssl/objects.h"
#include "openssl/pem.h"

namespace monsoon {

absl::Status OpensslError(absl::StatusCode code, absl::string_view what) {
  const uint64_t error = ERR_get_error();
  const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return absl::Status(
      code, reason == nullptr ? std::string(what) : absl::StrCat(what, " (", reason, ")"));
}

OwnedBio ReadFrom(absl::string_view text) {
  OwnedBio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  CHECK(bio != nullptr);
  return bio;
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const auto bytes = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(bytes));
}

absl::StatusOr<OwnedCertificate> ReadCertificate(absl::string_view pem) {
  if (pem.size() > kMostPemBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a certificate of ", pem.size(), " bytes is too long"));
  }
  const OwnedBio bio = ReadFrom(pem);
  OwnedCertificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) {
    return OpensslError(absl::StatusCode::kInvalidArgument, "not a certificate in PEM form");
  }
  return certificate;
}

absl::StatusOr<OwnedRequest> ReadRequest(absl::string_view pem) {
  if (pem.size() > kMostPemBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request for a certificate of ", pem.size(), " bytes is too long"));
  }
  const OwnedBio bio = ReadFrom(pem);
  OwnedRequest request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  EVP_PKEY* const key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  if (key == nullptr) {
    return OpensslError(absl::StatusCode::kInvalidArgument,
                        "not a request for a certificate in PEM form");
  }
  if (!IsP256(*key)) {
    return absl::InvalidArgumentError("the request's key is not an elliptic curve key on P-256");
  }
  if (X509_REQ_verify(request.get(), key) != 1) {
    return OpensslError(absl::StatusCode::kInvalidArgument,
                        "the request is not signed by the key that it names");
  }
  return request;
}

std::string WritePem(const X509& certificate) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  CHECK(bio != nullptr && PEM_write_bio_X509(bio.get(), &certificate) == 1);
  return TextOf(bio.get());
}

std::string FingerprintOf(const EVP_PKEY& key) {
  unsigned char* der = nullptr;
  const int bytes = i2d_PUBKEY(&key, &der);
  CHECK(bytes > 0);
  std::string fingerprint =
      Sha256(absl::string_view(reinterpret_cast<const char*>(der), static_cast<size_t>(bytes)));
  OPENSSL_free(der);
  return fingerprint;
}

bool IsP256(const EVP_PKEY& key) {
  char group[64];
  return EVP_PKEY_is_a(&key, "EC") == 1 &&
         EVP_PKEY_get_utf8_string_param(&key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group),
                                        nullptr) == 1 &&
         absl::string_view(group) == SN_X9_62_prime256v1;
}

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    return OpensslError(absl::StatusCode::kInvalidArgument, "a time that cannot be read");
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

}  // namespace monsoon
