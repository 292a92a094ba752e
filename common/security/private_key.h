// PrivateKey: an elliptic curve key on P-256, which signs for one identity and never leaves the
// host that made it.
//
// Copies share the key, which never changes. Thread safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace monsoon {

class PrivateKey {
 public:
  static PrivateKey Generate();
  // The first private key in the PEM text, unencrypted. InvalidArgument where there is none, or
  // where it is of another kind. Errors quote nothing of the text.
  static absl::StatusOr<PrivateKey> FromPem(absl::string_view pem);

  // PKCS #8, unencrypted: for a file that only its owner can read (secret_file.h).
  std::string ToPem() const;
  // SHA-256 of its public half's SubjectPublicKeyInfo, 32 bytes: what a member is known by.
  std::string Fingerprint() const;

  const evp_pkey_st& key() const { return *key_; }
  evp_pkey_st* mutable_key() const { return key_.get(); }  // as OpenSSL's signing wants it

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

}  // namespace monsoon
