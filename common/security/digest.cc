#include "common/security/digest.h"

#include "common/base/check.h"
#include "openssl/crypto.h"
#include "openssl/evp.h"

namespace monsoon {

std::string Sha256(absl::string_view data) {
  std::string digest(kSha256Bytes, '\0');
  unsigned bytes = 0;
  CHECK(EVP_Digest(data.data(), data.size(), reinterpret_cast<unsigned char*>(digest.data()),
                   &bytes, EVP_sha256(), nullptr) == 1);
  CHECK_EQ(bytes, kSha256Bytes);
  return digest;
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace monsoon
