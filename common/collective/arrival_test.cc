// What a member makes of single frames, good and bad.
#include <string>
#include <vector>

#include "common/collective/member_core.h"
#include "common/collective/wait_chain.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Seconds(100);
constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr size_t kBytes = 8 * sizeof(float);

// Rank 1 of three, in a NAIVE call of 20 floats in parts of 8; rank 0 sends the three sums back.
class ArrivalTest : public ::testing::Test {
 protected:
  ArrivalTest()
      : plan_(
            MakePlan({Operation::kAllReduce, Algorithm::kNaive, SumOrder::kFixed, 0, 20, 8}, 1, 3)),
        core_({4, 1, {"a", "b", "c"}}),
        values_(20, 1.0f) {}

  void Start() { ASSERT_OK(core_.Start(&plan_, values_, kPatience, kNow)); }

  PeerHeader Sum(uint64_t number) const {
    PeerHeader header;
    header.generation = 4;
    header.sender = 0;
    header.receiver = 1;
    header.collective = 1;
    header.what = plan_.collective;
    header.number = number;
    header.index = static_cast<uint32_t>(number - 1);
    return header;
  }

  // Of rank 2, which has all of so many calls.
  PeerHeader GaveUp(const std::string& text, uint64_t calls) const {
    PeerHeader header;
    header.type = PeerHeader::Type::kGaveUp;
    header.generation = 4;
    header.sender = 2;
    header.receiver = 1;
    header.collective = calls;
    header.text = text;
    return header;
  }

  absl::StatusOr<MemberCore::Arrival> Arrive(const PeerHeader& header, size_t bytes = kBytes) {
    return core_.Arrive(header, bytes, kNow);
  }

  const Plan plan_;
  MemberCore core_;
  std::vector<float> values_;
};

TEST_F(ArrivalTest, AFrameHasItsPlaceInTheVector) {
  Start();
  ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival first, Arrive(Sum(1)));
  EXPECT_EQ(first.taking->to.data(), values_.data());
  EXPECT_EQ(first.taking->to.size(), 8u);
  EXPECT_FALSE(first.taking->add);
  ASSERT_OK(Arrive(Sum(2)).status());
  ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival last, Arrive(Sum(3), 4 * sizeof(float)));
  EXPECT_EQ(last.taking->to.data(), values_.data() + 16);
  EXPECT_EQ(last.taking->to.size(), 4u);
}

TEST_F(ArrivalTest, WhatWasSeenIsAnsweredAndDoesNothing) {
  Start();
  ASSERT_OK(Arrive(Sum(1)).status());
  ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival again, Arrive(Sum(1)));
  EXPECT_FALSE(again.taking.has_value());
  EXPECT_FALSE(again.keep);
}

TEST_F(ArrivalTest, AFrameBeforeTheOneBeforeItIsToComeAgain) {
  Start();
  EXPECT_THAT(Arrive(Sum(2)).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("frame 2 came before frame 1")));
  ASSERT_OK(Arrive(Sum(1)).status());
}

TEST_F(ArrivalTest, OtherGenerationsAndStrangersAreRefused) {
  Start();
  for (const uint64_t generation : {0, 3, 5}) {
    PeerHeader header = Sum(1);
    header.generation = generation;
    EXPECT_THAT(Arrive(header).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the group is at 4")));
  }
  for (const uint32_t sender : {1u, 3u, UINT32_MAX}) {
    PeerHeader header = Sum(1);
    header.sender = sender;
    EXPECT_THAT(Arrive(header).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("here is rank 1 of 3")));
  }
  PeerHeader header = Sum(1);
  header.receiver = 2;
  EXPECT_THAT(Arrive(header).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  // None of them counts as the frame.
  ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival first, Arrive(Sum(1)));
  EXPECT_TRUE(first.taking.has_value());
}

