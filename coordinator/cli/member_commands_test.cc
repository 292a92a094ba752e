#include "coordinator/cli/member_commands.h"

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/security/certificate.h"
#include "common/security/credential_store.h"
#include "common/security/identity.h"
#include "common/security/join_token.h"
#include "common/testing/status_matchers.h"
#include "coordinator/cli/cli_fixture.h"
#include "coordinator/client/join_client.h"
#include "coordinator/client/member_client.h"
#include "coordinator/members/member_world.h"
#include "gmock/gmock.h"

namespace monsoon {
namespace {

using ::monsoon::testing::MemberWorld;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr int64_t kNowMs = 1'800'000'000'000;
constexpr char kLab[] = R"pb(
  name: "lab"
  coordinator { address: "alpha:2221" }
  ps { address: "alpha:2222" }
  worker { address: "beta:2223" }
  worker { address: "gamma:2223" })pb";

// The calls arrive at a world's Members, as they would over a network.
class WorldsClient : public MemberClient {
 public:
  explicit WorldsClient(MemberWorld* world) : world_(*world) {}

  absl::StatusOr<MemberCertificate> Renew(const std::string&) override {
    return absl::UnimplementedError("no verb renews");
  }
  absl::StatusOr<CreateTokenReply> CreateToken(const CreateTokenRequest& request) override {
    return world_.members->CreateToken(request, {}, world_.now);
  }
  absl::StatusOr<ListTokensReply> ListTokens() override {
    return world_.members->ListTokens(world_.now);
  }
  absl::StatusOr<TokenStatus> RevokeToken(const std::string& id) override {
    return world_.members->RevokeToken(id, world_.now);
  }
  absl::StatusOr<ListMembersReply> ListMembers() override {
    return world_.members->ListMembers(world_.now);
  }
  absl::StatusOr<RevokeMemberReply> RevokeMember(const std::string& member) override {
    return world_.members->RevokeMember(member, world_.now);
  }

 private:
  MemberWorld& world_;
};

class WorldsDoor : public JoinClient {
 public:
  explicit WorldsDoor(MemberWorld* world) : world_(*world) {}

  absl::StatusOr<std::string> FetchAuthority(const std::string& address) override {
    if (!down.ok()) {
      return down;
    }
    asked = address;
    return chain;
  }
  absl::StatusOr<JoinReply> Join(const std::string& address, const std::string& authority,
                                 const JoinRequest& request) override {
    ++calls;
    EXPECT_EQ(authority, certificate);
    absl::StatusOr<JoinReply> reply =
        world_.members->Join(request, {.address = "ipv4:10.0.0.5:41234"}, world_.now);
    if (lost_answers > 0 && !request.signing_request().empty()) {
      --lost_answers;
      return absl::UnavailableError(absl::StrCat("coordinator at ", address, " not reached"));
    }
    return reply;
  }

  absl::Status down;
  std::string chain;        // that the server shows
  std::string certificate;  // the authority's in it
  std::string asked;
  int lost_answers = 0;
  int calls = 0;

