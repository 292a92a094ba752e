#include "common/transport/frame/exchange.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "common/base/clock.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Time passes only when somebody waits.
class FakeTransport : public FrameTransport {
 public:
  using Reaction = std::function<void(FakeTransport*, uint32_t peer, uint64_t request_id)>;

  FakeTransport(ManualClock* clock, Reaction reaction)
      : clock_(clock), reaction_(std::move(reaction)) {}

  void Send(uint32_t peer, Frame frame) override {
    const ByteChunk chunk = std::as_bytes(std::span(*frame.head));
    ChunkCursor cursor(std::span(&chunk, 1));
    const uint64_t id = DecodeFrameHead(&cursor)->request_id();
    sent.emplace_back(peer, id);
    ++unanswered;
    most_unanswered = std::max(most_unanswered, unanswered);
    if (!broken_) {
      reaction_(this, peer, id);
    }
  }

  Event Wait(absl::Duration timeout) override {
    if (pending_.empty()) {
      clock_->Advance(timeout);
      return {};
    }
    auto [peer, text, status] = std::move(pending_.front());
    pending_.pop_front();
    Event event;
    event.peer = peer;
    if (!status.ok()) {
      event.kind = Event::Kind::kBroken;
      event.status = status;
      unanswered = 0;
      broken_ = false;
      return event;
    }
    --unanswered;
    event.kind = Event::Kind::kReceived;
    current_ = std::move(text);
    chunk_ = std::as_bytes(std::span(current_));
    event.frame = std::span(&chunk_, 1);
    return event;
  }

  void Reset(uint32_t peer) override {
    resets.push_back(peer);
    unanswered = 0;
  }

  void Reply(uint32_t peer, uint64_t request_id) {
    DataHeader header;
    header.set_request_id(request_id);
    header.mutable_push_reply();
    pending_.push_back({peer, EncodeFrameHead(header), absl::OkStatus()});
  }
  void Break(uint32_t peer, absl::Status status) {
    pending_.push_back({peer, "", std::move(status)});
    broken_ = true;
  }

  std::vector<std::pair<uint32_t, uint64_t>> sent;
  std::vector<uint32_t> resets;
  size_t unanswered = 0;
  size_t most_unanswered = 0;

 private:
  struct Pending {
    uint32_t peer;
    std::string text;
    absl::Status status;
  };
  ManualClock* const clock_;
  const Reaction reaction_;
  std::deque<Pending> pending_;
  std::string current_;
  ByteChunk chunk_;
  bool broken_ = false;  // what is sent now is lost
};

class ExchangeTest : public ::testing::Test {
 protected:
  using Handler = std::function<absl::StatusOr<Answer>(uint32_t, const DataHeader&, ChunkCursor*)>;

  absl::Status Run(FakeTransport* transport, int frames, Handler handler = nullptr) {
    std::vector<std::vector<RequestFrame>> requests(1);
    for (int i = 0; i < frames; ++i) {
      DataHeader header;
      header.set_request_id(10 + i);
      requests[0].push_back(
          {header.request_id(), {std::make_shared<std::string>(EncodeFrameHead(header)), {}}});
    }
    if (handler == nullptr) {
      handler = [](uint32_t, const DataHeader&, ChunkCursor*) { return Answer::kDone; };
    }
    ExchangeContext context{&names_, absl::Seconds(5), &cancelled_, &clock_};
    context.silent = &silent_;
    return RunExchange(context, requests, transport, handler, &counts_);
  }

  std::vector<std::string> names_ = {"ps/0 at localhost:2222"};
  std::atomic<bool> cancelled_{false};
  ManualClock clock_;
  ExchangeCounts counts_;
  SilentPeer silent_;
};

TEST_F(ExchangeTest, KeepsToItsCredits) {
  FakeTransport transport(&clock_,
                          [](auto* self, uint32_t peer, uint64_t id) { self->Reply(peer, id); });
  ASSERT_OK(Run(&transport, 9));
  EXPECT_EQ(transport.sent.size(), 9u);
  EXPECT_EQ(transport.most_unanswered, kFramesInFlight);
  EXPECT_EQ(counts_.frames, 9u);
  EXPECT_EQ(counts_.retries, 0u);
}

