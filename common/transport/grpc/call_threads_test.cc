#include "common/transport/grpc/call_threads.h"

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Calls that hold their threads until they are let go, and the order in which they were served.
class HeldCalls {
 public:
  explicit HeldCalls(const CallLimits& limits) : threads_(std::make_unique<CallThreads>(limits)) {}
  ~HeldCalls() { Release(); }

  absl::Status Offer(const CallThreads::Peer& peer, uint64_t bytes = 1) {
    return threads_->Offer(peer, bytes, [this, name = peer.name] {
      {
        MutexLock lock(&mutex_);
        served_.push_back(name);
        most_ = std::max(most_, ++running_);
      }
      began_.NotifyAll();
      released_.wait();
      MutexLock lock(&mutex_);
      --running_;
    });
  }
  // Waits until so many hold a thread each.
  bool AwaitRunning(int count) {
    MutexLock lock(&mutex_);
    return began_.WaitFor(&mutex_, absl::Seconds(10), [&] {
      mutex_.AssertHeld();
      return running_ == count;
    });
  }
  // Serves all, and what it took.
  std::vector<std::string> Release() {
    if (threads_ != nullptr) {
      release_.set_value();
      threads_->Stop();
      threads_.reset();
    }
    MutexLock lock(&mutex_);
    return served_;
  }
  int most() {
    MutexLock lock(&mutex_);
    return most_;
  }

 private:
  std::promise<void> release_;
  const std::shared_future<void> released_ = release_.get_future().share();
  Mutex mutex_;
  CondVar began_;
  std::vector<std::string> served_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  int most_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<CallThreads> threads_;
};

TEST(CallThreadsTest, HasAThreadForEachCallUpToTheBound) {
  HeldCalls calls({.threads = 3});
  for (int i = 0; i < 8; ++i) {
    EXPECT_OK(calls.Offer({"a"}));
  }
  EXPECT_TRUE(calls.AwaitRunning(3));
  EXPECT_EQ(calls.Release().size(), 8);
  EXPECT_EQ(calls.most(), 3);
}

TEST(CallThreadsTest, RefusesAPeerThatHasItsShareAndNobodyElse) {
  HeldCalls calls({.threads = 1, .calls_of_peer = 4});
  for (int i = 0; i < 4; ++i) {
    EXPECT_OK(calls.Offer({"a"}));
  }
  EXPECT_THAT(
      calls.Offer({"a"}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "a has 4 calls that wait or are being served, of 4 that it may have beside 0 "
               "others; make fewer at a time"));
  EXPECT_OK(calls.Offer({"b"}));
  EXPECT_EQ(calls.Release().size(), 5);
}

TEST(CallThreadsTest, ACallThatIsServedLeavesRoom) {
  CallThreads threads({.threads = 1, .calls_of_peer = 1});
  for (int i = 0; i < 100; ++i) {
    std::promise<void> served;
    // The last one is counted off after its promise.
    while (!threads.Offer({"a"}, 1, [&] { served.set_value(); }).ok()) {
      std::this_thread::yield();
    }
    served.get_future().wait();
  }
}

TEST(CallThreadsTest, PeersTakeTurns) {
  HeldCalls calls({.threads = 1});
  EXPECT_OK(calls.Offer({"a"}));
  EXPECT_TRUE(calls.AwaitRunning(1));
  for (const char* peer : {"a", "a", "a", "b", "b", "c"}) {
    EXPECT_OK(calls.Offer({peer}));
  }
  EXPECT_THAT(calls.Release(), ElementsAre("a", "a", "b", "c", "a", "b", "a"));
}

// With each new peer that has calls the others' shares get smaller, so that many connections are
// no way around the bound, and the newest one finds room.
TEST(CallThreadsTest, ManyPeersShareTheRoomOfAll) {
  HeldCalls calls({.threads = 1, .calls_of_peer = 32, .calls = 100});
  int accepted = 0;
  for (int peer = 0; peer < 60; ++peer) {
    for (int i = 0; i < 40; ++i) {
      const absl::Status offered = calls.Offer({absl::StrCat(peer)});
      EXPECT_TRUE(offered.ok() || i >= 2) << peer << " " << offered;
      accepted += offered.ok() ? 1 : 0;
    }
  }
  // The room of all, and two of each of the rest.
  EXPECT_LE(accepted, 100 + 2 * 60);
  EXPECT_EQ(calls.Release().size(), static_cast<size_t>(accepted));
}