 private:
  MemberWorld& world_;
};

class MemberCommandsTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    Environment& env = cli_.environment();
    lab_ = Write("lab.textproto", kLab);
    env.default_cluster = lab_;
    cli_.clock.Advance(absl::Milliseconds(kNowMs));
    cli_.variables = {{"HOME", folder_ + "/alpha"}, {"USER", "ada"}};
    env.host = "alpha";
    env.connect_members = [this](const std::string& address, absl::Duration,
                                 const std::string& cluster, bool) {
      cli_.connected_to = address;
      cli_.connected_cluster = cluster;
      return std::make_unique<WorldsClient>(&world_);
    };
    env.join_client = &door_;
  }
  // On alpha, whose coordinator has the authority from then on.
  void InitCluster() {
    ASSERT_EQ(Run({"cluster", "init"}), 0) << cli_.err();
    ASSERT_OK_AND_ASSIGN(const CertificateAuthority authority, Store("alpha").Authority("lab"));
    ASSERT_OK(world_.members->UseAuthority(authority));
    door_.certificate = authority.certificate();
    // The server's own comes first.
    door_.chain = absl::StrCat(IssueLocal(authority, {Role::kCoordinator, "0", "lab", ""},
                                          {"alpha"}, cli_.clock.WallTime())
                                   ->certificate,
                               authority.certificate());
  }
  // What one pastes on another machine.
  std::string Invite(const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"token", "create"};
    args.insert(args.end(), flags.begin(), flags.end());
    EXPECT_EQ(Run(args), 0) << cli_.err();
    const std::vector<std::string> words = absl::StrSplit(cli_.out(), absl::ByAnyChar(" \n"));
    return words.size() < 3 ? "" : words[2];
  }
  // From here on commands are called on this machine.
  void On(const std::string& host) {
    cli_.variables["HOME"] = folder_ + "/" + host;
    cli_.environment().host = host;
  }
  CredentialStore Store(const std::string& host) const {
    return CredentialStore(folder_ + "/" + host + "/.local/state/monsoon/credentials");
  }
  std::string WhoIs(const std::string& host) const {
    std::vector<std::string> uris;
    const absl::StatusOr<std::vector<KeptMember>> members = Store(host).Members("lab");
    EXPECT_OK(members.status());
    for (const KeptMember& member : members.value_or(std::vector<KeptMember>())) {
      uris.push_back(ToUri(member.peer.identity));
    }
    return absl::StrJoin(uris, " ");
  }
  void Pass(absl::Duration time) {
    cli_.clock.Advance(time);
    world_.Pass(time);
  }

  MemberWorld world_{kNowMs};
  WorldsDoor door_{&world_};
  std::string lab_;
};

