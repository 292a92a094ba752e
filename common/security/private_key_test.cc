#include "common/security/private_key.h"

#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "openssl/evp.h"
#include "openssl/pem.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string PemOf(EVP_PKEY* key) {
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  char* data = nullptr;
  const auto bytes = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<size_t>(bytes));
  BIO_free_all(bio);
  EVP_PKEY_free(key);
  return pem;
}

TEST(PrivateKeyTest, ComesBackFromItsText) {
  const PrivateKey key = PrivateKey::Generate();
  const std::string pem = key.ToPem();
  EXPECT_THAT(pem, StartsWith("-----BEGIN PRIVATE KEY-----\n"));
  ASSERT_OK_AND_ASSIGN(const PrivateKey again, PrivateKey::FromPem("# words\n" + pem));
  EXPECT_EQ(again.Fingerprint(), key.Fingerprint());
  EXPECT_EQ(again.ToPem(), pem);
  EXPECT_EQ(key.Fingerprint().size(), 32u);
}

TEST(PrivateKeyTest, EachIsAnother) {
  EXPECT_NE(PrivateKey::Generate().Fingerprint(), PrivateKey::Generate().Fingerprint());
}

TEST(PrivateKeyTest, OthersAreRefused) {
  const std::string pem = PrivateKey::Generate().ToPem();
  for (const std::string& text : {std::string(), std::string("key"), pem.substr(0, 100)}) {
    EXPECT_THAT(PrivateKey::FromPem(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no private key")));
  }
  EXPECT_THAT(PrivateKey::FromPem(PemOf(EVP_EC_gen("P-384"))).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not an elliptic curve key")));
  EXPECT_THAT(PrivateKey::FromPem(PemOf(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"))).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of type ED25519")));
}

// A private key never gets into an error, and so not into a log.
TEST(PrivateKeyTest, ErrorsQuoteNothing) {
  const std::string text = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
  EXPECT_THAT(PrivateKey::FromPem(text).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("c2Vj"))));
}

}  // namespace
}  // namespace monsoon
