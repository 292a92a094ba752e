// Frames between two processes of which none is a parameter server, over both
// transports.
#include <signal.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/testing/status_matchers.h"
#include "common/transport/choosing_transport.h"
#include "common/transport/frame/exchange.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/summing_peer.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using Floats = std::vector<float>;

constexpr absl::Duration kDeadline = absl::Seconds(30);
constexpr uint64_t kMessageMemory = 64 << 20;

Floats Numbers(size_t size) {
  Floats numbers(size);
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  return numbers;
}

// What came as answers to one request.
struct Answers {
  std::vector<std::string> bodies;
  Floats floats;
  absl::Status error;  // of a DataError
};

class PeerFramesTest : public ::testing::TestWithParam<Transport> {
 protected:
  void Start(uint64_t message_memory_bytes) {
    absl::StatusOr<SummingPeer> peer = StartSummingPeer(message_memory_bytes);
    ASSERT_OK(peer);
    peer_ = std::make_unique<SummingPeer>(*std::move(peer));
  }

  std::unique_ptr<FrameTransport> Connect() {
    return ChoosingTransport::Create(
        GetParam(), {peer_->address}, /*tls=*/nullptr, /*connections=*/2, kDeadline,
        [this](uint32_t, absl::Duration) { return peer_->offer; }, &report_);
  }

  static RequestFrame MakeRequest(uint64_t id, uint32_t kind, const Floats& floats) {
    DataHeader header;
    header.set_request_id(id);
    header.mutable_peer()->set_kind(kind);
    header.mutable_peer()->set_body("asked");
    return {
        id,
        {std::make_shared<std::string>(EncodeFrameHead(header)), std::as_bytes(std::span(floats))}};
  }

  // The answers to requests of these kinds with the same floats, in one exchange.
  absl::StatusOr<std::vector<Answers>> Call(FrameTransport* transport,
                                            const std::vector<uint32_t>& kinds,
                                            const Floats& floats) {
    std::vector<std::vector<RequestFrame>> requests(1);
    for (const uint32_t kind : kinds) {
      requests[0].push_back(MakeRequest(requests[0].size(), kind, floats));
    }
    std::vector<Answers> all(kinds.size());
    const auto take = [&](uint32_t, const DataHeader& header,
                          ChunkCursor* payload) -> absl::StatusOr<Answer> {
      Answers& answers = all[header.request_id()];
      if (header.has_error()) {
        answers.error = absl::Status(static_cast<absl::StatusCode>(header.error().code()),
                                     header.error().message());
        return Answer::kDone;
      }
      answers.bodies.push_back(header.peer().body());
      const size_t size = payload->remaining() / sizeof(float);
      answers.floats.resize(answers.floats.size() + size);
      payload->Copy(size * sizeof(float), answers.floats.data() + answers.floats.size() - size);
      const bool part = header.peer().kind() == kEchoFloats && header.peer().body() != kLastEcho;
      return part ? Answer::kPart : Answer::kDone;
    };
    ExchangeContext context{&names_, kDeadline, &cancelled_, Clock::Real()};
    context.any_order = true;
    const absl::Status status = RunExchange(context, requests, transport, take, &counts_);
    if (!status.ok()) {
      return status;
    }
    return all;
  }

  std::unique_ptr<SummingPeer> peer_;
  TransportReport report_{"test", {"peer/0"}};
  const std::vector<std::string> names_ = {"peer/0"};
  std::atomic<bool> cancelled_{false};
  ExchangeCounts counts_;
};

TEST_P(PeerFramesTest, AHandlersOwnKindsAreServed) {
  ASSERT_NO_FATAL_FAILURE(Start(kMessageMemory));
  const auto transport = Connect();
  const Floats numbers = Numbers(2'500);
  ASSERT_OK_AND_ASSIGN(const auto answers,
                       Call(transport.get(), {kSumFloats, kEchoFloats, kSumFloats}, numbers));
  for (const size_t sum : {0, 2}) {
    EXPECT_THAT(answers[sum].bodies, ElementsAre("asked"));
    EXPECT_THAT(answers[sum].floats, ElementsAre(2'500.0f * 2'501.0f / 2));
  }
  EXPECT_THAT(answers[1].bodies, ElementsAre("", "", kLastEcho));
  EXPECT_EQ(answers[1].floats, numbers);
  EXPECT_EQ(counts_.frames, 3u);
  EXPECT_EQ(counts_.retries, 0u);
  EXPECT_THAT(report_.Get(),
              ElementsAre(HasSubstr(GetParam() == Transport::GRPC ? "gRPC" : "shared memory")));
}

TEST_P(PeerFramesTest, AFrameMayBeAsLongAsThereAre) {
  ASSERT_NO_FATAL_FAILURE(Start(kMessageMemory));
  const auto transport = Connect();
  const Floats numbers = Numbers(kMaxFramePayloadBytes / sizeof(float));
  ASSERT_OK_AND_ASSIGN(const auto answers,
                       Call(transport.get(), {kEchoFloats, kEchoFloats}, numbers));
  for (const Answers& answer : answers) {
    EXPECT_THAT(answer.bodies, SizeIs((numbers.size() + kFloatsOfAnEcho - 1) / kFloatsOfAnEcho));
    EXPECT_EQ(answer.floats, numbers);
  }
}

TEST_P(PeerFramesTest, AnUnknownKindAndABadRequestAreErrorsAndTheStreamGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Start(kMessageMemory));
  const auto transport = Connect();
  ASSERT_OK_AND_ASSIGN(const auto answers, Call(transport.get(), {77, kSumFloats}, Numbers(3)));
  EXPECT_THAT(answers[0].error, StatusIs(absl::StatusCode::kInvalidArgument,
                                         "the frame is no request that this server knows"));
  EXPECT_THAT(answers[1].floats, ElementsAre(6.0f));
  EXPECT_EQ(counts_.retries, 0u);

  // A shard's request means nothing here.
  DataHeader fetch;
  fetch.set_request_id(5);
  fetch.mutable_fetch()->set_stripe_count(1);
  absl::Status error;
  const auto take = [&error](uint32_t, const DataHeader& header, ChunkCursor*) {
    error = absl::Status(static_cast<absl::StatusCode>(header.error().code()),
                         header.error().message());
    return Answer::kDone;
  };
  ASSERT_OK(RunExchange({&names_, kDeadline, &cancelled_, Clock::Real()},
                        {{{5, {std::make_shared<std::string>(EncodeFrameHead(fetch)), {}}}}},
                        transport.get(), take, &counts_));
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no request")));
}

