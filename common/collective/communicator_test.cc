// Groups in one process: real listeners, shared memory or gRPC on loopback, a thread a member.
#include "common/collective/communicator.h"

#include <algorithm>
#include <functional>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame_listener.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(50);

// What a process has: it serves its peers.
struct Process {
  explicit Process(Transport transport) : listener(&mailbox, {}) {
    if (transport == Transport::GRPC) {
      CHECK_OK(listener.Listen({.address = testing::UniqueSocketAddress()}, {}));
      address = listener.address();
    }
  }
  PeerMailbox mailbox;
  FrameListener listener;
  std::string address = "HOST:PORT";
};

class CommunicatorTest : public ::testing::TestWithParam<Transport> {
 protected:
  void Start(uint32_t members) {
    for (uint32_t rank = 0; rank < members; ++rank) {
      processes_.push_back(std::make_unique<Process>(GetParam()));
    }
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Open(uint32_t rank, uint64_t generation = 1) {
    Group group{generation, rank, {}};
    std::vector<std::string> addresses;
    for (const auto& process : processes_) {
      addresses.push_back(process->address);
      group.names.push_back(absl::StrCat("worker/", group.names.size(), " at ", addresses.back()));
    }
    CommunicatorOptions options;
    options.transport = GetParam();
    options.offer = [this](uint32_t peer, absl::Duration) {
      return processes_[peer]->listener.offer();
    };
    options.part_floats = 16 << 10;
    return Communicator::Open(&processes_[rank]->mailbox, group, addresses, options);
  }

  // `member` in a thread each, with a communicator of the generation.
  void Run(uint64_t generation, const std::function<void(uint32_t, Communicator*)>& member) {
    std::latch done(static_cast<ptrdiff_t>(processes_.size()));
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < processes_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator = Open(rank, generation);
        ASSERT_OK(communicator);
        member(rank, communicator->get());
        done.arrive_and_wait();  // nobody leaves while others may still ask for it
      });
    }
  }

  std::vector<std::unique_ptr<Process>> processes_;
};

float ValueOf(uint32_t rank, size_t i) { return static_cast<float>((rank + 1) * (i % 97)) * 0.37f; }

TEST_P(CommunicatorTest, SumsOfAllSizesHaveTheBitsOfTheOrder) {
  Start(3);
  Run(1, [](uint32_t rank, Communicator* communicator) {
    ASSERT_OK(communicator->Calibrate({.patience = kLong}));
    for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kNaive, Algorithm::kTree,
                                      Algorithm::kRing, Algorithm::kDirect, Algorithm::kExchange}) {
      for (const size_t count : {0, 1, 3, 1000, 100'000}) {
        std::vector<float> values(count), expected(count);
        for (size_t i = 0; i < count; ++i) {
          values[i] = ValueOf(rank, i);
          expected[i] = (ValueOf(0, i) + ValueOf(1, i)) + ValueOf(2, i);
        }
        ASSERT_OK(communicator->AllReduce(
            values, {.algorithm = algorithm, .order = SumOrder::kByRank, .patience = kLong}));
        ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(values)),
                                       std::as_bytes(std::span(expected))))
            << Name(algorithm) << " " << count;
      }
    }
  });
}

TEST_P(CommunicatorTest, ScatterAndGatherMakeAnAllReduce) {
  Start(2);
  Run(1, [](uint32_t rank, Communicator* communicator) {
    std::vector<float> values(10'000, 1.0f + static_cast<float>(rank));
    ASSERT_OK(communicator->ReduceScatter(values, {.patience = kLong}));
    ASSERT_OK(communicator->AllGather(values, {.patience = kLong}));
    EXPECT_EQ(values, std::vector<float>(10'000, 3.0f));
    if (rank == 1) {
      values.assign(values.size(), 7.0f);
    }
    ASSERT_OK(communicator->Broadcast(values, 1, {.patience = kLong}));
    EXPECT_EQ(values, std::vector<float>(10'000, 7.0f));
    EXPECT_THAT(communicator->Broadcast(values, 2),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("root 2 of 2")));
  });
}

TEST_P(CommunicatorTest, AnOlderGenerationIsRefused) {
  Start(2);
  std::vector<float> values(10);
  ASSERT_OK_AND_ASSIGN(auto old, Open(0, 1));
  ASSERT_OK_AND_ASSIGN(auto next, Open(1, 2));
  EXPECT_THAT(old->AllReduce(values, {.patience = kLong}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker/1 at "), HasSubstr("generation 1"),
                             HasSubstr("is over here; this is generation 2"))));
  EXPECT_THAT(Open(1, 2).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("generation 2")));
}

TEST_P(CommunicatorTest, WhoHasNotCalledIsNamed) {
  Start(2);
  ASSERT_OK_AND_ASSIGN(auto first, Open(0));
  ASSERT_OK_AND_ASSIGN(auto second, Open(1));
  std::vector<float> values(10);
  const absl::Status status = first->AllReduce(values, {.patience = absl::Milliseconds(200)});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("worker/1 at "), HasSubstr("has sent nothing for"),
                                     HasSubstr("has not come to this call"),
                                     HasSubstr("all-reduce of 10 floats"))));
  // It stays so, and the other one knows.
  EXPECT_EQ(first->AllReduce(values), status);
  EXPECT_THAT(
      second->AllReduce(values),
      StatusIs(absl::StatusCode::kAborted, AllOf(HasSubstr("worker/0 at "), HasSubstr("gave up"))));
}