TEST_F(ArrivalTest, WhatThePlanDoesNotExpectIsRefused) {
  Start();
  EXPECT_THAT(Arrive(Sum(1), kBytes - 4).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no frame 0 of 7 floats")));
  EXPECT_THAT(Arrive(Sum(1), kBytes + 4).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(Arrive(Sum(1), kBytes - 1).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(Arrive(Sum(1), 0).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  PeerHeader header = Sum(1);
  header.index = 3;
  EXPECT_THAT(Arrive(header).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  header = Sum(1);
  header.sender = 2;  // sends nothing in this plan
  EXPECT_THAT(Arrive(header).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  header = Sum(1);
  header.what.count = 21;
  EXPECT_THAT(Arrive(header).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("of 21 floats"), HasSubstr("of 20 floats"))));
  header = Sum(1);
  header.consumed = 1;  // nothing was sent
  EXPECT_THAT(Arrive(header).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
  // A place is filled once.
  ASSERT_OK(Arrive(Sum(1)).status());
  header = Sum(2);
  header.index = 0;
  EXPECT_THAT(Arrive(header).status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST_F(ArrivalTest, WhatComesEarlyIsKeptAndNoMoreThanTheWindow) {
  for (uint64_t number = 1; number <= 3; ++number) {
    ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival early,
                         Arrive(Sum(number), number == 3 ? 16 : kBytes));
    ASSERT_TRUE(early.keep);
    AlignedFloats floats(number == 3 ? 4 : 8);
    floats.Fill(static_cast<float>(number));
    EXPECT_FALSE(core_.Keep(Sum(number), std::move(floats)));
  }
  EXPECT_EQ(core_.AnswerTo(Sum(1)).consumed, 0u);
  ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival fourth, Arrive(Sum(4)));
  EXPECT_TRUE(fourth.keep);
  EXPECT_THAT(Arrive(Sum(5)).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("more than 4 frames")));
  Start();
  int taken = 0;
  while (const auto kept = core_.NextKept()) {
    EXPECT_EQ(kept->taking.to.size(), kept->floats.size());
    core_.EndTaking(kept->taking);
    ++taken;
  }
  EXPECT_EQ(taken, 3);
  EXPECT_EQ(core_.AnswerTo(Sum(1)).consumed, 3u);
}

TEST_F(ArrivalTest, AKeptFrameOfAnotherCallEndsTheGeneration) {
  PeerHeader header = Sum(1);
  header.what.algorithm = Algorithm::kTree;
  ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival early, Arrive(header));
  ASSERT_TRUE(early.keep);
  core_.Keep(header, AlignedFloats(8));
  Start();
  EXPECT_FALSE(core_.NextKept().has_value());
  EXPECT_THAT(core_.failed(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("TREE")));
}

TEST_F(ArrivalTest, AFrameOfACallThatIsOverIsRefused) {
  Start();
  PeerHeader header = Sum(1);
  header.collective = 0;
  EXPECT_THAT(Arrive(header).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("which is over")));
}

TEST_F(ArrivalTest, NoMoreThanTheWindowGoes) {
  const Plan plan =
      MakePlan({Operation::kAllReduce, Algorithm::kNaive, SumOrder::kFixed, 0, 20, 2}, 1, 3);
  ASSERT_OK(core_.Start(&plan, values_, kPatience, kNow));
  for (uint64_t number = 1; number <= MemberCore::kWindow; ++number) {
    const auto out = core_.NextFrame(0, kNow);
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->header.number, number);
  }
  EXPECT_FALSE(core_.NextFrame(0, kNow).has_value());
  core_.Answered(0, 1, {}, kNow);  // kept there
  EXPECT_FALSE(core_.NextFrame(0, kNow).has_value());
  core_.Answered(0, 2, {.consumed = 1}, kNow);
  EXPECT_TRUE(core_.NextFrame(0, kNow).has_value());
  core_.Answered(0, 3, {.consumed = 9}, kNow);
  EXPECT_THAT(core_.failed(), StatusIs(absl::StatusCode::kInternal, _));
}

TEST_F(ArrivalTest, TheFirstErrorIsTheLastAndGoesToAllOthers) {
  Start();
  core_.Fail(absl::CancelledError("first"));
  core_.Fail(absl::InternalError("second"));
  for (const uint32_t peer : {0, 2}) {
    const auto out = core_.NextFrame(peer, kNow);
    ASSERT_TRUE(out.has_value());
    EXPECT_EQ(out->header.type, PeerHeader::Type::kGaveUp);
    EXPECT_EQ(out->header.collective, 0u) << "the call is not done with";
    EXPECT_EQ(out->header.text, "first");
    EXPECT_FALSE(core_.NextFrame(peer, kNow).has_value());
  }
  EXPECT_THAT(Arrive(Sum(1)).status(), StatusIs(absl::StatusCode::kAborted, "gave up: first"));
  core_.Stop();
  EXPECT_THAT(core_.Start(&plan_, values_, kPatience, kNow),
              StatusIs(absl::StatusCode::kCancelled, "first"));
}

TEST_F(ArrivalTest, WhoIsNotNeededAnyMoreMayLeave) {
  Start();  // rank 2 neither sends to this member nor takes
  for (int i = 0; i < 20; ++i) {
    core_.Broken(2, absl::UnavailableError("gone"), kNow + i * absl::Seconds(1));
    EXPECT_FALSE(core_.NextFrame(2, kNow + i * absl::Seconds(1)).has_value());
  }
  // It is asked all the same where somebody says that he waits for it.
  core_.Tick(kNow + kPatience / 2);
  std::optional<MemberCore::Outgoing> out;
  while ((out = core_.NextFrame(0, kNow)).has_value()) {
    core_.Answered(0, out->request_id, {.collective = 1, .waits_for = 2}, kNow);
  }
  ASSERT_TRUE(core_.NextFrame(2, kNow).has_value());
  core_.Refused(2, absl::FailedPreconditionError("its member has left"), kNow);
  EXPECT_OK(core_.failed());
  core_.Refused(0, absl::FailedPreconditionError("its member has left"), kNow);
  EXPECT_THAT(core_.failed(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a: its member has left")));
}

TEST_F(ArrivalTest, WhoLeavesAfterACallEndsTheNextOne) {
  Start();
  ASSERT_OK(Arrive(GaveUp("the member has left", 1), 0).status());
  EXPECT_OK(core_.failed());
  std::optional<MemberCore::Outgoing> out;
  while ((out = core_.NextFrame(0, kNow)).has_value()) {
    core_.Answered(0, out->request_id, {.consumed = out->header.number}, kNow);
  }
  for (uint64_t number = 1; number <= 3; ++number) {
    ASSERT_OK_AND_ASSIGN(const MemberCore::Arrival arrival,
                         Arrive(Sum(number), number == 3 ? 4 * sizeof(float) : kBytes));
    core_.EndTaking(*arrival.taking);
  }
  EXPECT_TRUE(core_.finished());
  core_.Stop();
  EXPECT_THAT(core_.Start(&plan_, values_, kPatience, kNow),
              StatusIs(absl::StatusCode::kAborted, "c gave up: the member has left"));
}

TEST_F(ArrivalTest, WhoGivesUpWithinACallEndsIt) {
  Start();
  ASSERT_OK(Arrive(GaveUp("the session ends", 0), 0).status());
  EXPECT_THAT(core_.failed(), StatusIs(absl::StatusCode::kAborted, "c gave up: the session ends"));
  EXPECT_FALSE(core_.NextFrame(0, kNow).has_value()) << "it has told all others itself";
}

TEST_F(ArrivalTest, WhoIsNeededAndGoneIsNamedBeforeThePatienceEnds) {
  Start();
  absl::Duration now = kNow;
  while (core_.failed().ok() && now < kNow + kPatience) {
    core_.Broken(0, absl::UnavailableError("connection refused"), now);
    now += core_.failed().ok() ? core_.Tick(now) : absl::ZeroDuration();
  }
  EXPECT_THAT(core_.failed(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("a is gone: connection refused")));
  EXPECT_LT(now, kNow + absl::Seconds(2));
}

TEST_F(ArrivalTest, SilenceIsCountedFromTheLastFloats) {
  Start();
  EXPECT_EQ(core_.Tick(kNow), kPatience / 2);
  ASSERT_OK(core_.Arrive(Sum(1), kBytes, kNow + kPatience / 2).status());
  core_.Tick(kNow + kPatience);
  EXPECT_OK(core_.failed());
  core_.Tick(kNow + kPatience / 2 + kPatience);
  EXPECT_THAT(core_.failed(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("a has sent nothing for 10s in call 1, all-reduce of 20"),
                             HasSubstr("b waits for a to send part 2 of 3"))));
}

TEST(WaitChainTest, LeadsToTheOneWhoHoldsUpAll) {
  WaitChain chain;
  EXPECT_EQ(chain.blamed(5), 5u);
  EXPECT_TRUE(chain.Begin(2));
  EXPECT_FALSE(chain.Begin(2));
  EXPECT_EQ(chain.Note(2, {0, 7, 1}, /*self=*/3, /*members=*/4, 7), 1u);
  EXPECT_EQ(chain.blamed(5), 1u);
  EXPECT_EQ(chain.Note(2, {0, 7, 0}, 3, 4, 7), std::nullopt);  // was asked before
  EXPECT_EQ(chain.Note(1, {0, 7, 2}, 3, 4, 7), std::nullopt);  // a circle
  EXPECT_EQ(chain.Describe({"a", "b", "c", "d"}), "; it is there, in this call; c waits for b");
  EXPECT_TRUE(chain.Begin(0));
  EXPECT_EQ(chain.Note(0, {}, 3, 4, 7), std::nullopt);
  EXPECT_THAT(chain.Describe({"a"}), HasSubstr("has not come to this call"));
}

}  // namespace
}  // namespace monsoon
