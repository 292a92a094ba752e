// Members in one process: frames through shared memory, a thread each.
#include "worker/synchronous/gradient_exchange.h"

#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame_listener.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;

constexpr absl::Duration kLong = absl::Seconds(50);
constexpr size_t kPart = 1024;
constexpr CallOptions kByRank = {.order = SumOrder::kByRank, .patience = kLong};

struct Process {
  Process() : listener(&mailbox, {}) {}
  PeerMailbox mailbox;
  FrameListener listener;
};

class GradientExchangeTest : public ::testing::Test {
 protected:
  // `member` in a thread each.
  void Run(uint32_t members, const std::function<void(uint32_t, Communicator*)>& member) {
    processes_.resize(members);
    Group group{.generation = 1, .names = {}};
    for (uint32_t rank = 0; rank < members; ++rank) {
      processes_[rank] = std::make_unique<Process>();
      group.names.push_back(absl::StrCat("worker/", rank));
    }
    std::latch done(members);
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < members; ++rank) {
      threads.emplace_back([&, rank] {
        Group mine = group;
        mine.rank = rank;
        CommunicatorOptions options;
        options.offer = [this](uint32_t peer, absl::Duration) {
          return processes_[peer]->listener.offer();
        };
        auto communicator =
            Communicator::Open(&processes_[rank]->mailbox, mine,
                               std::vector<std::string>(members, "HOST:PORT"), options);
        ASSERT_OK(communicator);
        member(rank, communicator->get());
        done.arrive_and_wait();  // nobody leaves while others may still ask for it
      });
    }
  }

  std::vector<std::unique_ptr<Process>> processes_;
};

float ValueOf(uint32_t rank, size_t step, size_t i) {
  return static_cast<float>((rank + 1) * ((i + step) % 97)) * 0.37f;
}

TEST_F(GradientExchangeTest, SumsHaveTheBitsOfTheOrderAtEachStep) {
  for (const size_t size : {size_t{1}, kPart - 1, kPart, kPart + 1, 5 * kPart + 7}) {
    Run(3, [size](uint32_t rank, Communicator* communicator) {
      GradientExchange exchange(kPart);
      std::vector<float> values(size);
      for (size_t step = 0; step < 4; ++step) {
        exchange.Begin(communicator, values, kByRank);
        for (size_t i = size; i-- > 0;) {  // as a backward pass
          values[i] = ValueOf(rank, step, i);
          if (i % 100 == 0) {
            exchange.Ready(i);
          }
        }
        ASSERT_OK(exchange.Finish());
        for (size_t i = 0; i < size; ++i) {
          ASSERT_EQ(values[i], (ValueOf(0, step, i) + ValueOf(1, step, i)) + ValueOf(2, step, i))
              << i << " of " << size;
        }
      }
    });
  }
}

TEST_F(GradientExchangeTest, APartGoesWhileTheOthersAreComputed) {
  std::latch came(1);
  Run(2, [&](uint32_t rank, Communicator* communicator) {
    std::vector<float> values(3 * kPart, 1.0f);
    if (rank == 1) {
      // The last part, which the other has not more than finished when this returns.
      ASSERT_OK(communicator->AllReduce(std::span(values).last(kPart), kByRank));
      came.count_down();
      ASSERT_OK(communicator->AllReduce(std::span(values).subspan(kPart, kPart), kByRank));
      ASSERT_OK(communicator->AllReduce(std::span(values).first(kPart), kByRank));
      return;
    }
    GradientExchange exchange(kPart);
    exchange.Begin(communicator, values, kByRank);
    exchange.Ready(2 * kPart);
    came.wait();
    ASSERT_OK(exchange.Finish());
    EXPECT_EQ(values, std::vector<float>(3 * kPart, 2.0f));
  });
}

TEST_F(GradientExchangeTest, APartThatIsNotFinalStays) {
  std::latch ended(1);
  Run(2, [&](uint32_t rank, Communicator* communicator) {
    std::vector<float> values(2 * kPart, 1.0f);
    if (rank == 1) {
      EXPECT_THAT(communicator->AllReduce(std::span(values).last(kPart),
                                          {.patience = absl::Milliseconds(200)}),
                  StatusIs(absl::StatusCode::kDeadlineExceeded, _));
      ended.count_down();
      return;
    }
    GradientExchange exchange(kPart);
    exchange.Begin(communicator, values, kByRank);
    exchange.Ready(kPart + 1);
    ended.wait();
    EXPECT_FALSE(exchange.Finish().ok());
  });
}

TEST_F(GradientExchangeTest, WhatIsGivenUpEndsForAllAtOnce) {
  Run(2, [](uint32_t rank, Communicator* communicator) {
    GradientExchange exchange(kPart);
    std::vector<float> values(3 * kPart, 1.0f);
    exchange.Begin(communicator, values, kByRank);
    exchange.Ready(2 * kPart);  // which the other waits for
    if (rank == 1) {
      EXPECT_FALSE(exchange.Finish().ok());
      return;
    }
    exchange.GiveUp();
    exchange.GiveUp();
    exchange.Begin(communicator, values, kByRank);
    EXPECT_THAT(exchange.Finish(), StatusIs(absl::StatusCode::kCancelled, _));
    exchange.Begin(communicator, values, kByRank);  // and its owner goes
  });
}

TEST_F(GradientExchangeTest, AnAbortEndsItAtOnce) {
  Run(2, [](uint32_t rank, Communicator* communicator) {
    if (rank == 1) {
      return;  // never takes part
    }
    GradientExchange exchange(kPart);
    std::vector<float> values(3 * kPart, 1.0f);
    exchange.Begin(communicator, values, kByRank);
    exchange.Ready(kPart);
    communicator->Abort(absl::CancelledError("the session ends"));
    EXPECT_THAT(exchange.Finish(), StatusIs(absl::StatusCode::kCancelled, _));
  });
}

}  // namespace
}  // namespace monsoon