TEST_P(CommunicatorTest, AbortEndsACallAtOnceAndAllLearnOfIt) {
  Start(3);
  const absl::Duration began = Clock::Real()->Now();
  std::latch all_have_called(3);
  Run(1, [&](uint32_t rank, Communicator* communicator) {
    std::vector<float> values(5'000, 1.0f);
    ASSERT_OK(communicator->AllReduce(values, {.patience = kLong}));
    all_have_called.arrive_and_wait();
    if (rank == 2) {
      return;  // never calls again
    }
    std::jthread aborts([&] {
      if (rank == 0) {
        communicator->Abort(absl::CancelledError("the job has ended"));
      }
    });
    EXPECT_THAT(communicator->AllReduce(values, {.patience = kLong}),
                StatusIs(rank == 0 ? absl::StatusCode::kCancelled : absl::StatusCode::kAborted,
                         HasSubstr("the job has ended")));
  });
  EXPECT_LT(Clock::Real()->Now() - began, kLong / 2);
}

TEST_P(CommunicatorTest, CallsThatDifferAreRefused) {
  Start(2);
  Run(1, [](uint32_t rank, Communicator* communicator) {
    std::vector<float> values(rank == 0 ? 10 : 11);
    EXPECT_THAT(communicator->AllReduce(values, {.algorithm = Algorithm::kRing, .patience = kLong})
                    .message(),
                AllOf(HasSubstr("of 10 floats (RING)"), HasSubstr("of 11 floats (RING)")));
  });
}

TEST_P(CommunicatorTest, WhoHasLeftIsNamedLongBeforeThePatienceEnds) {
  Start(2);
  const absl::Duration began = Clock::Real()->Now();
  Run(1, [](uint32_t rank, Communicator* communicator) {
    std::vector<float> values(10, 1.0f);
    ASSERT_OK(communicator->AllReduce(values, {.patience = kLong}));
  });
  ASSERT_OK_AND_ASSIGN(auto first, Open(0, 2));
  ASSERT_OK(Open(1, 2).status());  // comes and leaves
  std::vector<float> values(10, 1.0f);
  EXPECT_THAT(first->AllReduce(values, {.patience = kLong}).message(),
              AllOf(HasSubstr("worker/1 at "), AnyOf(HasSubstr("its member has left"),
                                                     HasSubstr("gave up: the member has left"))));
  EXPECT_LT(Clock::Real()->Now() - began, kLong / 2);
}

TEST_P(CommunicatorTest, WhoOnlyWaitsIsToldOfOneThatLeaves) {
  Start(2);
  for (const bool aborted_before : {false, true}) {
    const absl::Duration began = Clock::Real()->Now();
    ASSERT_OK_AND_ASSIGN(auto waits, Open(0, 1 + aborted_before));
    ASSERT_OK_AND_ASSIGN(auto leaves, Open(1, 1 + aborted_before));
    std::vector<float> values(10, 1.0f), others(10, 1.0f);
    ASSERT_OK(leaves->Broadcast(others, /*root=*/1, {.patience = kLong}));  // as far as it is heard
    ASSERT_OK(waits->Broadcast(values, /*root=*/1, {.patience = kLong}));
    std::jthread left([&] {
      if (aborted_before) {  // between two calls
        leaves->Abort(absl::CancelledError("the member has left"));
        EXPECT_FALSE(leaves->Broadcast(others, /*root=*/1, {.patience = kLong}).ok());
      }
      leaves = nullptr;
    });
    EXPECT_THAT(waits->Broadcast(values, /*root=*/1, {.patience = kLong}),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("the member has left")));
    EXPECT_LT(Clock::Real()->Now() - began, kLong / 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, CommunicatorTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const ::testing::TestParamInfo<Transport>& info) {
                           return info.param == Transport::GRPC ? "Grpc" : "SharedMemory";
                         });

}  // namespace
}  // namespace monsoon
