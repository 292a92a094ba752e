#include "worker/session/taken_stream.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TakenStreamTest : public ::testing::Test {
 protected:
  // What the coordinator answers, one after another; the last one again and again.
  void Script(std::vector<absl::StatusOr<TakeStreamReply>> replies) {
    coordinator_.take_stream = [this,
                                replies = std::move(replies)](const TakeStreamRequest& request) {
      EXPECT_EQ(request.stream(), "part-0");
      return replies.at(std::min(asked_++, replies.size() - 1));
    };
  }
  static TakeStreamReply Held() {
    TakeStreamReply reply;
    reply.set_retry_ms(1);
    reply.set_patience_ms(5);
    reply.set_held_by("worker/3");
    return reply;
  }
  static TakeStreamReply Mine() {
    TakeStreamReply reply;
    reply.mutable_position()->set_state("7");
    return reply;
  }
  absl::StatusOr<StreamPosition> Take() {
    return TakeStream(&coordinator_, SessionKey(), "part-0", &control_);
  }

  testing::FakeCoordinator coordinator_;
  SessionControl control_{Clock::Real(), absl::Seconds(3)};
  size_t asked_ = 0;
};

TEST_F(TakenStreamTest, AsksUntilTheOneBeforeIsGone) {
  Script({absl::UnavailableError("away"), Held(), Held(), Mine()});
  ASSERT_OK_AND_ASSIGN(const StreamPosition position, Take());
  EXPECT_EQ(position.state(), "7");
  EXPECT_EQ(asked_, 4u);
}

TEST_F(TakenStreamTest, OneThatLivesIsNamed) {
  Script({Held()});
  EXPECT_THAT(Take().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("part-0"), HasSubstr("worker/3"), HasSubstr("alive"))));
  EXPECT_EQ(asked_, 6u);
}

TEST_F(TakenStreamTest, EndsWithItsSession) {
  Script({absl::FailedPreconditionError("join again")});
  EXPECT_THAT(Take().status(), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  Script({absl::UnavailableError("away")});
  control_.Stop();
  EXPECT_THAT(Take().status(), StatusIs(absl::StatusCode::kCancelled, _));
}

}  // namespace
}  // namespace monsoon
