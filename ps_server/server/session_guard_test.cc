#include "ps_server/server/session_guard.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "common/security/access.h"
#include "common/security/member_id.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

Caller Worker(const std::string& name, char key) {
  Caller caller{.address = "ipv4:10.0.0.5:1"};
  Peer& peer = caller.member.emplace();
  peer.identity = {Role::kWorker, name, "lab", ""};
  peer.key_fingerprint = std::string(32, key);
  return caller;
}

class SessionGuardTest : public ShardTest {
 protected:
  // Session 2 is worker/7's, session 1 nobody's.
  void SetUp() override {
    ShardTest::SetUp();
    owned_ = session_;
    owned_.set_worker(2);
    ASSERT_OK(shard_.OpenSession(owned_, 0, 0, ToProto(owner_)));
  }

  // Calls `check` with a request of each kind that has a session, of this one.
  template <typename Check>
  void ForEachKind(const SessionKey& session, Check check) {
    int kinds = 0;
    const google::protobuf::OneofDescriptor& all = *DataHeader::descriptor()->oneof_decl(0);
    for (int i = 0; i < all.field_count(); ++i) {
      const auto* const field = all.field(i)->message_type()->FindFieldByName("session");
      if (field == nullptr) {
        continue;
      }
      DataHeader request;
      google::protobuf::Message* const message =
          request.GetReflection()->MutableMessage(&request, all.field(i));
      message->GetReflection()->MutableMessage(message, field)->CopyFrom(session);
      check(all.field(i)->name(), &request);
      ++kinds;
    }
    EXPECT_EQ(kinds, 7);
  }

  const Caller owner_ = Worker("7", 'a');
  SessionKey owned_;
};

TEST_F(SessionGuardTest, EachKindWithASessionIsItsOwnersAlone) {
  ForEachKind(owned_, [&](const std::string& kind, DataHeader* request) {
    const std::string before = request->SerializeAsString();
    EXPECT_OK(GuardSession(shard_, owner_, request)) << kind;
    EXPECT_THAT(GuardSession(shard_, Worker("9", 'b'), request),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr("worker/2#1 is worker/7's"), HasSubstr("worker/9"))))
        << kind;
    EXPECT_THAT(GuardSession(shard_, Worker("7", 'b'), request),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("another key")))
        << kind;
    EXPECT_EQ(request->SerializeAsString(), before) << kind;
  });
}

