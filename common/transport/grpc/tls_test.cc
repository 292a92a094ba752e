#include "common/transport/grpc/tls.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/base/lasting.h"
#include "common/base/status.h"
#include "common/base/unsent.h"
#include "common/security/testing/members.h"
#include "common/testing/status_matchers.h"
#include "common/transport/grpc/call_bytes.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/rpc_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TestAuthority;

constexpr absl::Duration kDeadline = absl::Seconds(5);

std::shared_ptr<Tls> Open(const std::string& file) {
  absl::StatusOr<std::shared_ptr<Tls>> tls = Tls::Open(file);
  EXPECT_OK(tls.status());
  return *std::move(tls);
}

auto IsUnavailable() { return StatusIs(absl::StatusCode::kUnavailable, ::testing::_); }

class TlsTest : public ::testing::Test {
 protected:
  // A coordinator whose Describe answers with who asks.
  void Serve(std::shared_ptr<Tls> tls, std::function<bool()> takes_strangers = nullptr) {
    CallTable calls;
    calls.AddBytes("/monsoon.JobService/Describe",
                   [](const Caller& caller, absl::string_view) -> absl::StatusOr<std::string> {
                     return caller.open                 ? "open"
                            : caller.member.has_value() ? MemberName(caller.member->identity)
                                                        : "stranger";
                   });
    ASSERT_OK_AND_ASSIGN(server_, RpcServer::Start({.address = "127.0.0.1:0",
                                                    .tls = std::move(tls),
                                                    .takes_strangers = std::move(takes_strangers),
                                                    .membership = membership_,
                                                    .longest_connection = longest_connection_},
                                                   std::move(calls)));
  }

  absl::StatusOr<std::string> Ask(const std::shared_ptr<Tls>& tls,
                                  Role server = Role::kCoordinator) {
    return CallBytes(MakeChannel(server_->address(), tls, server), "/monsoon.JobService/Describe",
                     "", kDeadline, /*waits=*/false);
  }

  TestAuthority lab_{"lab"};
  Guard::Membership membership_;
  absl::Duration longest_connection_ = absl::Hours(1);
  std::unique_ptr<RpcServer> server_;
};

TEST_F(TlsTest, BothEndsKnowEachOther) {
  Serve(Open(lab_.File(Role::kCoordinator, "0")));
  EXPECT_EQ(Ask(Open(lab_.File(Role::kOperator, "ada"))).value_or("refused"), "operator/ada");
  EXPECT_EQ(Ask(Open(lab_.File(Role::kViewer, "eve"))).value_or("refused"), "viewer/eve");
}

TEST_F(TlsTest, ARoleWithoutTheRightIsRefusedByName) {
  Serve(Open(lab_.File(Role::kCoordinator, "0")));
  EXPECT_THAT(Ask(Open(lab_.File(Role::kPs, "7"))).status(),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("worker or operator or viewer"), HasSubstr("ps/7"))));
}

TEST_F(TlsTest, WhoHasNoCertificateIsNotLetIn) {
  Serve(Open(lab_.File(Role::kCoordinator, "0")));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> stranger,
                       Tls::ForJoining(lab_.authority().certificate()));
  EXPECT_THAT(Ask(stranger).status(), IsUnavailable());
  EXPECT_THAT(Ask(nullptr).status(), IsUnavailable());
}

TEST_F(TlsTest, WhoWantsToJoinIsLetInAndMayDoNothingElse) {
  bool open = true;
  Serve(Open(lab_.File(Role::kCoordinator, "0")), [&] { return open; });
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> stranger,
                       Tls::ForJoining(lab_.authority().certificate()));
  EXPECT_THAT(Ask(stranger).status(),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("join the cluster first")));
  EXPECT_EQ(Ask(Open(lab_.File(Role::kOperator, "ada"))).value_or("refused"), "operator/ada");
  // A certificate that is shown must hold, on either way in.
  EXPECT_FALSE(Ask(Open(TestAuthority("lab").File(Role::kOperator, "ada"))).ok());
  open = false;
  EXPECT_THAT(Ask(stranger).status(), IsUnavailable());
}

