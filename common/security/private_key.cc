#include "common/security/private_key.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/security/openssl.h"
#include "openssl/ec.h"
#include "openssl/pem.h"

namespace monsoon {
namespace {

// A password's answer: none. Without it OpenSSL would ask at the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

}  // namespace

PrivateKey PrivateKey::Generate() {
  OwnedKey key(EVP_EC_gen("P-256"));
  CHECK(key != nullptr);
  return PrivateKey(std::shared_ptr<EVP_PKEY>(std::move(key)));
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(absl::string_view pem) {
  const OwnedBio bio = ReadFrom(pem.substr(0, kMostPemBytes));
  OwnedKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return OpensslError(absl::StatusCode::kInvalidArgument, "no private key in PEM form");
  }
  if (!IsP256(*key)) {
    return absl::InvalidArgumentError(absl::StrCat("the private key is of type ",
                                                   EVP_PKEY_get0_type_name(key.get()),
                                                   ", not an elliptic curve key on P-256"));
  }
  return PrivateKey(std::shared_ptr<EVP_PKEY>(std::move(key)));
}

std::string PrivateKey::ToPem() const {
  // The buffer is wiped when it is freed.
  const OwnedBio bio(BIO_new(BIO_s_secmem()));
  CHECK(bio != nullptr && PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0,
                                                        nullptr, nullptr) == 1);
  return TextOf(bio.get());
}

std::string PrivateKey::Fingerprint() const { return FingerprintOf(*key_); }

}  // namespace monsoon