TEST_F(SessionGuardTest, AnOpenSessionIsNotOpenedAsAnothers) {
  EXPECT_OK(shard_.OpenSession(owned_, 0, 0, ToProto(owner_)));
  for (const MemberIdentity& other : {ToProto(Worker("9", 'b')), MemberIdentity()}) {
    EXPECT_THAT(shard_.OpenSession(owned_, 0, 0, other),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is worker/7's")));
  }
  MemberIdentity wrong;
  wrong.set_identity("worker/7");
  SessionKey later = owned_;
  later.set_incarnation(2);
  EXPECT_THAT(shard_.OpenSession(later, 0, 0, wrong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
}

TEST_F(SessionGuardTest, EachSessionThatComesBackIsSomebodys) {
  RestoreShardJobRequest request;
  *request.mutable_create() = request_;
  *request.add_session() = session_;
  *request.add_session() = owned_;
  const auto restore = [&] { return OwnersToBind(request); };
  ASSERT_OK_AND_ASSIGN(auto owners, restore());
  EXPECT_EQ(owners[(SessionId{2, 1})], std::nullopt);
  *request.add_session_member() = ToProto(owner_);
  EXPECT_THAT(restore(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 sessions of 1 members")));
  request.mutable_session_member()->Clear();
  request.add_session_member();
  *request.add_session_member() = ToProto(owner_);
  ASSERT_OK_AND_ASSIGN(owners, restore());
  EXPECT_EQ(owners[(SessionId{1, 1})], std::nullopt);
  ASSERT_TRUE(owners[(SessionId{2, 1})].has_value());
  EXPECT_TRUE(IsMember(*owners[(SessionId{2, 1})], *owner_.member));
  request.mutable_session_member(0)->set_identity("worker/7");
  EXPECT_THAT(restore(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
}

TEST_F(SessionGuardTest, NobodysSessionIsAnybodys) {
  ForEachKind(session_, [&](const std::string& kind, DataHeader* request) {
    EXPECT_OK(GuardSession(shard_, Worker("9", 'b'), request)) << kind;
    EXPECT_EQ(SessionOf(request)->incarnation(), 1u) << kind;
  });
}

TEST_F(SessionGuardTest, WhoIsThisUserSpeaksForAll) {
  ForEachKind(owned_, [&](const std::string& kind, DataHeader* request) {
    EXPECT_OK(GuardSession(shard_, {.open = true}, request)) << kind;
    EXPECT_EQ(SessionOf(request)->incarnation(), 1u) << kind;
  });
}

TEST_F(SessionGuardTest, ASessionThatOpensMeanwhileIsNotTheFrames) {
  SessionKey later = owned_;
  later.set_incarnation(2);
  SessionKey elsewhere = owned_;
  elsewhere.set_job_term(5);
  for (const SessionKey& session : {later, elsewhere}) {
    ForEachKind(session, [&](const std::string& kind, DataHeader* request) {
      EXPECT_OK(GuardSession(shard_, Worker("9", 'b'), request)) << kind;
      EXPECT_EQ(SessionOf(request)->incarnation(), kNoIncarnation) << kind;
    });
  }
  PushRequest push = MakePush(0, 1);
  *push.mutable_session() = later;
  DataHeader request;
  *request.mutable_push() = push;
  ASSERT_OK(GuardSession(shard_, Worker("9", 'b'), &request));
  ASSERT_OK(shard_.OpenSession(later, 0, 0, ToProto(owner_)));
  EXPECT_EQ(PushOne(request.push(), Vector(kStripe)).verdict(), REFUSED_SESSION);
  EXPECT_EQ(PushOne(push, Vector(kStripe)).verdict(), APPLIED);
}

TEST_F(SessionGuardTest, AClosedSessionIsNobodys) {
  ASSERT_OK(shard_.CloseSession(owned_));
  ForEachKind(owned_, [&](const std::string& kind, DataHeader* request) {
    EXPECT_OK(GuardSession(shard_, Worker("9", 'b'), request)) << kind;
    EXPECT_EQ(SessionOf(request)->incarnation(), kNoIncarnation) << kind;
  });
}

TEST_F(SessionGuardTest, WhoOnlyReadsOrWritesInitialParametersSpeaksForNoSession) {
  DataHeader fetch;
  *fetch.mutable_fetch()->mutable_session() = owned_;
  fetch.mutable_fetch()->set_read_only(true);
  DataHeader rows;
  *rows.mutable_row_fetch()->mutable_session() = owned_;
  rows.mutable_row_fetch()->set_read_only(true);
  DataHeader write;
  write.mutable_write()->set_job(owned_.job());
  DataHeader row_write;
  row_write.mutable_row_write()->set_job(owned_.job());
  for (DataHeader* request : {&fetch, &rows, &write, &row_write}) {
    EXPECT_EQ(SessionOf(request), nullptr);
    EXPECT_OK(GuardSession(shard_, Worker("9", 'b'), request));
  }
}

TEST_F(SessionGuardTest, EveryRequestSpeaksForASessionOrForNone) {
  const std::set<std::string> for_none = {"write", "row_write", "peer"};
  for (const AccessRow& row : AccessTable()) {
    if (!absl::StartsWith(row.what, "frame ")) {
      continue;
    }
    const std::string kind(row.what.substr(6));
    DataHeader request;
    request.GetReflection()->MutableMessage(&request,
                                            DataHeader::descriptor()->FindFieldByName(kind));
    EXPECT_EQ(SessionOf(&request) == nullptr, for_none.contains(kind)) << kind;
  }
}

}  // namespace
}  // namespace monsoon
