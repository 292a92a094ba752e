#include "common/transport/own_tls.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/security/credential_file.h"
#include "common/security/testing/members.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/diagnosis.h"
#include "common/transport/grpc/rpc_server.h"
#include "common/transport/grpc/status_conversion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TestAuthority;

class OwnTlsTest : public ::testing::Test {
 protected:
  OwnTlsTest() {
    variables_[kCredentialsVariable] =
        absl::StrCat(std::getenv("TEST_TMPDIR"), "/", testing::UniqueName());
  }

  CredentialStore::Variables variables() const {
    return [this](const std::string& name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
  }
  CredentialStore store() const { return *CredentialStore::Find(variables()); }

  void Serve(std::shared_ptr<Tls> tls) {
    ASSERT_OK_AND_ASSIGN(
        server_, RpcServer::Start({.address = "127.0.0.1:0", .tls = std::move(tls)}, CallTable()));
  }

  std::map<std::string, std::string> variables_;
  TestAuthority lab_{"lab"};
  std::unique_ptr<RpcServer> server_;
};

TEST_F(OwnTlsTest, WhereTheAuthorityIsEachRoleHasACredential) {
  ASSERT_OK(store().Save(lab_.authority(), OtherAuthority::kRefuse));
  for (const Role role : {Role::kCoordinator, Role::kPs}) {
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> tls,
                         OwnTls({.cluster = "lab", .role = role, .name = "0"}, variables()));
    ASSERT_NE(tls, nullptr);
    EXPECT_EQ(MemberName(tls->self()), absl::StrCat(RoleName(role), "/0"));
    EXPECT_EQ(OwnMemberName(tls.get()), MemberName(tls->self()));
  }
  EXPECT_TRUE(HasCredential("lab", variables()));
  EXPECT_TRUE(HasAuthority("lab", variables()));
  EXPECT_FALSE(HasCredential("other", variables()));
}

TEST_F(OwnTlsTest, WhoHasNoCredentialOrWantsNoneProvesNothing) {
  const OwnTlsOptions options = {.cluster = "lab", .coordinator = "127.0.0.1:1"};
  EXPECT_EQ(OwnTls(options, variables()).value(), nullptr);
  ASSERT_OK(store().Save(lab_.authority(), OtherAuthority::kRefuse));
  EXPECT_NE(OwnTls(options, variables()).value(), nullptr);
  OwnTlsOptions insecure = options;
  insecure.insecure = true;
  EXPECT_EQ(OwnTls(insecure, variables()).value(), nullptr);
  variables_[kInsecureVariable] = "1";
  EXPECT_EQ(OwnTls(options, variables()).value(), nullptr);
}

TEST_F(OwnTlsTest, AnAddressAloneIsOfTheClusterThatAnswers) {
  const TestAuthority other("other");
  ASSERT_OK(store().Save(other.authority(), OtherAuthority::kRefuse));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> server_tls,
                       Tls::Open(lab_.File(Role::kCoordinator, "0")));
  Serve(server_tls);
  const OwnTlsOptions options = {.coordinator = server_->address(), .role = Role::kWorker};
  EXPECT_THAT(OwnTls(options, variables()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("(other in "), HasSubstr("join"))));
  ASSERT_OK(store().Save(lab_.Issue(Role::kWorker, "beta"), OtherAuthority::kRefuse));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> tls, OwnTls(options, variables()));
  ASSERT_NE(tls, nullptr);
  EXPECT_EQ(MemberName(tls->self()), "worker/beta");
}

TEST_F(OwnTlsTest, AnAddressAloneOfAPlainServerNeedsNothing) {
  Serve(nullptr);
  EXPECT_EQ(OwnTls({.coordinator = server_->address()}, variables()).value(), nullptr);
  EXPECT_EQ(OwnTls({.coordinator = "unix:/nowhere"}, variables()).value(), nullptr);
  const std::string address = server_->address();
  server_.reset();
  EXPECT_THAT(OwnTls({.coordinator = address}, variables()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("connection refused")));
}

