// SigningRequest: what the holder of a new key asks a certificate authority to certify (PKCS #10).
// It proves that its sender has the key, and nothing else: the authority decides by itself for
// whom it signs.
//
// Plain functions. Thread safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/security/identity.h"
#include "common/security/private_key.h"

namespace monsoon {

struct SigningRequest {
  Identity identity;
  std::vector<std::string> hosts;  // names and IP addresses
  std::string key_fingerprint;     // of the key that it proves
};

// In PEM form. InvalidArgument where the identity or a host's name is none.
absl::StatusOr<std::string> MakeSigningRequest(const PrivateKey& key, const Identity& identity,
                                               const std::vector<std::string>& hosts);

// InvalidArgument for what is no request, has no identity or several, is not signed by its key, or
// has a key of another kind than PrivateKey.
absl::StatusOr<SigningRequest> ReadSigningRequest(absl::string_view pem);

}  // namespace monsoon