TEST_F(MemberCommandsTest, AClusterIsMadeOnce) {
  EXPECT_EQ(Run({"cluster", "init"}), 0);
  EXPECT_THAT(cli_.out(),
              AllOf(HasSubstr("made the authority of cluster lab"), HasSubstr("operator/ada"),
                    HasSubstr("next: coordinator up"), HasSubstr("token create --role=worker")));
  EXPECT_EQ(cli_.err(), "");
  EXPECT_EQ(WhoIs("alpha"), "monsoon://lab/operator/ada");
  struct stat facts = {};
  ASSERT_EQ(stat(Store("alpha").AuthorityPath("lab").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0600u);
  const std::string fingerprint = Store("alpha").Authority("lab")->facts().fingerprint;
  EXPECT_EQ(Run({"cluster", "init"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("has its authority already"));
  EXPECT_EQ(Store("alpha").Authority("lab")->facts().fingerprint, fingerprint);
  EXPECT_EQ(Run({"cluster"}), 2);
  EXPECT_EQ(Run({"cluster", "make"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("say init"));
}

TEST_F(MemberCommandsTest, InitSaysWhatIsMissing) {
  cli_.variables.clear();
  EXPECT_EQ(Run({"cluster", "init"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("set MONSOON_CREDENTIALS"));
  cli_.variables = {{"HOME", folder_ + "/alpha"}};
  const std::string local = Write("local.textproto", absl::StrCat("name: 'lab' ", R"pb(
                                    coordinator { address: "localhost:2221" }
                                    ps { address: "localhost:2222" })pb"));
  EXPECT_EQ(Run({"cluster", "init", "--cluster=" + local}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("where no other machine reaches it"));
  EXPECT_EQ(WhoIs("alpha"), "monsoon://lab/operator/somebody");
  EXPECT_EQ(Run({"cluster", "init", "--cluster=missing.textproto"}), 2);
}

TEST_F(MemberCommandsTest, OnePastesALineAndIsIn) {
  InitCluster();
  EXPECT_EQ(Run({"token", "create", "--role=worker", "--ttl=24h", "--uses=3"}), 0);
  EXPECT_EQ(cli_.connected_to, "alpha:2221");
  EXPECT_EQ(cli_.connected_cluster, "lab");
  const std::string line = cli_.out();
  EXPECT_THAT(line, MatchesRegex("coordinator join msn1\\.[^.]*\\.[0-9a-f]*\\.[^.]*@alpha:2221\n"));
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("3 may join as worker until 2027-01-16T08:00:00"),
                                HasSubstr("shown this once")));
  const std::string invitation(
      absl::StripSuffix(absl::StripPrefix(line, "coordinator join "), "\n"));

  On("beta");
  EXPECT_EQ(Run({"join", invitation, "--task=1"}), 0) << cli_.err();
  EXPECT_EQ(door_.asked, "alpha:2221");
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("joined cluster lab as worker/1"),
                                HasSubstr("worker-1.pem: until 2027-01-22T08:00:00")));
  EXPECT_EQ(WhoIs("beta"), "monsoon://lab/worker/1");
  On("gamma.example.org");
  EXPECT_EQ(Run({"join", invitation}), 0) << cli_.err();
  EXPECT_THAT(WhoIs("gamma.example.org"), MatchesRegex("monsoon://lab/worker/gamma-[0-9a-f]+"));
  On("delta");
  EXPECT_EQ(Run({"join", invitation, "--name=delta"}), 0) << cli_.err();
  EXPECT_EQ(WhoIs("delta"), "monsoon://lab/worker/delta");
  On("epsilon");
  EXPECT_EQ(Run({"join", invitation}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("is used up: 3 joined"));
  EXPECT_EQ(WhoIs("epsilon"), "");

  EXPECT_EQ(Run({"member", "list"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("worker/1"), HasSubstr("worker/delta"), HasSubstr("live"),
                                HasSubstr("2027-01-22T08:00:00")));
  EXPECT_EQ(Run({"member", "list", "--json"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("{\"schema_version\":1,\"members\":[{\"member\":"),
                                HasSubstr("\"hosts\":[\"beta\"]"), HasSubstr("\"tasks\":[]")));
  EXPECT_EQ(Run({"member", "revoke", "worker/delta"}), 0);
  EXPECT_EQ(cli_.out(), "worker/delta is thrown out\n");
  EXPECT_EQ(Run({"member", "revoke", "worker/delta", "--json"}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("\"state\":\"revoked\""));
  EXPECT_EQ(Run({"member", "revoke", "worker/none"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("nobody has joined as worker/none"));
}

TEST_F(MemberCommandsTest, TokensAreListedAndEnded) {
  InitCluster();
  const std::string invitation = Invite({"--role=viewer", "--ttl=7d", "--note=for Ada"});
  const std::string id = ParseInvitation(invitation)->token.id;
  EXPECT_EQ(Run({"token", "list"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr(id), HasSubstr("viewer"), HasSubstr("usable"),
                                HasSubstr("2027-01-22T08:00:00"), HasSubstr("for Ada")));
  EXPECT_EQ(Run({"token", "create", "--role=ps", "--json"}), 0);
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("\"schema_version\":1,\"invitation\":\"msn1."),
                                HasSubstr("\"role\":\"ps\",\"job\":null")));
  EXPECT_EQ(Run({"token", "revoke", id}), 0);
  EXPECT_THAT(cli_.out(), HasSubstr("lets nobody in any more"));
  EXPECT_EQ(Run({"token", "list", "--json"}), 0);
  EXPECT_THAT(cli_.out(),
              AllOf(HasSubstr("\"tokens\":[{\"id\":\"" + id), HasSubstr("\"state\":\"revoked\"")));
  On("beta");
  EXPECT_EQ(Run({"join", invitation}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("was revoked at"));
  EXPECT_EQ(Run({"token", "revoke", "0123456789ab"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("no token 0123456789ab"));
}

TEST_F(MemberCommandsTest, WhatIsTypedWrongIsToldBeforeAnythingIsAsked) {
  InitCluster();
  const auto refused = [&](const std::vector<std::string>& args, const std::string& reason) {
    EXPECT_EQ(Run(args), 2) << args[1];
    EXPECT_THAT(cli_.err(), HasSubstr(reason));
    EXPECT_EQ(cli_.out(), "");
  };
  refused({"token"}, "an argument is missing");
  refused({"token", "make"}, "say create, list or revoke");
  refused({"token", "create"}, "--role says");
  refused({"token", "create", "--role=boss"}, "there is no role");
  refused({"token", "create", "--role=coordinator"}, "as its coordinator");
  refused({"token", "create", "--role=worker", "--ttl=soon"}, "a number with its unit");
  refused({"token", "create", "--role=worker", "--ttl=0s"}, "lives for");
  refused({"token", "create", "--role=worker", "--uses=many"}, "--uses is a number");
  refused({"token", "create", "--role=worker", "--uses=0"}, "uses, not 0");
  refused({"token", "list", "--role=worker"}, "are for `token create`");
  refused({"token", "revoke"}, "token revoke ID");
  refused({"member", "revoke"}, "as worker/7");
  refused({"member", "list", "x"}, "takes no argument");
  refused({"member", "expel"}, "say list or revoke");
  refused({"join"}, "an argument is missing");
  refused({"join", "msn1.cut.short"}, "token");
  EXPECT_EQ(door_.calls, 0);
}

TEST_F(MemberCommandsTest, WhoAsksForAnotherPlaceIsTold) {
  InitCluster();
  const std::string worker = Invite({"--role=worker", "--uses=2"});
  const std::string ps = Invite({"--role=ps"});
  const std::string person = Invite({"--role=operator"});
  On("beta");
  const auto refused = [&](const std::vector<std::string>& args, const std::string& reason) {
    EXPECT_EQ(Run(args), 2);
    EXPECT_THAT(cli_.err(), HasSubstr(reason));
  };
  refused({"join", ps}, "--task=N says which");
  refused({"join", ps, "--task=1"}, "whose ps tasks are 0");
  refused({"join", person, "--task=1"}, "--name says who it is");
  refused({"join", worker, "--task=1", "--name=x"}, "not both");
  refused({"join", worker, "--task=first"}, "--task is the number");
  refused({"join", worker, "--task=7"}, "worker/7 is not in the cluster file");
  refused({"join", worker, "--name=a b"}, "name");
  EXPECT_EQ(Run({"join", worker, "--task=0"}), 0) << cli_.err();
  // This user is that already; another one's name is another's.
  refused({"join", worker, "--task=0"}, "this user is worker/0 of cluster lab here already");
  On("gamma");
  refused({"join", worker, "--task=0"}, "worker/0 is there already");
  EXPECT_EQ(Run({"join", person}), 0) << cli_.err();
  EXPECT_EQ(WhoIs("gamma"), "monsoon://lab/operator/ada");
  // All these mistakes have cost no use, and one may be several.
  EXPECT_EQ(Run({"join", worker, "--name=x"}), 0) << cli_.err();
  EXPECT_EQ(WhoIs("gamma"), "monsoon://lab/operator/ada monsoon://lab/worker/x");
}

TEST_F(MemberCommandsTest, AProgramJoinsOnce) {
  InitCluster();
  const std::string worker = Invite({"--role=worker"});
  const std::string person = Invite({"--role=viewer"});
  On("beta");
  EXPECT_EQ(Run({"join", person, "--program"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("the token is for a viewer; a program joins with"));
  EXPECT_EQ(WhoIs("beta"), "");
  EXPECT_EQ(Run({"join", worker, "--program"}), 0) << cli_.err();
  const std::string self = WhoIs("beta");
  EXPECT_THAT(self, MatchesRegex("monsoon://lab/worker/beta-[0-9a-f]+"));
  // The token is used up, and need not count any more.
  EXPECT_EQ(Run({"join", worker, "--program"}), 0) << cli_.err();
  EXPECT_THAT(cli_.out(), AllOf(HasSubstr("this user is worker/beta-"), HasSubstr("already")));
  EXPECT_EQ(WhoIs("beta"), self);
  Pass(absl::Hours(24 * 8));
  EXPECT_EQ(Run({"join", worker, "--program"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("expired at"));
}

TEST_F(MemberCommandsTest, AnotherClusterIsNotToldTheSecret) {
  InitCluster();
  const std::string invitation = Invite({"--role=worker"});
  On("beta");
  const std::string chain = door_.chain;
  door_.chain = CertificateAuthority::Create("lab", cli_.clock.WallTime())->certificate();
  EXPECT_EQ(Run({"join", invitation}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("another cluster"));
  door_.chain = "no certificate at all";
  EXPECT_EQ(Run({"join", invitation}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("shows no certificate of a cluster's authority"));
  door_.down = absl::UnavailableError("coordinator at alpha:2221 not reached: connection refused");
  EXPECT_EQ(Run({"join", invitation}), 3);
  EXPECT_THAT(cli_.err(), HasSubstr("alpha:2221 not reached"));
  EXPECT_EQ(door_.calls, 0);
  // Somebody has another cluster of the name here, which would be lost.
  door_.down = absl::OkStatus();
  door_.chain = chain;
  const CertificateAuthority other = *CertificateAuthority::Create("lab", cli_.clock.WallTime());
  ASSERT_OK(Store("beta").Save(other, OtherAuthority::kRefuse));
  EXPECT_EQ(Run({"join", invitation}), 2);
  EXPECT_THAT(cli_.err(), AllOf(HasSubstr("--replace"), HasSubstr("MONSOON_CREDENTIALS")));
  EXPECT_EQ(door_.calls, 0);
  EXPECT_EQ(Run({"join", invitation, "--replace", "--task=0"}), 0) << cli_.err();
  EXPECT_EQ(WhoIs("beta"), "monsoon://lab/worker/0");
}

TEST_F(MemberCommandsTest, ALostAnswerIsAskedForAgainWithTheSameKey) {
  InitCluster();
  const std::string invitation = Invite({"--role=worker"});
  On("beta");
  door_.lost_answers = 2;
  EXPECT_EQ(Run({"join", invitation, "--task=0"}), 0) << cli_.err();
  EXPECT_EQ(door_.calls, 4);
  door_.lost_answers = 3;
  On("gamma");
  EXPECT_EQ(Run({"join", Invite({"--role=worker"}), "--task=1"}), 3);
}

TEST_F(MemberCommandsTest, AClockThatIsAnHourOffIsNamed) {
  InitCluster();
  const std::string invitation = Invite({"--role=worker", "--uses=2"});
  On("beta");
  cli_.clock.Advance(-absl::Hours(1));
  EXPECT_EQ(Run({"join", invitation, "--task=0"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("clock"));
  EXPECT_EQ(WhoIs("beta"), "");
}

TEST_F(MemberCommandsTest, AStoreThatOthersCanReadIsRefused) {
  InitCluster();
  const std::string invitation = Invite({"--role=worker"});
  const Identity ada = {Role::kOperator, "ada", "lab", ""};
  ASSERT_EQ(chmod(Store("alpha").MemberPath(ada).c_str(), 0644), 0);
  EXPECT_EQ(Run({"join", invitation}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("chmod 600"));
  EXPECT_EQ(door_.calls, 0);
}

TEST_F(MemberCommandsTest, LifetimesHaveUnits) {
  EXPECT_EQ(*ParseLifetime("90m"), absl::Minutes(90));
  EXPECT_EQ(*ParseLifetime("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseLifetime("7d"), absl::Hours(168));
  for (const char* const text : {"", "7", "d", "7days", "x"}) {
    EXPECT_FALSE(ParseLifetime(text).ok()) << text;
  }
}

}  // namespace
}  // namespace monsoon
