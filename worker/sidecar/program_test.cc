#include "worker/sidecar/program.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/client/monsoon.h"
#include "worker/sidecar/fake_program.h"

namespace monsoon {
namespace {

using ::monsoon::testing::FakeProgram;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);

TEST(ProgramTest, ACallIsOutstandingUntilItsAnswer) {
  FakeProgram fake;
  EXPECT_EQ(fake.seen().call(), nullptr);
  ASSERT_OK_AND_ASSIGN(const Message* call, fake.seen().AwaitCall(absl::ZeroDuration()));
  EXPECT_EQ(call, nullptr) << "none has come";
  fake.Call(MessageKind::kStep, "abc");
  ASSERT_OK_AND_ASSIGN(call, fake.seen().AwaitCall(kLong));
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->kind, MessageKind::kStep);
  EXPECT_EQ(call->fields, "abc");
  ASSERT_OK_AND_ASSIGN(const Message* const again, fake.seen().AwaitCall(absl::ZeroDuration()));
  EXPECT_EQ(again, call);
  fake.seen().SetFigures([] {
    EventFigures figures;
    figures.pushes = 12;
    return figures;
  });
  fake.seen().Answer(MONSOON_GO);
  EXPECT_EQ(fake.seen().call(), nullptr);
  const FakeProgram::Event event = fake.AwaitEvent();
  EXPECT_EQ(event.figures.kind, MONSOON_GO);
  EXPECT_EQ(event.figures.pushes, 12u);
  EXPECT_EQ(event.figures.parameters_changed, 0);
  EXPECT_EQ(event.rest, std::string(4, '\0')) << "no batches";
}

TEST(ProgramTest, ParametersAndDiscardedBatchesAreToldOnce) {
  FakeProgram fake;
  fake.Join(3);
  fake.seen().Discard();
  EXPECT_TRUE(fake.seen().discards());
  const float parameters[] = {1, 2, 3};
  for (const bool first : {true, false}) {
    fake.Call(MessageKind::kDraw);
    ASSERT_OK(fake.seen().AwaitCall(kLong));
    if (first) {
      fake.seen().SetParameters(parameters);
    }
    fake.seen().Answer(MONSOON_GO, /*parameters_changed=*/first);
    const FakeProgram::Event event = fake.AwaitEvent();
    EXPECT_EQ(event.figures.discarded, first);
    EXPECT_EQ(event.figures.parameters_changed, first);
    EXPECT_EQ(event.rest, std::string(4, '\0')) << "no batches";
  }
  EXPECT_FALSE(fake.seen().discards());
  EXPECT_EQ(fake.seen().memory().parameters()[2], 3.0f);
}

TEST(ProgramTest, AnErrorHasItsCode) {
  FakeProgram fake;
  fake.Call(MessageKind::kStep);
  ASSERT_OK(fake.seen().AwaitCall(kLong));
  fake.seen().Refuse(absl::AbortedError("job gpt-1 has failed"));
  const Message answer = fake.AwaitAnswer();
  EXPECT_EQ(answer.kind, MessageKind::kError);
  FieldReader fields(answer.fields);
  EXPECT_EQ(fields.Number<uint32_t>(), static_cast<uint32_t>(absl::StatusCode::kAborted));
  EXPECT_EQ(fields.String(), "job gpt-1 has failed");
  EXPECT_TRUE(fields.ok());
}

TEST(ProgramTest, TheNextSidecarHasTheMemoryOfTheLast) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ProgramMemory> first, ProgramMemory::Create(5));
  first->gradient()[4] = 3.0f;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ProgramMemory> next,
                       ProgramMemory::Adopt(UniqueFd(dup(first->fd())), 5));
  EXPECT_EQ(next->gradient()[4], 3.0f);
  next->parameters()[0] = 2.0f;
  EXPECT_EQ(first->parameters()[0], 2.0f);
  EXPECT_THAT(ProgramMemory::Adopt(UniqueFd(dup(first->fd())), 100000).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("is not that of 100000 floats")));
}

TEST(ProgramTest, ACallMayBringTheMemory) {
  FakeProgram fake;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ProgramMemory> memory, ProgramMemory::Create(5));
  fake.Call(MessageKind::kJoin, "", memory->fd());
  ASSERT_OK(fake.seen().AwaitCall(kLong));
  EXPECT_OK(ProgramMemory::Adopt(fake.seen().TakePassed(), 5));
  EXPECT_LT(fake.seen().TakePassed().get(), 0);
}

TEST(ProgramTest, LeavingEndsTheWait) {
  FakeProgram fake;
  EXPECT_FALSE(fake.seen().leaving());
  EXPECT_FALSE(fake.seen().AwaitLeave(absl::ZeroDuration(), -1));
  fake.Leave();
  EXPECT_TRUE(fake.seen().leaving());
  EXPECT_TRUE(fake.seen().AwaitLeave(kLong, -1));
  EXPECT_THAT(fake.seen().AwaitCall(kLong),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("leaves")));
}

TEST(ProgramTest, AClosedSocketEndsTheWait) {
  FakeProgram fake;
  fake.Close();
  EXPECT_THAT(fake.seen().AwaitCall(kLong),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("closed")));
}

TEST(ProgramTest, AnAnswerThatNobodyTakesIsNoError) {
  FakeProgram fake;
  fake.Call(MessageKind::kStep);
  ASSERT_OK(fake.seen().AwaitCall(kLong));
  fake.Close();
  fake.seen().Answer(MONSOON_GO);
  EXPECT_FALSE(fake.seen().AwaitCall(kLong).ok());
}

TEST(ProgramTest, GarbageIsRefused) {
  FakeProgram fake;
  fake.Write(std::string(64, '\xff'));
  EXPECT_THAT(fake.seen().AwaitCall(kLong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("over 8 MiB")));
}

TEST(ProgramTest, HalfAMessageIsNoCall) {
  FakeProgram fake;
  fake.Write(std::string("\3\0\0\0\4\0\0\0ab", 10));
  ASSERT_OK_AND_ASSIGN(const Message* call, fake.seen().AwaitCall(absl::ZeroDuration()));
  EXPECT_EQ(call, nullptr);
  fake.Write("cd");
  ASSERT_OK_AND_ASSIGN(call, fake.seen().AwaitCall(kLong));
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->fields, "abcd");
}

}  // namespace
}  // namespace monsoon
