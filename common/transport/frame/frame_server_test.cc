#include "common/transport/frame/frame_server.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMessageMemory = 64 << 20;

// Counts down to 1, a frame a number.
class Countdown final : public AnswerSource {
 public:
  explicit Countdown(uint32_t from) : next_(from) {}

  std::optional<FrameAnswer> Next() override {
    if (next_ == 0) {
      return std::nullopt;
    }
    FrameAnswer answer;
    answer.header.mutable_peer()->set_kind(next_--);
    return answer;
  }

 private:
  uint32_t next_;
};

constexpr uint32_t kCountdown = 7;
constexpr uint32_t kRefuse = 8;

class TestHandler final : public FrameHandler {
 public:
  void Register(FrameKinds* kinds) override {
    kinds->Add(DataHeader::kWrite,
               [this](DataHeader* request, ChunkCursor* payload,
                      FrameScratch*) -> absl::StatusOr<ServedFrame> {
                 ++writes;
                 ServedFrame served;
                 served.first.emplace().header.mutable_write_reply()->set_stripes(
                     static_cast<uint32_t>(payload->remaining()));
                 return served;
               });
    kinds->AddPeer(
        kCountdown,
        [](DataHeader* request, ChunkCursor*, FrameScratch*) -> absl::StatusOr<ServedFrame> {
          return ServedFrame{
              std::nullopt,
              std::make_unique<Countdown>(static_cast<uint32_t>(request->peer().body().size()))};
        });
    kinds->AddPeer(kRefuse,
                   [](DataHeader*, ChunkCursor*, FrameScratch*) -> absl::StatusOr<ServedFrame> {
                     return absl::NotFoundError(std::string(100'000, 'x'));
                   });
  }

  int writes = 0;
};

class FrameServerTest : public ::testing::Test {
 protected:
  // All answers to one request, decoded.
  static std::vector<DataHeader> Call(FrameServer* server, const std::string& bytes) {
    FrameCall call(server);
    const ByteChunk chunk = std::as_bytes(std::span(bytes));
    FrameScratch scratch;
    std::vector<DataHeader> answers;
    if (!call.Serve({&chunk, 1}, &scratch)) {
      return answers;
    }
    while (const std::optional<FrameCall::Answer> answer = call.NextAnswer()) {
      const ByteChunk head = std::as_bytes(std::span(answer->head));
      ChunkCursor cursor({&head, 1});
      absl::StatusOr<DataHeader> header = DecodeFrameHead(&cursor);
      EXPECT_OK(header.status());
      answers.push_back(*std::move(header));
    }
    return answers;
  }

  static std::string PeerRequest(uint32_t kind, const std::string& body) {
    DataHeader header;
    header.set_request_id(300);
    header.mutable_peer()->set_kind(kind);
    header.mutable_peer()->set_body(body);
    return EncodeFrameHead(header);
  }

  TestHandler handler_;
  FrameServer server_{&handler_, kMessageMemory, FaultOptions()};
};

TEST_F(FrameServerTest, GivesARequestToWhoRegisteredItsKind) {
  DataHeader write;
  write.set_request_id(5);
  write.mutable_write();
  const std::vector<DataHeader> answers = Call(&server_, EncodeFrameHead(write) + "payload");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].request_id(), 5u);
  EXPECT_EQ(answers[0].write_reply().stripes(), 7u);
}

TEST_F(FrameServerTest, SendsAllFramesOfASource) {
  std::vector<uint32_t> numbers;
  for (const DataHeader& answer : Call(&server_, PeerRequest(kCountdown, "abc"))) {
    EXPECT_EQ(answer.request_id(), 300u);
    numbers.push_back(answer.peer().kind());
  }
  EXPECT_THAT(numbers, ElementsAre(3u, 2u, 1u));
  EXPECT_TRUE(Call(&server_, PeerRequest(kCountdown, "")).empty());
}