TEST(CallThreadsTest, BytesThatWaitHaveABoundUnlessTheyComeAlone) {
  HeldCalls calls({.threads = 1, .bytes = uint64_t{4} << 20});
  EXPECT_OK(calls.Offer({"a"}, uint64_t{100} << 20));
  EXPECT_THAT(calls.Offer({"a"}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "a has requests of 104857600 bytes that wait, of 4194304 that it may have "
                       "beside 0 others; make fewer at a time"));
  EXPECT_OK(calls.Offer({"b"}, uint64_t{4} << 20));
}

TEST(CallThreadsTest, ANameOfManyHasTheRoomOfAll) {
  HeldCalls calls({.threads = 1, .calls_of_peer = 2, .calls = 10});
  EXPECT_OK(calls.Offer({"other"}));
  for (int i = 0; i < 10; ++i) {
    EXPECT_OK(calls.Offer({"unix:", CallThreads::Peer::Kind::kMany}));
  }
  EXPECT_THAT(calls.Offer({"unix:", CallThreads::Peer::Kind::kMany}),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
}

TEST(CallThreadsTest, AMemberHasMoreThanAConnectionAndNotAll) {
  HeldCalls calls({.threads = 1, .calls_of_peer = 2, .calls_of_member = 5, .calls = 100});
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(calls.Offer({"worker/7", CallThreads::Peer::Kind::kMember}));
  }
  EXPECT_THAT(calls.Offer({"worker/7", CallThreads::Peer::Kind::kMember}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("worker/7 has 5 calls")));
  EXPECT_OK(calls.Offer({"worker/8", CallThreads::Peer::Kind::kMember}));
}

TEST(CallThreadsTest, TheThreadThatBringsACallServesItAsLongAsThereAreFew) {
  CallThreads calls({.threads = 1});
  std::thread::id served;
  EXPECT_OK(calls.ServeOrOffer({"a"}, 1, [&] { served = std::this_thread::get_id(); }));
  EXPECT_EQ(served, std::this_thread::get_id());
  // While it serves it is the one thread of the bound, and serves what has come meanwhile.
  std::vector<std::thread::id> order;
  EXPECT_OK(calls.ServeOrOffer({"a"}, 1, [&] {
    for (int i = 0; i < 3; ++i) {
      std::thread([&] {
        EXPECT_OK(
            calls.ServeOrOffer({"b"}, 1, [&] { order.push_back(std::this_thread::get_id()); }));
      }).join();
    }
    EXPECT_THAT(order, ::testing::IsEmpty());
  }));
  EXPECT_THAT(order, ::testing::ElementsAreArray(std::vector(3, std::this_thread::get_id())));
}

TEST(CallThreadsTest, AThreadThatBringsACallIsRefusedAsOthersAre) {
  CallThreads calls({.calls_of_peer = 1});
  EXPECT_OK(calls.ServeOrOffer({"a"}, 1, [&] {
    EXPECT_THAT(calls.ServeOrOffer({"a"}, 1, [] { FAIL(); }),
                StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  }));
  calls.Stop();
  EXPECT_THAT(calls.ServeOrOffer({"a"}, 1, [] { FAIL(); }),
              StatusIs(absl::StatusCode::kUnavailable, "the server is stopping"));
}

TEST(CallThreadsTest, TakesNothingAfterItsStop) {
  CallThreads threads;
  threads.Stop();
  EXPECT_THAT(threads.Offer({"a"}, 1, [] { FAIL(); }),
              StatusIs(absl::StatusCode::kUnavailable, "the server is stopping"));
}

}  // namespace
}  // namespace monsoon