TEST_P(PeerFramesTest, WhatIsBeingServedIsAnsweredBeforeTheEnd) {
  ASSERT_NO_FATAL_FAILURE(Start(kMessageMemory));
  const auto transport = Connect();
  const Floats numbers = Numbers(4);
  // Told to end once it holds the request, which it answers only after that.
  transport->Send(0, MakeRequest(1, kHoldUntilDrained, numbers).frame);
  std::jthread end([this] {
    EXPECT_EQ(ReadLine(peer_->process), "holding");
    peer_->process.Signal(SIGTERM);
  });
  const FrameTransport::Event event = transport->Wait(kDeadline);
  end.join();
  ASSERT_EQ(event.kind, FrameTransport::Event::Kind::kReceived) << event.status;
  ChunkCursor cursor(event.frame);
  ASSERT_OK(DecodeFrameHead(&cursor).status());
  float sum = 0;
  ASSERT_EQ(cursor.remaining(), sizeof(sum));
  cursor.Copy(sizeof(sum), &sum);
  EXPECT_EQ(sum, 10.0f);
  EXPECT_EQ(ReadLine(peer_->process), "busy");
  EXPECT_EQ(ReadLine(peer_->process), "drained");
  EXPECT_EQ(transport->Wait(kDeadline).kind, FrameTransport::Event::Kind::kBroken);
  EXPECT_TRUE(peer_->process.Wait().ok());
}

TEST_P(PeerFramesTest, ConnectionsFitTheMessageMemoryAndComeBack) {
  ASSERT_NO_FATAL_FAILURE(Start(/*message_memory_bytes=*/1));  // for one
  auto first = Connect();
  ASSERT_OK_AND_ASSIGN(auto answers, Call(first.get(), {kSumFloats}, Numbers(2)));
  EXPECT_THAT(answers[0].floats, ElementsAre(3.0f));
  const auto second = Connect();
  const Floats numbers = Numbers(3);
  second->Send(0, MakeRequest(1, kSumFloats, numbers).frame);
  const FrameTransport::Event event = second->Wait(kDeadline);
  ASSERT_EQ(event.kind, FrameTransport::Event::Kind::kBroken);
  EXPECT_THAT(event.status, StatusIs(absl::StatusCode::kResourceExhausted,
                                     AllOf(HasSubstr("all 1 data streams"), HasSubstr("MiB"))));
  first.reset();
  // The exchange asks again until there is room.
  ASSERT_OK_AND_ASSIGN(answers, Call(second.get(), {kSumFloats}, numbers));
  EXPECT_THAT(answers[0].floats, ElementsAre(6.0f));
}

TEST_P(PeerFramesTest, NoMemoryIsSharedByAHandlerThatHasNone) {
  ASSERT_NO_FATAL_FAILURE(Start(kMessageMemory));
  const auto transport = ChoosingTransport::Create(
      GetParam(), {peer_->address}, /*tls=*/nullptr, /*connections=*/2, kDeadline,
      [this](uint32_t, absl::Duration) { return peer_->offer; }, &report_);
  EXPECT_EQ(transport->Map(0, FetchRequest(), SharedShape()), nullptr);
  ASSERT_OK_AND_ASSIGN(const auto answers, Call(transport.get(), {kSumFloats}, Numbers(2)));
  EXPECT_THAT(answers[0].floats, ElementsAre(3.0f));
}

INSTANTIATE_TEST_SUITE_P(Transports, PeerFramesTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const ::testing::TestParamInfo<Transport>& info) {
                           return info.param == Transport::GRPC ? "Grpc" : "SharedMemory";
                         });

}  // namespace
}  // namespace monsoon