TEST_F(ExchangeTest, RepeatsWhatWasNotAnsweredInOrder) {
  int breaks = 0;
  FakeTransport transport(&clock_, [&breaks](auto* self, uint32_t peer, uint64_t id) {
    if (id == 11 && breaks++ == 0) {
      self->Break(peer, absl::UnavailableError("gone"));
    } else {
      self->Reply(peer, id);
    }
  });
  ASSERT_OK(Run(&transport, 3));
  std::vector<uint64_t> ids;
  for (const auto& [peer, id] : transport.sent) {
    ids.push_back(id);
  }
  // 10 was answered before the break; the others are repeated.
  EXPECT_THAT(ids, ElementsAre(10, 11, 12, 11, 12));
  EXPECT_EQ(counts_.retries, 1u);
  EXPECT_GT(clock_.Now(), absl::ZeroDuration());  // not without a pause
}

TEST_F(ExchangeTest, AStreamThatGaveWayIsOpenedAtOnce) {
  int breaks = 0;
  FakeTransport transport(&clock_, [&breaks](auto* self, uint32_t peer, uint64_t id) {
    if (breaks++ % 2 == 0) {
      self->Break(peer, absl::AbortedError("it gave way"));
    } else {
      self->Reply(peer, id);
    }
  });
  ASSERT_OK(Run(&transport, 1));
  EXPECT_EQ(transport.sent.size(), 2u);
  EXPECT_EQ(counts_.retries, 0u);
  EXPECT_EQ(clock_.Now(), absl::ZeroDuration());
}

TEST_F(ExchangeTest, AServerThatOnlyBreaksOffIsNotAskedInACircle) {
  FakeTransport transport(&clock_, [](auto* self, uint32_t peer, uint64_t) {
    self->Break(peer, absl::AbortedError("it gave way"));
  });
  EXPECT_EQ(Run(&transport, 1).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(transport.sent.size(), 50u);
}

TEST_F(ExchangeTest, WhoSaysNothingForLongIsNotedUntilItAnswers) {
  int asked = 0;
  std::vector<std::optional<uint32_t>> noted;
  FakeTransport transport(&clock_, [&](auto* self, uint32_t peer, uint64_t id) {
    noted.push_back(silent_.Get());
    if (++asked < 30 && clock_.Now() < SilentPeer::kAfter + absl::Milliseconds(500)) {
      self->Break(peer, absl::UnavailableError("connection refused"));
    } else {
      self->Reply(peer, id);
    }
  });
  ASSERT_OK(Run(&transport, 1));
  EXPECT_EQ(noted.front(), std::nullopt);
  EXPECT_EQ(noted.back(), 0u);
  EXPECT_EQ(silent_.Get(), std::nullopt);
}

TEST_F(ExchangeTest, WhoAsksForPatienceIsNotSilent) {
  int asked = 0;
  FakeTransport transport(&clock_,
                          [&](auto* self, uint32_t peer, uint64_t id) { self->Reply(peer, id); });
  ASSERT_OK(Run(&transport, 1, [&](uint32_t, const DataHeader&, ChunkCursor*) {
    EXPECT_EQ(silent_.Get(), std::nullopt);
    ++asked;
    return clock_.Now() < 2 * SilentPeer::kAfter ? Answer::kBusy : Answer::kDone;
  }));
  EXPECT_GT(asked, 5);
}

TEST_F(ExchangeTest, StopsAtTheDeadlineAndNamesTheCause) {
  FakeTransport transport(&clock_, [](auto* self, uint32_t peer, uint64_t) {
    self->Break(peer, absl::UnavailableError("connection refused"));
  });
  EXPECT_THAT(Run(&transport, 1),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("ps/0 at localhost:2222"), HasSubstr("5s"),
                             HasSubstr("connection refused"))));
  EXPECT_GE(clock_.Now(), absl::Seconds(5));
  EXPECT_LT(clock_.Now(), absl::Seconds(6));
  EXPECT_GT(counts_.retries, 5u);
  EXPECT_LT(counts_.retries, 50u);
}