TEST_F(FrameServerTest, RefusesKindsThatNobodyRegistered) {
  DataHeader push;
  push.set_request_id(300);
  push.mutable_push();
  DataHeader none;
  none.set_request_id(300);
  // A PeerFrame's kind is not that of a message of the same number.
  const uint32_t write = DataHeader::kWrite;
  for (const std::string& request : {EncodeFrameHead(push), EncodeFrameHead(none),
                                     PeerRequest(write, ""), PeerRequest(kCountdown + 2, "")}) {
    const std::vector<DataHeader> answers = Call(&server_, request);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].request_id(), 300u);
    EXPECT_EQ(answers[0].error().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(answers[0].error().message(), "the frame is no request that this server knows");
  }
  EXPECT_EQ(handler_.writes, 0);
}

TEST_F(FrameServerTest, TellsAHandlersErrorInAFrame) {
  const std::vector<DataHeader> answers = Call(&server_, PeerRequest(kRefuse, ""));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].request_id(), 300u);
  EXPECT_EQ(answers[0].error().code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_THAT(answers[0].error().message(), HasSubstr("xxx"));
  EXPECT_EQ(answers[0].error().verdict(), VERDICT_UNSPECIFIED);
}

TEST_F(FrameServerTest, RefusesWhatIsNoFrame) {
  const std::vector<DataHeader> answers = Call(&server_, "not a frame");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_THAT(answers[0].error().message(), HasSubstr("MSN1"));
}

TEST_F(FrameServerTest, AdmitsAgainWhatHasGone) {
  FrameServer small(&handler_, /*message_memory_bytes=*/1, FaultOptions());
  {
    const absl::StatusOr<FrameServer::Admission> only = small.Admit(MessageBudget::Kind::kStream);
    ASSERT_OK(only.status());
    EXPECT_THAT(small.Admit(MessageBudget::Kind::kStream).status(),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("message_memory_mib")));
  }
  EXPECT_OK(small.Admit(MessageBudget::Kind::kStream).status());
}

TEST_F(FrameServerTest, LosesFramesUnderFaults) {
  FaultOptions fault;
  fault.drop = 0.5;
  fault.delay_ms = 3;
  FrameServer faulty(&handler_, kMessageMemory, fault);
  EXPECT_EQ(FrameCall(&faulty).delay(), absl::Milliseconds(3));
  DataHeader write;
  write.mutable_write();
  constexpr int kCalls = 400;
  int answered = 0;
  for (int i = 0; i < kCalls; ++i) {
    answered += Call(&faulty, EncodeFrameHead(write)).empty() ? 0 : 1;
  }
  // Half are lost, of these half before they were served.
  EXPECT_NEAR(answered, kCalls / 2, 60);
  EXPECT_NEAR(handler_.writes, kCalls * 3 / 4, 60);
}

TEST_F(FrameServerTest, SharesNothingByItself) {
  EXPECT_THAT(server_.Share(FetchRequest(), nullptr).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("shares no memory")));
  FaultOptions fault;
  fault.delay_ms = 1;
  FrameServer faulty(&handler_, kMessageMemory, fault);
  EXPECT_THAT(faulty.Share(FetchRequest(), nullptr).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("under --fault")));
}

TEST(FrameKindsDeathTest, TakesAKindOnce) {
  const auto serve = [](DataHeader*, ChunkCursor*, FrameScratch*) -> absl::StatusOr<ServedFrame> {
    return ServedFrame();
  };
  FrameKinds kinds;
  kinds.Add(DataHeader::kPush, serve);
  kinds.AddPeer(DataHeader::kPush, serve);  // another kind
  EXPECT_DEATH(kinds.Add(DataHeader::kPush, serve), "is_new");
  EXPECT_DEATH(kinds.AddPeer(DataHeader::kPush, serve), "is_new");
  EXPECT_DEATH(kinds.Add(DataHeader::kPeer, serve), "kPeer");
}

TEST(FrameScratchTest, HoldsAPayload) {
  FrameScratch scratch;
  EXPECT_EQ(scratch.floats()->size() * sizeof(float), kMaxFramePayloadBytes);
  EXPECT_EQ(scratch.floats()->data(), scratch.floats()->data());
}

}  // namespace
}  // namespace monsoon