TEST_F(TlsTest, AServerOfAnotherClusterIsNotBelieved) {
  Serve(Open(TestAuthority("lab").File(Role::kCoordinator, "0")));
  const absl::Status status = Ask(Open(lab_.File(Role::kOperator, "ada"))).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("not signed by the authority of cluster lab")));
  EXPECT_TRUE(IsUnsent(status));
  EXPECT_TRUE(IsLasting(status));
}

TEST_F(TlsTest, AClientOfAnotherClusterIsNotLetIn) {
  Serve(Open(lab_.File(Role::kCoordinator, "0")));
  const TestAuthority other("other");
  EXPECT_FALSE(Ask(Open(other.File(Role::kOperator, "ada"))).ok());
}

TEST_F(TlsTest, AMemberInThePlaceOfTheServerIsNotBelieved) {
  Serve(Open(lab_.File(Role::kWorker, "7")));
  const absl::Status status = Ask(Open(lab_.File(Role::kOperator, "ada"))).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("worker/7"), HasSubstr("not its coordinator"))));
  EXPECT_TRUE(IsLasting(status));
}

TEST_F(TlsTest, ACertificateThatHasEndedIsSaidSoAtOnce) {
  const absl::Time then = absl::Now() - absl::Hours(48);
  EXPECT_THAT(
      Tls::Open(TestAuthority("lab", then).File(Role::kOperator, "old", "", then, absl::Hours(24))),
      StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("ended at")));
  EXPECT_THAT(
      Tls::Open(lab_.File(Role::kOperator, "new", "", absl::Now() + absl::Hours(1))),
      StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("clocks of two hosts differ")));
}

TEST_F(TlsTest, WhoWasThrownOutIsRefusedByName) {
  membership_ = [](const Peer& member) {
    return member.identity.name == "bob" ? absl::PermissionDeniedError("operator/bob was revoked")
                                         : absl::OkStatus();
  };
  Serve(Open(lab_.File(Role::kCoordinator, "0")));
  EXPECT_OK(Ask(Open(lab_.File(Role::kOperator, "ada"))).status());
  EXPECT_THAT(Ask(Open(lab_.File(Role::kOperator, "bob"))).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("bob was revoked")));
}

TEST_F(TlsTest, APlainServerAndATlsClientDoNotMeet) {
  Serve(nullptr);
  EXPECT_EQ(Ask(nullptr).value_or("refused"), "open");
  const absl::Status status = Ask(Open(lab_.File(Role::kOperator, "ada"))).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("speaks no TLS")));
  // It is no task of the cluster, and was told nothing.
  EXPECT_TRUE(NobodyListens(status));
}

TEST_F(TlsTest, AConnectionEndsBeforeItsCertificate) {
  longest_connection_ = absl::Milliseconds(200);
  Serve(Open(lab_.File(Role::kCoordinator, "0")));
  const std::string file = lab_.File(Role::kOperator, "ada");
  const auto channel = MakeChannel(server_->address(), Open(file), Role::kCoordinator);
  const auto ask = [&] {
    return CallBytes(channel, "/monsoon.JobService/Describe", "", kDeadline, /*waits=*/true);
  };
  EXPECT_EQ(ask().value_or("refused"), "operator/ada");
  ASSERT_OK(SaveCredential(file, lab_.Issue(Role::kOperator, "ada2")));
  absl::StatusOr<std::string> name;
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (name.value_or("") != "operator/ada2" && absl::Now() < end) {
    name = ask();
    // A call may come just as the connection ends; clients repeat such.
    ASSERT_TRUE(name.ok() || absl::IsUnavailable(name.status())) << name.status();
  }
  EXPECT_EQ(name.value_or("none"), "operator/ada2");
}

TEST_F(TlsTest, ARenewedFileIsUsedByTheConnectionsThatCome) {
  const std::string file = lab_.File(Role::kOperator, "ada");
  Serve(Open(lab_.File(Role::kCoordinator, "0")));
  const std::shared_ptr<Tls> tls = Open(file);
  EXPECT_EQ(Ask(tls).value_or("refused"), "operator/ada");
  // Another name stands for the new certificate, which is otherwise the same.
  ASSERT_OK(SaveCredential(file, lab_.Issue(Role::kOperator, "ada2")));
  std::string name;
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (name != "operator/ada2" && absl::Now() < end) {
    ASSERT_OK_AND_ASSIGN(name, Ask(tls));
  }
  EXPECT_EQ(name, "operator/ada2");
}

}  // namespace
}  // namespace monsoon