TEST_F(OwnTlsTest, AClusterOfOneMachineHasAnAuthorityByItself) {
  OwnTlsOptions options = {.cluster = "lab", .role = Role::kPs, .name = "0"};
  EXPECT_EQ(OwnTls(options, variables()).value(), nullptr);
  options.founds = true;
  options.insecure = true;
  EXPECT_EQ(OwnTls(options, variables()).value(), nullptr);
  options.insecure = false;
  EXPECT_FALSE(HasCredential("lab", variables()));
  // Tasks that start together find one.
  std::vector<std::shared_ptr<Tls>> tasks(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < tasks.size(); ++i) {
    threads.emplace_back([this, &tasks, options, i]() mutable {
      options.name = absl::StrCat(i);
      const absl::StatusOr<std::shared_ptr<Tls>> tls = OwnTls(options, variables());
      EXPECT_OK(tls.status());
      tasks[i] = tls.value_or(nullptr);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_OK_AND_ASSIGN(const std::string authority, store().AuthorityCertificate("lab"));
  for (size_t i = 0; i < tasks.size(); ++i) {
    ASSERT_NE(tasks[i], nullptr);
    EXPECT_EQ(MemberName(tasks[i]->self()), absl::StrCat("ps/", i));
    EXPECT_EQ(LoadCredential(tasks[i]->file())->authority, authority);
  }
  // Commands of this user are an operator's, by name or by address.
  Serve(tasks[0]);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> person,
                       OwnTls({.coordinator = server_->address()}, variables()));
  EXPECT_EQ(MemberName(person->self()), "operator/local");
}

TEST_F(OwnTlsTest, WhereNoAuthorityCanBeMadeNothingStarts) {
  const OwnTlsOptions options = {.cluster = "lab", .role = Role::kPs, .name = "0", .founds = true};
  const std::string folder = variables_[kCredentialsVariable];
  std::ofstream(folder) << "in the way";
  const absl::Status in_the_way = OwnTls(options, variables()).status();
  EXPECT_FALSE(in_the_way.ok());
  EXPECT_THAT(in_the_way.message(), AllOf(HasSubstr(folder), HasSubstr("--insecure")));
  variables_.clear();
  EXPECT_THAT(OwnTls(options, variables()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(kCredentialsVariable)));
  // Who has joined another cluster of the name founds none.
  variables_[kCredentialsVariable] = folder + "-joined";
  ASSERT_OK(store().Save(lab_.Issue(Role::kViewer, "eve"), OtherAuthority::kRefuse));
  EXPECT_THAT(OwnTls(options, variables()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("viewer/eve")));
  EXPECT_FALSE(HasAuthority("lab", variables()));
}

TEST_F(OwnTlsTest, WhichClustersAreOfOneMachine) {
  const auto one = [](const std::string& coordinator, const std::string& ps,
                      const std::string& worker) {
    Cluster cluster;
    cluster.mutable_coordinator()->set_address(coordinator);
    cluster.add_ps()->set_address(ps);
    if (!worker.empty()) {
      cluster.add_worker()->set_address(worker);
    }
    return IsOfOneMachine(cluster);
  };
  EXPECT_TRUE(one("127.0.0.1:1", "localhost:2", ""));
  EXPECT_TRUE(one("unix:/c", "127.0.0.1:2", "[::1]:3"));
  EXPECT_FALSE(one("unix:/c", "unix:/p", "unix:/w"));
  EXPECT_FALSE(one("alpha:1", "localhost:2", ""));
  EXPECT_FALSE(one("127.0.0.1:1", "10.0.0.2:2", ""));
  EXPECT_FALSE(one("127.0.0.1:1", "127.0.0.1:2", "beta:3"));
}

TEST_F(OwnTlsTest, APersonIsWhatHeHasJoinedAs) {
  ASSERT_OK(store().Save(lab_.Issue(Role::kViewer, "eve"), OtherAuthority::kRefuse));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> eve, OwnTls({.cluster = "lab"}, variables()));
  EXPECT_EQ(MemberName(eve->self()), "viewer/eve");
  // Who may change jobs comes first.
  ASSERT_OK(store().Save(lab_.Issue(Role::kWorker, "1"), OtherAuthority::kRefuse));
  ASSERT_OK(store().Save(lab_.Issue(Role::kOperator, "eve"), OtherAuthority::kRefuse));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> both, OwnTls({.cluster = "lab"}, variables()));
  EXPECT_EQ(MemberName(both->self()), "operator/eve");
  EXPECT_FALSE(HasAuthority("lab", variables()));
  variables_[kCredentialsVariable] += "-alpha";
  ASSERT_OK(store().Save(lab_.authority(), OtherAuthority::kRefuse));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> ada, OwnTls({.cluster = "lab"}, variables()));
  EXPECT_EQ(ada->self().role, Role::kOperator);
}