TEST_F(ExchangeTest, ASilentShardIsGivenUp) {
  FakeTransport transport(&clock_, [](auto*, uint32_t, uint64_t) {});
  EXPECT_EQ(Run(&transport, 1).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(transport.resets, ElementsAre(0));
}

// A slow link: all together take longer than the deadline, each less.
TEST_F(ExchangeTest, WhatComesSlowlyIsNotLate) {
  FakeTransport transport(
      &clock_, [](FakeTransport* self, uint32_t peer, uint64_t id) { self->Reply(peer, id); });
  const auto slow = [this](Answer answer) {
    return [this, answer](uint32_t, const DataHeader&, ChunkCursor*) {
      clock_.Advance(absl::Seconds(4));
      return answer;
    };
  };
  EXPECT_OK(Run(&transport, 5, slow(Answer::kDone)));
  // Of those that are busy the deadline is of all their answers.
  EXPECT_EQ(Run(&transport, 1, slow(Answer::kBusy)).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ExchangeTest, APermanentErrorEndsAtOnce) {
  FakeTransport transport(&clock_, [](auto* self, uint32_t peer, uint64_t) {
    self->Break(peer, absl::UnimplementedError("no such method"));
  });
  EXPECT_THAT(Run(&transport, 1), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("ps/0")));
  EXPECT_EQ(transport.sent.size(), 1u);
}

TEST_F(ExchangeTest, ABusyShardIsAskedAgainLater) {
  FakeTransport transport(&clock_,
                          [](auto* self, uint32_t peer, uint64_t id) { self->Reply(peer, id); });
  int answers = 0;
  ASSERT_OK(Run(&transport, 1, [&answers](uint32_t, const DataHeader&, ChunkCursor*) {
    return ++answers < 3 ? Answer::kBusy : Answer::kDone;
  }));
  EXPECT_EQ(transport.sent.size(), 3u);
  EXPECT_GT(clock_.Now(), absl::Milliseconds(10));
}

TEST_F(ExchangeTest, AHandlersErrorGivesUpTheUnanswered) {
  FakeTransport transport(&clock_,
                          [](auto* self, uint32_t peer, uint64_t id) { self->Reply(peer, id); });
  absl::Status refusal = absl::FailedPreconditionError("closed");
  refusal.SetPayload("mark", absl::Cord("1"));
  const absl::Status status =
      Run(&transport, 4, [&refusal](uint32_t, const DataHeader&, ChunkCursor*) {
        return absl::StatusOr<Answer>(refusal);
      });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ps/0")));
  EXPECT_TRUE(status.GetPayload("mark").has_value());
  EXPECT_THAT(transport.resets, ElementsAre(0));
}

TEST_F(ExchangeTest, AnAnswerNobodyAskedForIsAnError) {
  FakeTransport transport(
      &clock_, [](auto* self, uint32_t peer, uint64_t id) { self->Reply(peer, id + 1); });
  EXPECT_THAT(Run(&transport, 1), StatusIs(absl::StatusCode::kInternal, HasSubstr("not asked")));
}

TEST_F(ExchangeTest, CancellationEndsIt) {
  FakeTransport transport(&clock_, [this](auto*, uint32_t, uint64_t) { cancelled_ = true; });
  EXPECT_EQ(Run(&transport, 1).code(), absl::StatusCode::kCancelled);
}

// ---- peers that are left out --------------------------------------------------

class LeaveOutTest : public ExchangeTest {
 protected:
  // Two frames to each of two peers. `give_up`: whether a peer may be left out.
  absl::Status RunTwo(FakeTransport* transport,
                      std::function<bool(uint32_t, const absl::Status&)> give_up,
                      absl::Duration silence = absl::InfiniteDuration(),
                      Handler handler = nullptr) {
    names_ = {"ps/0", "ps/1"};
    std::vector<std::vector<RequestFrame>> requests(2);
    for (uint64_t id = 0; id < 4; ++id) {
      DataHeader header;
      header.set_request_id(id);
      requests[id / 2].push_back(
          {id, {std::make_shared<std::string>(EncodeFrameHead(header)), {}}});
    }
    const std::function<bool(uint32_t, const absl::Status&)> noting = [&](uint32_t peer,
                                                                          const absl::Status& why) {
      asked_.emplace_back(peer, why.code());
      return give_up(peer, why);
    };
    if (handler == nullptr) {
      handler = [this](uint32_t peer, const DataHeader&, ChunkCursor*) {
        answered_.push_back(peer);
        return Answer::kDone;
      };
    }
    return RunExchange(
        {&names_, absl::Seconds(5), &cancelled_, &clock_, /*on_retry=*/nullptr, &noting, silence},
        requests, transport, handler, &counts_);
  }

  std::vector<std::pair<uint32_t, absl::StatusCode>> asked_;
  std::vector<uint32_t> answered_;
};

TEST_F(LeaveOutTest, ASilentPeerIsLeftOutAndTheOthersAreServed) {
  FakeTransport transport(&clock_, [](auto* self, uint32_t peer, uint64_t id) {
    if (peer == 0) self->Reply(peer, id);
  });
  ASSERT_OK(RunTwo(
      &transport, [](uint32_t, const absl::Status&) { return true; }, absl::Seconds(1)));
  EXPECT_THAT(answered_, ElementsAre(0, 0));
  EXPECT_THAT(asked_, ElementsAre(std::pair(1u, absl::StatusCode::kDeadlineExceeded)));
  EXPECT_THAT(transport.resets, ElementsAre(1u));
  EXPECT_LT(clock_.Now(), absl::Seconds(2));
}

TEST_F(LeaveOutTest, APeerWithAnErrorIsLeftOutOnlyIfItMayBe) {
  const Handler refuses = [this](uint32_t peer, const DataHeader&,
                                 ChunkCursor*) -> absl::StatusOr<Answer> {
    if (peer == 1) return absl::FailedPreconditionError("another epoch");
    answered_.push_back(peer);
    return Answer::kDone;
  };
  const auto replies = [](auto* self, uint32_t peer, uint64_t id) { self->Reply(peer, id); };
  FakeTransport one(&clock_, replies);
  ASSERT_OK(RunTwo(
      &one, [](uint32_t, const absl::Status&) { return true; }, absl::Seconds(1), refuses));
  EXPECT_THAT(answered_, ElementsAre(0, 0));
  FakeTransport other(&clock_, replies);
  EXPECT_THAT(
      RunTwo(
          &other, [](uint32_t, const absl::Status&) { return false; }, absl::Seconds(1), refuses),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ps/1: another epoch")));
}

TEST_F(LeaveOutTest, ABrokenStreamIsRepeatedUntilThePeerMayBeLeftOut) {
  FakeTransport transport(&clock_, [](auto* self, uint32_t peer, uint64_t id) {
    if (peer == 0) {
      self->Reply(peer, id);
    } else {
      self->Break(peer, absl::UnavailableError("connection refused"));
    }
  });
  ASSERT_OK(RunTwo(&transport, [this](uint32_t, const absl::Status&) {
    return clock_.Now() > absl::Milliseconds(100);
  }));
  EXPECT_THAT(answered_, ElementsAre(0, 0));
  EXPECT_GT(asked_.size(), 1u);
  EXPECT_LT(clock_.Now(), absl::Seconds(2));
}

TEST_F(LeaveOutTest, AtTheDeadlineThoseThatMayNotBeLeftOutAreNamed) {
  FakeTransport transport(&clock_, [](auto*, uint32_t, uint64_t) {});
  EXPECT_THAT(RunTwo(&transport, [](uint32_t peer, const absl::Status&) { return peer == 0; }),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("ps/1")));
}

}  // namespace
}  // namespace monsoon
