#include "common/security/credential_store.h"

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>

#include "common/security/certificate.h"
#include "common/security/peer_verifier.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class CredentialStoreTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }

  static mode_t ModeOf(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 07777u;
  }
  static std::string FingerprintOf(const absl::StatusOr<Credential>& credential) {
    return credential.ok() ? credential->key.Fingerprint() : credential.status().ToString();
  }

  const std::string root_ = ::testing::TempDir() + "/" + monsoon::testing::UniqueName();
  const CredentialStore store_{root_ + "/state/monsoon/credentials"};
  const CertificateAuthority lab_ = *CertificateAuthority::Create("lab", kNow);
  const CertificateAuthority other_lab_ = *CertificateAuthority::Create("lab", kNow);
  const Credential worker_ = *IssueLocal(lab_, {Role::kWorker, "7", "lab", ""}, {"beta"}, kNow);
};

TEST_F(CredentialStoreTest, TheFolderIsWhereTheVariablesSay) {
  std::map<std::string, std::string> variables;
  const auto find = [&] {
    const absl::StatusOr<CredentialStore> store =
        CredentialStore::Find([&](const std::string& name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        });
    return store.ok() ? store->folder() : std::string(store.status().message());
  };
  EXPECT_THAT(find(), AllOf(HasSubstr("set MONSOON_CREDENTIALS"), HasSubstr("HOME")));
  variables["HOME"] = "relative";
  EXPECT_THAT(find(), HasSubstr("set MONSOON_CREDENTIALS"));
  variables["HOME"] = "/h";
  EXPECT_EQ(find(), "/h/.local/state/monsoon/credentials");
  variables["XDG_STATE_HOME"] = "not/absolute";
  EXPECT_EQ(find(), "/h/.local/state/monsoon/credentials");
  variables["XDG_STATE_HOME"] = "/x";
  EXPECT_EQ(find(), "/x/monsoon/credentials");
  variables["MONSOON_CREDENTIALS"] = "/c/d";
  EXPECT_EQ(find(), "/c/d");
  variables["MONSOON_CREDENTIALS"] = "";
  EXPECT_EQ(find(), "/x/monsoon/credentials");
}

TEST_F(CredentialStoreTest, ComesBackAndNobodyElseCanRead) {
  ASSERT_OK_AND_ASSIGN(std::vector<std::string> clusters, store_.Clusters());
  EXPECT_THAT(clusters, IsEmpty());
  EXPECT_THAT(store_.Member("lab").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/lab/member.pem")));
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  EXPECT_EQ(ModeOf(store_.folder()), 0700u);
  EXPECT_EQ(ModeOf(store_.folder() + "/lab"), 0700u);
  EXPECT_EQ(ModeOf(store_.AuthorityPath("lab")), 0600u);
  EXPECT_EQ(ModeOf(store_.MemberPath("lab")), 0600u);
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority authority, store_.Authority("lab"));
  EXPECT_EQ(authority.facts().fingerprint, lab_.facts().fingerprint);
  EXPECT_EQ(FingerprintOf(store_.Member("lab")), worker_.key.Fingerprint());

  const CertificateAuthority attic = *CertificateAuthority::Create("attic", kNow);
  ASSERT_OK(store_.Save(attic, OtherAuthority::kRefuse));
  std::filesystem::create_directory(store_.folder() + "/empty");
  ASSERT_OK_AND_ASSIGN(clusters, store_.Clusters());
  EXPECT_THAT(clusters, ElementsAre("attic", "lab"));
}

TEST_F(CredentialStoreTest, ASecondClusterOfTheNameIsRefusedUnlessItReplaces) {
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  EXPECT_THAT(store_.Save(other_lab_, OtherAuthority::kRefuse),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("another cluster that is called lab"),
                             HasSubstr("--replace"), HasSubstr("MONSOON_CREDENTIALS"))));
  EXPECT_EQ(FingerprintOf(store_.Member("lab")), worker_.key.Fingerprint());
  EXPECT_THAT(store_.Authority("lab").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("authority.pem")));
  // A member of the other authority, where the first one's own is kept.
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  const Credential other = *IssueLocal(other_lab_, {Role::kViewer, "ada", "lab", ""}, {}, kNow);
  EXPECT_THAT(store_.Save(other, OtherAuthority::kRefuse),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--replace")));

  ASSERT_OK(store_.Save(other, OtherAuthority::kSetAside));
  EXPECT_EQ(FingerprintOf(store_.Member("lab")), other.key.Fingerprint());
  // Nothing of the first authority is left there, and nothing of it is lost.
  EXPECT_THAT(store_.Authority("lab").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("authority.pem")));
  std::string aside;
  for (const auto& entry : std::filesystem::directory_iterator(store_.folder())) {
    const std::string name = entry.path().filename().string();
    aside = name == "lab" ? aside : name;
  }
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority kept,
                       LoadAuthority(store_.folder() + "/" + aside + "/authority.pem"));
  EXPECT_EQ(kept.facts().fingerprint, lab_.facts().fingerprint);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> clusters, store_.Clusters());
  EXPECT_THAT(clusters, ElementsAre("lab"));
}

