#include "common/security/credential_store.h"

#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
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
using ::testing::Each;
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
  // Of the files of cluster lab.
  std::vector<std::string> Keys(std::optional<Role> role = std::nullopt) const {
    std::vector<std::string> keys;
    const absl::StatusOr<std::vector<KeptMember>> members = store_.Members("lab", role);
    EXPECT_OK(members.status());
    for (const KeptMember& member : members.value_or(std::vector<KeptMember>())) {
      keys.push_back(member.peer.key_fingerprint);
    }
    return keys;
  }
  std::string PathOf(Role role, const std::string& name) const {
    return store_.MemberPath({role, name, "lab", ""});
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
  EXPECT_THAT(Keys(), IsEmpty());
  EXPECT_FALSE(store_.Has("lab"));
  EXPECT_THAT(store_.AuthorityCertificate("lab").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/lab/authority.pem")));
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  EXPECT_TRUE(store_.Has("lab"));
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  EXPECT_EQ(ModeOf(store_.folder()), 0700u);
  EXPECT_EQ(ModeOf(store_.folder() + "/lab"), 0700u);
  EXPECT_EQ(ModeOf(store_.AuthorityPath("lab")), 0600u);
  EXPECT_EQ(ModeOf(PathOf(Role::kWorker, "7")), 0600u);
  ASSERT_OK_AND_ASSIGN(const CertificateAuthority authority, store_.Authority("lab"));
  EXPECT_EQ(authority.facts().fingerprint, lab_.facts().fingerprint);
  EXPECT_THAT(Keys(), ElementsAre(worker_.key.Fingerprint()));
  EXPECT_EQ(store_.AuthorityCertificate("lab").value(), lab_.certificate());

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
  EXPECT_THAT(Keys(), ElementsAre(worker_.key.Fingerprint()));
  EXPECT_EQ(store_.AuthorityCertificate("lab").value(), lab_.certificate());
  EXPECT_THAT(store_.Authority("lab").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("authority.pem")));
  // A member of the other authority, where the first one's own is kept.
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  const Credential other = *IssueLocal(other_lab_, {Role::kViewer, "ada", "lab", ""}, {}, kNow);
  EXPECT_THAT(store_.Save(other, OtherAuthority::kRefuse),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--replace")));

  ASSERT_OK(store_.Save(other, OtherAuthority::kSetAside));
  EXPECT_THAT(Keys(), ElementsAre(other.key.Fingerprint()));
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
  EXPECT_THAT(store_.Members("attic").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is of cluster lab")));
  std::filesystem::copy(PathOf(Role::kWorker, "7"), PathOf(Role::kWorker, "8"));
  EXPECT_THAT(store_.ObtainFile({Role::kWorker, "8", "lab", ""}, {}, kNow).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker-8.pem is of worker/7"), HasSubstr("worker-7.pem"))));
  std::filesystem::remove(PathOf(Role::kWorker, "8"));
  ASSERT_EQ(chmod(PathOf(Role::kWorker, "7").c_str(), 0644), 0);
  EXPECT_THAT(store_.Members("lab").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600")));
  // It is not replaced by accident either.
  EXPECT_THAT(store_.Save(lab_, OtherAuthority::kSetAside),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600")));
  EXPECT_THAT(store_.Members("../lab").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cluster")));
}

TEST_F(CredentialStoreTest, AnAuthorityIsNeverReplacedByAccident) {
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  EXPECT_THAT(store_.Save(lab_, OtherAuthority::kSetAside),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("authority.pem")));
  // Of several at once one makes it, as of tasks that start together.
  for (int round = 0; round < 20; ++round) {
    const CredentialStore store(root_ + "/" + absl::StrCat(round));
    std::vector<std::thread> threads;
    std::atomic<int> made = 0;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        const CertificateAuthority mine = *CertificateAuthority::Create("lab", kNow);
        const absl::Status status = store.Save(mine, OtherAuthority::kRefuse);
        made += status.ok() ? 1 : 0;
        EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status)) << status;
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(made, 1);
    EXPECT_OK(store.Authority("lab"));
  }
}

TEST_F(CredentialStoreTest, WhoHasTheAuthorityIsWhoeverIsWanted) {
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       store_.ObtainFile({Role::kPs, "1", "lab", ""}, {"alpha", "10.0.0.1"}, kNow));
  EXPECT_EQ(path, PathOf(Role::kPs, "1"));
  ASSERT_OK_AND_ASSIGN(const Credential ps, LoadCredential(path));
  ASSERT_OK_AND_ASSIGN(const PeerVerifier verifier, PeerVerifier::Create(lab_.certificate()));
  ASSERT_OK_AND_ASSIGN(const Peer peer, verifier.Verify(ps.certificate, kNow));
  EXPECT_EQ(ToUri(peer.identity), "monsoon://lab/ps/1");
  EXPECT_THAT(peer.hosts, ElementsAre("alpha", "10.0.0.1"));
  EXPECT_EQ(peer.key_fingerprint, ps.key.Fingerprint());
  const auto person = [&] {
    return store_.ObtainFile({Role::kOperator, "", "lab", ""}, {}, kNow).value_or("none");
  };
  EXPECT_EQ(person(), PathOf(Role::kOperator, "local"));
  // Somebody who has a name keeps it.
  std::filesystem::remove(PathOf(Role::kOperator, "local"));
  ASSERT_OK(store_.Save(*IssueLocal(lab_, {Role::kOperator, "ada", "lab", ""}, {}, kNow),
                        OtherAuthority::kRefuse));
  EXPECT_EQ(person(), PathOf(Role::kOperator, "ada"));
}

TEST_F(CredentialStoreTest, WhatTheAuthorityMadeIsKeptForHalfOfItsTime) {
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  const auto obtain = [&](absl::Time now) {
    const absl::StatusOr<std::string> path =
        store_.ObtainFile({Role::kPs, "1", "lab", ""}, {}, now);
    EXPECT_EQ(path.value_or("none"), store_.folder() + "/lab/ps-1.pem");
    EXPECT_EQ(ModeOf(*path), 0600u);
    const absl::StatusOr<Credential> kept = LoadCredential(*path);
    EXPECT_OK(kept.status());
    return kept.value_or(worker_);
  };
  const Credential first = obtain(kNow);
  EXPECT_EQ(obtain(kNow + kMemberLifetime / 2 - absl::Minutes(10)).certificate, first.certificate);
  const Credential second = obtain(kNow + kMemberLifetime / 2 + absl::Minutes(10));
  EXPECT_NE(second.certificate, first.certificate);
  // Sessions that are open under its key go on.
  EXPECT_EQ(second.key.Fingerprint(), first.key.Fingerprint());
  // Another authority of the name has taken the first one's place.
  ASSERT_OK(store_.Save(other_lab_, OtherAuthority::kSetAside));
  EXPECT_NE(obtain(kNow + kMemberLifetime / 2 + absl::Minutes(10)).key.Fingerprint(),
            second.key.Fingerprint());
}

TEST_F(CredentialStoreTest, ProcessesThatStartAtOnceHaveOneKey) {
  ASSERT_OK(store_.Save(lab_, OtherAuthority::kRefuse));
  for (int round = 0; round < 10; ++round) {
    const Identity wanted = {Role::kWorker, absl::StrCat(round), "lab", ""};
    std::vector<std::string> keys(8);
    {
      std::vector<std::jthread> processes;
      for (std::string& key : keys) {
        processes.emplace_back([&] {
          key = FingerprintOf(LoadCredential(store_.ObtainFile(wanted, {}, kNow).value_or("none")));
        });
      }
    }
    EXPECT_THAT(keys, Each(keys[0])) << round;
  }
}

TEST_F(CredentialStoreTest, WhoHasJoinedHasTheFileThatItGot) {
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  EXPECT_EQ(store_.ObtainFile({Role::kWorker, "7", "lab", ""}, {}, kNow).value_or("none"),
            PathOf(Role::kWorker, "7"));
}

TEST_F(CredentialStoreTest, WhoHasJoinedIsWhatHeJoinedAs) {
  const auto as = [&](Role role, const std::string& name, absl::Time now = kNow) {
    return store_.ObtainFile({role, name, "lab", ""}, {}, now);
  };
  EXPECT_THAT(as(Role::kWorker, "7").status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("no credential for cluster lab"),
                             HasSubstr("token create --role=worker"), HasSubstr("join"))));
  ASSERT_OK(store_.Save(worker_, OtherAuthority::kRefuse));
  EXPECT_EQ(as(Role::kWorker, "7").value_or("none"), PathOf(Role::kWorker, "7"));
  EXPECT_EQ(as(Role::kWorker, "").value_or("none"), PathOf(Role::kWorker, "7"));
  EXPECT_THAT(as(Role::kWorker, "8").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is worker/7 of cluster lab, not worker/8")));
  EXPECT_THAT(as(Role::kPs, "").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("token for a ps")));
  const absl::Time later = kNow + absl::Hours(24 * 8);
  for (const char* const name : {"7", ""}) {
    EXPECT_THAT(as(Role::kWorker, name, later).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("ended"), HasSubstr("join again"))));
  }
}

TEST_F(CredentialStoreTest, OfSeveralTheOneThatHelpsMostIsTaken) {
  const absl::Time now = kNow + absl::Hours(24 * 8);
  const auto add = [&](const std::string& name, const std::string& job, absl::Time begin) {
    ASSERT_OK(store_.Save(*IssueLocal(lab_, {Role::kWorker, name, "lab", job}, {}, begin),
                          OtherAuthority::kRefuse));
  };
  const auto taken = [&] {
    return store_.ObtainFile({Role::kWorker, "", "lab", ""}, {}, now).value_or("none");
  };
  add("a", "", kNow);  // has ended
  add("b", "gpt-1", now);
  EXPECT_EQ(taken(), PathOf(Role::kWorker, "b"));
  add("c", "", now - absl::Hours(24));
  EXPECT_EQ(taken(), PathOf(Role::kWorker, "c"));
  add("d", "", now);
  EXPECT_EQ(taken(), PathOf(Role::kWorker, "d"));
  add("e", "", now - absl::Hours(1));
  EXPECT_EQ(taken(), PathOf(Role::kWorker, "d"));
}

}  // namespace
}  // namespace monsoon
