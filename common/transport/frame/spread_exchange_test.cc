// Exchanges whose frames are spread over several connections to a peer.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/exchange.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;

constexpr uint32_t kPeer = 0;

// Several connections to one peer. Time passes only when somebody waits.
class FakeConnections : public FrameTransport {
 public:
  using Reaction = std::function<void(FakeConnections*, uint32_t connection, uint64_t request_id)>;

  FakeConnections(ManualClock* clock, uint32_t connections, Reaction reaction)
      : clock_(clock), reaction_(std::move(reaction)), broken_(connections, false) {}

  uint32_t Connections(uint32_t) override {
    asked = true;
    return static_cast<uint32_t>(broken_.size());
  }

  void Send(uint32_t peer, Frame frame) override {
    ASSERT_EQ(peer, kPeer);
    const ByteChunk chunk = std::as_bytes(std::span(*frame.head));
    ChunkCursor cursor(std::span(&chunk, 1));
    const uint64_t id = DecodeFrameHead(&cursor)->request_id();
    sent.emplace_back(frame.connection, id);
    sent_at.push_back(clock_->Now());
    if (!broken_[frame.connection]) {
      reaction_(this, frame.connection, id);
    }
  }

  Event Wait(absl::Duration timeout) override {
    if (pending_.empty()) {
      clock_->Advance(timeout);
      return {};
    }
    Pending next = std::move(pending_.front());
    pending_.pop_front();
    Event event;
    event.peer = kPeer;
    event.connection = next.connection;
    if (!next.status.ok()) {
      event.kind = Event::Kind::kBroken;
      event.status = next.status;
      if (next.connection < broken_.size()) {
        broken_[next.connection] = false;
      }
      return event;
    }
    event.kind = Event::Kind::kReceived;
    current_ = std::move(next.text);
    chunk_ = std::as_bytes(std::span(current_));
    event.frame = std::span(&chunk_, 1);
    return event;
  }

  void Reset(uint32_t) override { ++resets; }
  void ResetConnection(uint32_t, uint32_t connection) override {
    reset_connections.push_back(connection);
    std::erase_if(pending_, [=](const Pending& one) { return one.connection == connection; });
  }

  void Reply(uint32_t connection, uint64_t request_id) {
    DataHeader header;
    header.set_request_id(request_id);
    header.mutable_push_reply();
    pending_.push_back({connection, EncodeFrameHead(header), absl::OkStatus()});
  }
  // What is sent until that is told is lost.
  void Break(uint32_t connection, absl::Status status) {
    if (connection < broken_.size()) {
      broken_[connection] = true;
    }
    pending_.push_back({connection, "", std::move(status)});
  }

  // Which frames were sent again, or for the first time, by this connection.
  std::vector<uint64_t> SentBy(uint32_t connection) const {
    std::vector<uint64_t> ids;
    for (const auto& [by, id] : sent) {
      if (by == connection) ids.push_back(id);
    }
    return ids;
  }

  std::vector<std::pair<uint32_t, uint64_t>> sent;
  std::vector<absl::Duration> sent_at;
  std::vector<uint32_t> reset_connections;
  int resets = 0;
  bool asked = false;

 private:
  struct Pending {
    uint32_t connection;
    std::string text;
    absl::Status status;
  };
  ManualClock* const clock_;
  const Reaction reaction_;
  std::deque<Pending> pending_;
  std::vector<bool> broken_;
  std::string current_;
  ByteChunk chunk_;
};