TEST_F(OwnTlsTest, ACredentialOfAnotherRoleIsNamed) {
  ASSERT_OK(store().Save(lab_.Issue(Role::kViewer, "eve"), OtherAuthority::kRefuse));
  EXPECT_THAT(OwnTls({.cluster = "lab", .role = Role::kWorker}, variables()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("viewer/eve"), HasSubstr("not worker"))));
}

TEST_F(OwnTlsTest, WhyAConnectionBrokeIsFoundOut) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> server_tls,
                       Tls::Open(lab_.File(Role::kCoordinator, "0")));
  Serve(server_tls);
  const absl::Status broke = absl::UnavailableError(kConnectionBroke);
  EXPECT_THAT(Diagnose(broke, server_->address(), nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("join the cluster first")));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> other,
                       Tls::Open(TestAuthority("lab").File(Role::kViewer, "eve")));
  EXPECT_THAT(Diagnose(broke, server_->address(), other),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("viewer/eve")));
  // It takes this one: whatever it was, the certificate was not it.
  EXPECT_EQ(Diagnose(broke, server_->address(), server_tls), broke);
  EXPECT_EQ(Diagnose(broke, "unix:/nowhere", nullptr), broke);
  const absl::Status refused = absl::UnavailableError("connection refused");
  EXPECT_EQ(Diagnose(refused, server_->address(), nullptr), refused);
  Serve(nullptr);
  EXPECT_EQ(Diagnose(broke, server_->address(), nullptr), broke);
}

TEST_F(OwnTlsTest, AProbeTellsWhyItIsNotTaken) {
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> server_tls,
                       Tls::Open(lab_.File(Role::kCoordinator, "0")));
  Serve(server_tls);
  const auto probe = [&](const std::optional<Credential>& shown) {
    return ProbeCoordinator(server_->address(), shown, absl::Seconds(5));
  };
  ASSERT_OK_AND_ASSIGN(const ProbedServer taken, probe(lab_.Issue(Role::kViewer, "eve")));
  EXPECT_TRUE(taken.speaks_tls);
  EXPECT_OK(taken.refusal);
  ASSERT_OK_AND_ASSIGN(const ProbedServer none, probe(std::nullopt));
  EXPECT_THAT(none.refusal,
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("join the cluster first")));
  const TestAuthority old("lab");
  ASSERT_OK_AND_ASSIGN(const ProbedServer other, probe(old.Issue(Role::kViewer, "eve")));
  EXPECT_THAT(other.refusal, StatusIs(absl::StatusCode::kUnauthenticated,
                                      AllOf(HasSubstr("viewer/eve"), HasSubstr("clocks"))));
  ASSERT_OK_AND_ASSIGN(const ProbedServer ended,
                       probe(lab_.Issue(Role::kViewer, "eve", "", absl::Now() - absl::Minutes(1),
                                        absl::Seconds(1))));
  EXPECT_FALSE(ended.refusal.ok());
}

}  // namespace
}  // namespace monsoon