TEST_F(CredentialStoreTest, WhatOthersCanReadOrIsOfAnotherNameIsRefused) {
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  std::filesystem::copy(store_.folder() + "/lab", store_.folder() + "/attic");
  EXPECT_THAT(store_.Member("attic").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is of cluster lab")));
  ASSERT_EQ(chmod(store_.MemberPath("lab").c_str(), 0644), 0);
  EXPECT_THAT(store_.Member("lab").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600")));
  // It is not replaced by accident either.
  EXPECT_THAT(store_.Save(lab_, OtherAuthority::kSetAside),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600")));
  EXPECT_THAT(store_.Member("../lab").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cluster")));
}

TEST_F(CredentialStoreTest, WhoHasTheAuthorityIsWhoeverIsWanted) {
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  ASSERT_OK_AND_ASSIGN(const Credential ps,
                       store_.Obtain({Role::kPs, "1", "lab", ""}, {"alpha", "10.0.0.1"}, kNow));
  ASSERT_OK_AND_ASSIGN(const PeerVerifier verifier, PeerVerifier::Create(lab_.certificate()));
  ASSERT_OK_AND_ASSIGN(const Peer peer, verifier.Verify(ps.certificate, kNow));
  EXPECT_EQ(ToUri(peer.identity), "monsoon://lab/ps/1");
  EXPECT_THAT(peer.hosts, ElementsAre("alpha", "10.0.0.1"));
  EXPECT_EQ(peer.key_fingerprint, ps.key.Fingerprint());
  EXPECT_THAT(store_.Member("lab").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("")));
  EXPECT_OK(store_.Obtain({Role::kOperator, "", "lab", ""}, {}, kNow));
}

TEST_F(CredentialStoreTest, WhatTheAuthorityMadeIsKeptForHalfOfItsTime) {
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  const auto obtain = [&](absl::Time now) {
    const absl::StatusOr<std::string> path =
        store_.ObtainFile({Role::kPs, "1", "lab", ""}, {}, now);
    EXPECT_EQ(path.value_or("none"), store_.folder() + "/lab/ps-1.pem");
    EXPECT_EQ(ModeOf(*path), 0600u);
    return FingerprintOf(LoadCredential(*path));
  };
  const std::string first = obtain(kNow);
  EXPECT_EQ(obtain(kNow + kMemberLifetime / 2 - absl::Minutes(10)), first);
  const std::string second = obtain(kNow + kMemberLifetime / 2 + absl::Minutes(10));
  EXPECT_NE(second, first);
  // Another authority of the name has taken the first one's place.
  ASSERT_OK(store_.Save(other_lab_, OtherAuthority::kSetAside));
  EXPECT_NE(obtain(kNow + kMemberLifetime / 2 + absl::Minutes(10)), second);
}

TEST_F(CredentialStoreTest, WhoHasJoinedHasTheFileThatItGot) {
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  EXPECT_EQ(store_.ObtainFile({Role::kWorker, "7", "lab", ""}, {}, kNow).value_or("none"),
            store_.MemberPath("lab"));
}

TEST_F(CredentialStoreTest, WhoHasJoinedIsWhatHeJoinedAs) {
  EXPECT_THAT(store_.Obtain({Role::kWorker, "7", "lab", ""}, {}, kNow).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("no credential for cluster lab"),
                             HasSubstr("token create --role=worker"), HasSubstr("join"))));
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  const auto as = [&](Role role, const std::string& name, absl::Time now = kNow) {
    return store_.Obtain({role, name, "lab", ""}, {}, now);
  };
  EXPECT_EQ(FingerprintOf(as(Role::kWorker, "7")), worker_.key.Fingerprint());
  EXPECT_EQ(FingerprintOf(as(Role::kWorker, "")), worker_.key.Fingerprint());
  EXPECT_THAT(as(Role::kWorker, "8").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("is worker/7 of cluster lab, not worker/8"),
                             HasSubstr("MONSOON_CREDENTIALS"))));
  EXPECT_THAT(as(Role::kPs, "7").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("token for a ps")));
  EXPECT_THAT(as(Role::kWorker, "7", kNow + absl::Hours(24 * 8)).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ended"), HasSubstr("join again"))));
}

}  // namespace
}  // namespace monsoon