class SpreadExchangeTest : public ::testing::Test {
 protected:
  absl::Status Run(FakeConnections* transport, uint64_t frames, bool any_order = true) {
    std::vector<std::vector<RequestFrame>> requests(1);
    for (uint64_t id = 0; id < frames; ++id) {
      DataHeader header;
      header.set_request_id(id);
      requests[kPeer].push_back({id, {std::make_shared<std::string>(EncodeFrameHead(header)), {}}});
    }
    answered_.clear();
    ExchangeContext context{&names_, absl::Seconds(5), &cancelled_, &clock_};
    context.any_order = any_order;
    context.give_up = &give_up_;
    return RunExchange(
        context, requests, transport,
        [this](uint32_t, const DataHeader& header, ChunkCursor*) {
          const Answer answer = answers_ ? answers_(header.request_id()) : Answer::kDone;
          if (answer == Answer::kDone) answered_.push_back(header.request_id());
          return answer;
        },
        &counts_);
  }

  static void Replies(FakeConnections* self, uint32_t connection, uint64_t id) {
    self->Reply(connection, id);
  }

  // Of the last exchange, in any order.
  std::vector<uint64_t> Answered() {
    std::ranges::sort(answered_);
    return answered_;
  }

  std::vector<std::string> names_ = {"ps/0"};
  std::atomic<bool> cancelled_{false};
  std::function<bool(uint32_t, const absl::Status&)> give_up_ = [](uint32_t, const absl::Status&) {
    return false;
  };
  std::function<Answer(uint64_t id)> answers_;
  std::vector<uint64_t> answered_;
  ManualClock clock_;
  ExchangeCounts counts_;
};

TEST_F(SpreadExchangeTest, NeighboursGoByDifferentConnectionsEachWithItsCredits) {
  FakeConnections transport(&clock_, 3, [](auto*, uint32_t, uint64_t) {});
  EXPECT_THAT(Run(&transport, 9), StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("ps/0")));
  EXPECT_THAT(transport.sent,
              ElementsAre(Pair(0, 0), Pair(1, 1), Pair(2, 2), Pair(0, 3), Pair(1, 4), Pair(2, 5)));
  EXPECT_THAT(transport.reset_connections, ElementsAre(0, 1, 2));
}

