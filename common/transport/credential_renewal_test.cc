#include "common/transport/credential_renewal.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/security/certificate_authority.h"
#include "common/security/testing/members.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/rpc_server.h"
#include "common/transport/own_tls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/member.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TestAuthority;

// More than half of a week.
constexpr absl::Duration kAge = absl::Hours(100);

class CredentialRenewalTest : public ::testing::Test {
 protected:
  CredentialRenewalTest() {
    variables_[kCredentialsVariable] =
        absl::StrCat(std::getenv("TEST_TMPDIR"), "/", testing::UniqueName());
  }

  void SetUp() override {
    CallTable calls;
    calls.AddBytes("/monsoon.MemberService/Renew",
                   [this](const Caller& caller, absl::string_view bytes) {
                     return Answer(*caller.member, bytes);
                   });
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> tls,
                         Tls::Open(lab_.File(Role::kCoordinator, "0")));
    ASSERT_OK_AND_ASSIGN(
        server_, RpcServer::Start({.address = "127.0.0.1:0", .tls = tls}, std::move(calls)));
  }

  absl::StatusOr<std::string> Answer(const Peer& member, absl::string_view bytes) {
    ++asked_;
    asks_.release();
    if (!refusal_.ok()) {
      return refusal_;
    }
    RenewRequest request;
    EXPECT_TRUE(request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    MemberCertificate answer;
    answer.set_certificate(
        signed_otherwise_
            ? lab_.Issue(Role::kWorker, "beta").certificate
            : lab_.authority()
                  .Sign(request.signing_request(), {member.identity, member.hosts}, absl::Now())
                  .value_or("none"));
    return answer.SerializeAsString();
  }

  CredentialStore::Variables variables() const {
    return [this](const std::string& name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
  }
  CredentialStore store() const { return *CredentialStore::Find(variables()); }

  // Of a worker who has joined so long ago.
  std::shared_ptr<Tls> Joined(absl::Duration age) {
    EXPECT_OK(store().Save(lab_.Issue(Role::kWorker, "beta", "", absl::Now() - age),
                           OtherAuthority::kRefuse));
    return OwnTls({.cluster = "lab", .role = Role::kWorker}, variables()).value();
  }
  static absl::Time EndOf(const Tls& tls) {
    return ReadPeer(LoadCredential(tls.file())->certificate)->validity.end;
  }
  absl::Status Renew(const std::shared_ptr<Tls>& tls) {
    return RenewWhereDue(server_->address(), tls, variables(), absl::Now());
  }

  std::map<std::string, std::string> variables_;
  TestAuthority lab_{"lab", absl::Now() - kAge - absl::Hours(1)};
  std::atomic<int> asked_{0};
  std::counting_semaphore<> asks_{0};
  absl::Status refusal_;
  bool signed_otherwise_ = false;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(CredentialRenewalTest, NothingIsAskedForInTheFirstHalf) {
  const std::shared_ptr<Tls> tls = Joined(absl::Hours(80));
  EXPECT_OK(Renew(tls));
  EXPECT_EQ(asked_, 0);
}

TEST_F(CredentialRenewalTest, TheCoordinatorMakesAnotherOneOfTheSameKey) {
  const std::shared_ptr<Tls> tls = Joined(kAge);
  ASSERT_OK(Renew(tls));
  EXPECT_EQ(asked_, 1);
  EXPECT_GT(EndOf(*tls), absl::Now() + kMemberLifetime - absl::Hours(1));
  EXPECT_EQ(LoadCredential(tls->file())->key.Fingerprint(), tls->self_fingerprint());
  EXPECT_OK(Renew(tls));
  EXPECT_EQ(asked_, 1);
}

TEST_F(CredentialRenewalTest, TheAuthorityMakesItWhereItIs) {
  ASSERT_OK(store().Save(lab_.authority(), OtherAuthority::kRefuse));
  const OwnTlsOptions options = {.cluster = "lab", .role = Role::kPs, .name = "1"};
  const std::string path =
      store().ObtainFile({Role::kPs, "1", "lab", ""}, {}, absl::Now() - kAge).value();
  const std::shared_ptr<Tls> tls = Tls::Open(path).value();
  const absl::Time before = EndOf(*tls);
  ASSERT_OK(Renew(tls));
  EXPECT_GT(EndOf(*tls), before);
  EXPECT_EQ(asked_, 0);
}

TEST_F(CredentialRenewalTest, ARefusalIsNamedAndChangesNothing) {
  const std::shared_ptr<Tls> tls = Joined(kAge);
  const absl::Time before = EndOf(*tls);
  refusal_ = absl::PermissionDeniedError("worker/beta was revoked");
  EXPECT_THAT(Renew(tls), StatusIs(absl::StatusCode::kPermissionDenied,
                                   AllOf(HasSubstr("worker/beta, which ends at"),
                                         HasSubstr("was not renewed"), HasSubstr("revoked"))));
  refusal_ = absl::OkStatus();
  signed_otherwise_ = true;
  EXPECT_THAT(Renew(tls),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another key")));
  EXPECT_EQ(EndOf(*tls), before);
}

TEST_F(CredentialRenewalTest, ItGoesOnInTheBackground) {
  EXPECT_EQ(CredentialRenewal::Start(server_->address(), nullptr, variables()), nullptr);
  const std::shared_ptr<Tls> tls = Joined(kAge);
  const absl::Time before = EndOf(*tls);
  refusal_ = absl::UnavailableError("not yet");
  const auto renewal = CredentialRenewal::Start(server_->address(), tls, variables(),
                                                /*period=*/absl::Milliseconds(5));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(asks_.try_acquire_for(std::chrono::seconds(20)));
  }
  EXPECT_EQ(EndOf(*tls), before);
}

}  // namespace
}  // namespace monsoon
