#include "ps_server/client/replay_window.h"

#include <memory>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr uint64_t kEpoch = 10;

std::shared_ptr<const KeptBytes> Bytes(size_t size = 100) {
  return std::make_shared<const KeptBytes>(size);
}

// Sends all that is to be sent; the sequences.
std::vector<uint64_t> SendAll(ReplayWindow* window) {
  std::vector<uint64_t> sent;
  while (const ReplayWindow::Push* const push = window->Next()) {
    sent.push_back(push->sequence);
    window->OnSent();
  }
  return sent;
}

class ReplayWindowTest : public ::testing::Test {
 protected:
  ReplayWindowTest() {
    window_.NameEpoch(kEpoch);
    EXPECT_OK(window_.OnMarks(kEpoch, 0, 0));
  }
  void Add(int pushes) {
    for (int i = 0; i < pushes; ++i) {
      window_.Add(Bytes());
    }
  }

  ReplayWindow window_{1000};
};

TEST_F(ReplayWindowTest, SendsEachOnceAndKeepsItUntilItIsDurable) {
  Add(3);
  EXPECT_EQ(SendAll(&window_), (std::vector<uint64_t>{1, 2, 3}));
  window_.OnAcknowledged(kEpoch, 3, 1);
  EXPECT_EQ(window_.acknowledged(), 3u);
  EXPECT_EQ(window_.durable(), 1u);
  EXPECT_EQ(window_.bytes(), 200u);
  EXPECT_OK(window_.OnMarks(kEpoch, 3, 3));
  EXPECT_EQ(window_.bytes(), 0u);
  EXPECT_EQ(window_.Next(), nullptr);
  EXPECT_EQ(window_.Add(Bytes()), 4u);
  EXPECT_EQ(SendAll(&window_), (std::vector<uint64_t>{4}));
}

TEST_F(ReplayWindowTest, ANewEpochGetsWhatItHasNotGot) {
  Add(5);
  SendAll(&window_);
  window_.OnAcknowledged(kEpoch, 4, 1);
  window_.NameEpoch(kEpoch + 1);
  EXPECT_TRUE(window_.asks());
  EXPECT_EQ(window_.Next(), nullptr);  // not before the marks
  ASSERT_OK(window_.OnMarks(kEpoch + 1, 2, 0));
  EXPECT_FALSE(window_.caught_up());
  ASSERT_NE(window_.Next(), nullptr);
  EXPECT_TRUE(window_.Next()->replayed);
  EXPECT_EQ(window_.epoch(), kEpoch + 1);
  EXPECT_EQ(SendAll(&window_), (std::vector<uint64_t>{3, 4, 5}));
  window_.OnAcknowledged(kEpoch + 1, 3, 0);
  EXPECT_FALSE(window_.caught_up());  // 4 was acknowledged once
  window_.OnAcknowledged(kEpoch + 1, 4, 0);
  EXPECT_TRUE(window_.caught_up());
}

TEST_F(ReplayWindowTest, WhatNeedNotSurviveIsKeptUntilItIsAcknowledged) {
  Add(5);
  SendAll(&window_);
  window_.OnAcknowledged(kEpoch, 2, 0);
  EXPECT_EQ(window_.bytes(), 500u);
  window_.Forgo();
  EXPECT_EQ(window_.bytes(), 300u);
  window_.OnAcknowledged(kEpoch, 4, 0);
  EXPECT_EQ(window_.bytes(), 100u);
  window_.Reconnect();  // the answer to the last one may be lost
  ASSERT_OK(window_.OnMarks(kEpoch, 4, 0));
  EXPECT_EQ(SendAll(&window_), (std::vector<uint64_t>{5}));
}

TEST_F(ReplayWindowTest, OnlyTheNamedEpochCounts) {
  Add(2);
  SendAll(&window_);
  window_.OnAcknowledged(kEpoch - 1, 2, 2);
  window_.OnAcknowledged(kEpoch + 1, 2, 2);
  EXPECT_EQ(window_.acknowledged(), 0u);
  EXPECT_EQ(window_.bytes(), 200u);
  window_.NameEpoch(kEpoch + 1);
  ASSERT_OK(window_.OnMarks(kEpoch, 2, 2));
  EXPECT_TRUE(window_.asks());
  EXPECT_EQ(window_.bytes(), 200u);
  window_.NameEpoch(kEpoch + 1);  // nothing new
  EXPECT_TRUE(window_.asks());
}

TEST_F(ReplayWindowTest, ANewConnectionAsksAndSendsWhatWasLostOnTheWay) {
  Add(4);
  SendAll(&window_);
  window_.OnAcknowledged(kEpoch, 1, 0);
  window_.Reconnect();
  EXPECT_EQ(window_.Next(), nullptr);
  // Acknowledgements that were under way say nothing of this connection.
  window_.OnAcknowledged(kEpoch, 2, 0);
  ASSERT_OK(window_.OnMarks(kEpoch, 2, 0));
  EXPECT_EQ(SendAll(&window_), (std::vector<uint64_t>{3, 4}));
  window_.OnRefusedEpoch();
  EXPECT_TRUE(window_.asks());
}

// A shard may say that more is durable than this epoch has acknowledged: of a stripe
// that is ahead. It is kept.
TEST_F(ReplayWindowTest, NothingIsForgottenThatWasNotAcknowledged) {
  Add(3);
  SendAll(&window_);
  window_.OnAcknowledged(kEpoch, 1, 3);
  EXPECT_EQ(window_.durable(), 1u);
  EXPECT_EQ(window_.bytes(), 200u);
}

TEST_F(ReplayWindowTest, IsFullByBytesButTakesOnePush) {
  EXPECT_FALSE(window_.full(5000));
  window_.Add(Bytes(900));
  EXPECT_FALSE(window_.full(100));
  EXPECT_TRUE(window_.full(101));
  SendAll(&window_);
  window_.OnAcknowledged(kEpoch, 1, 1);
  EXPECT_FALSE(window_.full(5000));
}

TEST_F(ReplayWindowTest, AShardWithLessThanItPromisedIsNamedWithTheRange) {
  Add(5);
  SendAll(&window_);
  window_.OnAcknowledged(kEpoch, 5, 4);
  window_.NameEpoch(kEpoch + 1);
  EXPECT_THAT(window_.OnMarks(kEpoch + 1, 2, 0),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("up to 2, but 3 to 4")));
}

}  // namespace
}  // namespace monsoon