TEST_F(SpreadExchangeTest, WhoeverAnswersGetsTheNextFrame) {
  // Of connection 0 only the first frame is answered before all others.
  FakeConnections transport(&clock_, 2, [](auto* self, uint32_t connection, uint64_t id) {
    if (connection == 1) {
      self->Reply(connection, id);
      if (id == 7) {
        self->Reply(0, 0);
        self->Reply(0, 2);
      }
    }
  });
  ASSERT_OK(Run(&transport, 8));
  EXPECT_THAT(transport.SentBy(0), ElementsAre(0, 2));
  EXPECT_THAT(transport.SentBy(1), ElementsAre(1, 3, 4, 5, 6, 7));
  EXPECT_THAT(Answered(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(SpreadExchangeTest, FramesInOrderGoByOneConnection) {
  FakeConnections transport(&clock_, 3, Replies);
  ASSERT_OK(Run(&transport, 5, /*any_order=*/false));
  EXPECT_THAT(transport.sent, Each(Key(0)));
  EXPECT_THAT(answered_, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_FALSE(transport.asked);
}

TEST_F(SpreadExchangeTest, NoMoreConnectionsThanFrames) {
  FakeConnections one(&clock_, 3, Replies);
  ASSERT_OK(Run(&one, 1));
  EXPECT_FALSE(one.asked);
  FakeConnections two(&clock_, 3, Replies);
  ASSERT_OK(Run(&two, 2));
  EXPECT_THAT(two.sent, ElementsAre(Pair(0, 0), Pair(1, 1)));
}

TEST_F(SpreadExchangeTest, WhatOneConnectionLosesGoesByTheOthersAtOnce) {
  int breaks = 0;
  FakeConnections transport(&clock_, 3, [&](auto* self, uint32_t connection, uint64_t id) {
    if (connection == 1 && breaks++ == 0) {
      self->Break(connection, absl::UnavailableError("the connection was cut"));
    } else {
      self->Reply(connection, id);
    }
  });
  ASSERT_OK(Run(&transport, 12));
  EXPECT_THAT(Answered(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(counts_.retries, 1u);
  EXPECT_EQ(counts_.frames, 14u);  // both that it had
  EXPECT_EQ(clock_.Now(), absl::ZeroDuration());
}

TEST_F(SpreadExchangeTest, AConnectionThatOnlyFailsHoldsUpOneFrameAtATime) {
  FakeConnections transport(&clock_, 2, [&](auto* self, uint32_t connection, uint64_t id) {
    if (connection == 1) {
      self->Break(connection, absl::ResourceExhaustedError("no more streams"));
    } else {
      clock_.Advance(absl::Milliseconds(1));
      self->Reply(connection, id);
    }
  });
  ASSERT_OK(Run(&transport, 200));
  EXPECT_EQ(Answered().size(), 200u);
  const size_t tries = transport.SentBy(1).size();
  EXPECT_GT(tries, 2u);
  EXPECT_LT(tries, 12u);
  EXPECT_EQ(counts_.retries + 1, tries);  // two frames the first time
}

TEST_F(SpreadExchangeTest, WhereAllFailTheDeadlineSaysWhy) {
  FakeConnections transport(&clock_, 4, [](auto* self, uint32_t connection, uint64_t) {
    self->Break(connection, absl::UnavailableError("connection refused"));
  });
  EXPECT_THAT(Run(&transport, 9),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("ps/0"), HasSubstr("connection refused"))));
  EXPECT_LT(transport.sent.size(), 4 * 50u);
}

TEST_F(SpreadExchangeTest, ABusyPeerIsLeftAloneByAllConnections) {
  absl::Duration busy_at = absl::InfiniteDuration();
  answers_ = [&](uint64_t id) {
    if (id == 0 && busy_at == absl::InfiniteDuration()) {
      busy_at = clock_.Now();
      return Answer::kBusy;
    }
    return Answer::kDone;
  };
  FakeConnections transport(&clock_, 2, Replies);
  ASSERT_OK(Run(&transport, 9));
  EXPECT_THAT(transport.reset_connections, ElementsAre(0));
  EXPECT_EQ(Answered().size(), 9u);
  // Four were on their way; nobody sends more before the pause is over.
  for (size_t i = 4; i < transport.sent.size(); ++i) {
    EXPECT_GT(transport.sent_at[i], busy_at) << i;
  }
}

TEST_F(SpreadExchangeTest, AnIdleConnectionThatBreaksIsNoLoss) {
  bool broken = false;
  FakeConnections transport(&clock_, 2, [&](auto* self, uint32_t connection, uint64_t id) {
    if (!std::exchange(broken, true)) {
      self->Break(1, absl::UnavailableError("idle for too long"));
      self->Break(7, absl::UnavailableError("of an exchange with more connections"));
    }
    self->Reply(connection, id);
  });
  ASSERT_OK(Run(&transport, 3, /*any_order=*/false));
  EXPECT_EQ(counts_.retries, 0u);
  EXPECT_EQ(counts_.frames, 3u);
}

TEST_F(SpreadExchangeTest, AnAnswerByAnotherConnectionWasNotAsked) {
  FakeConnections transport(&clock_, 2,
                            [](auto* self, uint32_t, uint64_t id) { self->Reply(1, id); });
  EXPECT_THAT(Run(&transport, 2), StatusIs(absl::StatusCode::kInternal, HasSubstr("not asked")));
}

TEST_F(SpreadExchangeTest, WhoeverIsLeftOutIsLeftByAllConnections) {
  give_up_ = [](uint32_t, const absl::Status&) { return true; };
  FakeConnections transport(&clock_, 2, [](auto* self, uint32_t connection, uint64_t) {
    if (connection == 1) self->Break(connection, absl::UnavailableError("gone"));
  });
  ASSERT_OK(Run(&transport, 4));
  EXPECT_THAT(answered_, IsEmpty());
  EXPECT_EQ(transport.resets, 1);
}

}  // namespace
}  // namespace monsoon
