#include "common/security/credential_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "common/security/peer_verifier.h"
#include "common/security/secret_file.h"
#include "common/security/signing_request.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class CredentialFileTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(MakeSecretFolder(folder_)); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Credential MakeCredential(const CertificateAuthority& authority) {
    const Identity worker = {Role::kWorker, "7", authority.facts().cluster, ""};
    const PrivateKey key = PrivateKey::Generate();
    return {key, *authority.Sign(*MakeSigningRequest(key, worker, {}), {worker}, kNow),
            authority.certificate()};
  }
  void ExpectRefused(const std::string& content, const std::string& reason) {
    ASSERT_OK(WriteSecretFile(path_, content));
    EXPECT_THAT(LoadCredential(path_).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(path_), HasSubstr(reason))));
  }

  const std::string folder_ = ::testing::TempDir() + "/" + monsoon::testing::UniqueName();
  const std::string path_ = folder_ + "/identity.pem";
  CertificateAuthority authority_ = *CertificateAuthority::Create("lab", kNow);
};

TEST_F(CredentialFileTest, ComesBack) {
  const Credential saved = MakeCredential(authority_);
  ASSERT_OK(SaveCredential(path_, saved));
  ASSERT_OK_AND_ASSIGN(const Credential loaded, LoadCredential(path_));
  EXPECT_EQ(loaded.key.Fingerprint(), saved.key.Fingerprint());
  EXPECT_EQ(loaded.certificate, saved.certificate);
  EXPECT_EQ(loaded.authority, saved.authority);

  ASSERT_OK(SaveAuthority(folder_ + "/authority.pem", authority_));
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority again, LoadAuthority(folder_ + "/authority.pem"));
  EXPECT_EQ(again.certificate(), authority_.certificate());
  EXPECT_EQ(again.key().Fingerprint(), authority_.facts().fingerprint);
}

TEST_F(CredentialFileTest, PartsOfDifferentPairsAreRefused) {
  const Credential one = MakeCredential(authority_);
  const Credential two = MakeCredential(authority_);
  const Credential other = MakeCredential(*CertificateAuthority::Create("lab", kNow));
  ExpectRefused(one.key.ToPem() + two.certificate + one.authority, "was renewed alone");
  ExpectRefused(one.key.ToPem() + one.certificate + other.authority, "not signed by the authority");
  ExpectRefused(one.key.ToPem() + one.authority + one.certificate, "no identity");
  EXPECT_THAT(SaveCredential(path_, {one.key, two.certificate, one.authority}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was renewed alone")));
}

TEST_F(CredentialFileTest, AFileThatIsNotWholeIsRefused) {
  const Credential one = MakeCredential(authority_);
  ExpectRefused("", "no private key");
  ExpectRefused(one.certificate + one.authority, "no private key");
  ExpectRefused(one.key.ToPem(), "has 0 certificates, not 2");
  ExpectRefused(one.key.ToPem() + one.certificate, "has 1 certificates, not 2");
  const std::string whole = one.key.ToPem() + one.certificate + one.authority;
  ExpectRefused(whole.substr(0, whole.size() - 30), "has 1 certificates, not 2");
  EXPECT_THAT(LoadAuthority(path_).status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                      HasSubstr("not that of a cluster's")));
}

TEST_F(CredentialFileTest, OneThatOthersCanReadIsRefused) {
  ASSERT_OK(SaveCredential(path_, MakeCredential(authority_)));
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_THAT(LoadCredential(path_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600")));
  EXPECT_THAT(LoadCredential(folder_ + "/none").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

}  // namespace
}  // namespace monsoon
