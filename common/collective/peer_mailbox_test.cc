#include "common/collective/peer_mailbox.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::IsOk;
using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

Caller Member(const std::string& number) {
  Caller caller;
  caller.member = Peer{.identity = {.role = Role::kWorker, .name = number, .cluster = "c"}};
  return caller;
}

class PeerMailboxTest : public ::testing::Test {
 protected:
  PeerMailboxTest() {
    mailbox_.Register(&kinds_);
    const Group group{.generation = 3,
                      .rank = 0,
                      .names = {"worker/0 at a:1", "worker/1 at b:1", "worker/12 at c:1"},
                      .callers = {"worker/0", "worker/1", "worker/12"}};
    EXPECT_THAT(mailbox_.Open(3, std::make_shared<Seat>(group, nullptr)), IsOk());
  }

  // What a question of rank `sender` is answered with, if `caller` brings it.
  absl::StatusOr<ServedFrame> Ask(uint32_t sender, const Caller& caller, uint64_t generation = 3) {
    PeerHeader header;
    header.type = PeerHeader::Type::kAsk;
    header.generation = generation;
    header.sender = sender;
    header.receiver = 0;
    DataHeader request;
    request.mutable_peer()->set_kind(kCollectiveKind);
    request.mutable_peer()->set_body(EncodePeerHeader(header));
    ChunkCursor payload({});
    FrameScratch scratch;
    scratch.SetCaller(caller);
    return (*kinds_.Find(request))(&request, &payload, &scratch);
  }

  PeerMailbox mailbox_;
  FrameKinds kinds_;
};

TEST_F(PeerMailboxTest, AFrameIsOfTheMemberThatItNames) {
  EXPECT_THAT(Ask(1, Member("1")).status(), IsOk());
  EXPECT_THAT(Ask(2, Member("12")).status(), IsOk());
  EXPECT_THAT(Ask(1, Member("12")), StatusIs(absl::StatusCode::kPermissionDenied,
                                             HasSubstr("worker/12 sends in the name of worker/1")));
  EXPECT_THAT(Ask(2, Member("1")), StatusIs(absl::StatusCode::kPermissionDenied, _));
  EXPECT_THAT(Ask(1, Member("7")), StatusIs(absl::StatusCode::kPermissionDenied, _));
}

TEST_F(PeerMailboxTest, ThisMachinesUserIsBelieved) {
  EXPECT_THAT(Ask(1, Caller{.open = true}).status(), IsOk());
}

TEST_F(PeerMailboxTest, GenerationsThatAreOverAreRefusedAndLaterOnesComeAgain) {
  EXPECT_THAT(Ask(1, Member("1"), 2), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  const absl::StatusOr<ServedFrame> later = Ask(1, Member("1"), 4);
  ASSERT_THAT(later.status(), IsOk());
  EXPECT_EQ(later->first->header.error().verdict(), REFUSED_BUSY);
  mailbox_.Close(3);
  EXPECT_THAT(Ask(1, Member("1")), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_EQ(mailbox_.newest(), 3u);
}

}  // namespace
}  // namespace monsoon
