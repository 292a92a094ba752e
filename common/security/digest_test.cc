#include "common/security/digest.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

// The examples of FIPS 180-4.
TEST(DigestTest, IsSha256) {
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(absl::BytesToHexString(Sha256("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(DigestTest, SameSecretSeesEachByteAndTheLength) {
  const std::string secret = Sha256("secret");
  EXPECT_TRUE(SameSecret(secret, secret));
  EXPECT_TRUE(SameSecret("", ""));
  for (size_t i = 0; i < secret.size(); ++i) {
    std::string other = secret;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(SameSecret(secret, other)) << i;
    EXPECT_FALSE(SameSecret(secret, secret.substr(0, i))) << i;
    EXPECT_FALSE(SameSecret(secret.substr(0, i), secret)) << i;
  }
}

}  // namespace
}  // namespace monsoon
