#include "common/transport/grpc/queue_threads.h"

#include <future>
#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "grpcpp/alarm.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

// A server's queue, on which operations are put that come back at once.
class QueueThreadsTest : public ::testing::Test {
 protected:
  void Start(unsigned threads, const QueueLooks& looks = {}) {
    grpc::ServerBuilder builder;
    std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    threads_ = std::make_unique<QueueThreads>(std::move(queue), threads, looks);
  }
  void Put(std::function<void()> complete, bool may_block) {
    Operation& operation = operations_.emplace_back();
    operation.tag = {[complete](bool) { complete(); }, may_block};
    operation.alarm.Set(threads_->queue(), gpr_now(GPR_CLOCK_MONOTONIC), &operation.tag);
  }
  // It keeps its thread until the end.
  void PutOneThatHolds(bool may_block) {
    Put(
        [this] {
          NoteOne();
          released_.wait();
        },
        may_block);
  }
  void PutOneThatCounts() {
    Put([this] { NoteOne(); }, /*may_block=*/false);
  }
  bool AwaitBegun(int count) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, kPatience, [&] {
      mutex_.AssertHeld();
      return begun_ == count;
    });
  }
  void Release() {
    if (!std::exchange(is_released_, true)) {
      release_.set_value();
    }
  }
  bool AwaitPlaces(unsigned places) {
    const absl::Duration end = Clock::Real()->Now() + kPatience;
    while (threads_->places() != places && Clock::Real()->Now() < end) {
      std::this_thread::yield();
    }
    return threads_->places() == places;
  }
  void TearDown() override {
    Release();
    if (server_ != nullptr) {
      server_->Shutdown();
    }
    threads_.reset();
  }

  std::unique_ptr<QueueThreads> threads_;

 private:
  struct Operation {
    QueueTag tag;
    grpc::Alarm alarm;
  };

  void NoteOne() {
    MutexLock lock(&mutex_);
    ++begun_;
    changed_.NotifyAll();
  }

  bool is_released_ = false;
  std::promise<void> release_;
  const std::shared_future<void> released_ = release_.get_future().share();
  Mutex mutex_;
  CondVar changed_;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Operation> operations_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(QueueThreadsTest, OthersTakeThePlacesOfThoseThatAreBlocked) {
  Start(2);
  for (int i = 0; i < 20; ++i) {
    PutOneThatHolds(/*may_block=*/true);
  }
  PutOneThatCounts();
  EXPECT_TRUE(AwaitBegun(21));
}

TEST_F(QueueThreadsTest, ThreadsThatComeBackWaitForAPlace) {
  Start(2);
  for (int i = 0; i < 100; ++i) {
    Put([] { std::this_thread::yield(); }, /*may_block=*/true);
  }
  for (int i = 0; i < 100; ++i) {
    PutOneThatCounts();
  }
  EXPECT_TRUE(AwaitBegun(100));
}

// As of connections that send without a pause, which nobody can know before.
TEST_F(QueueThreadsTest, OneMoreComesWhereAllAreKept) {
  Start(2);
  PutOneThatHolds(/*may_block=*/false);
  PutOneThatHolds(/*may_block=*/false);
  ASSERT_TRUE(AwaitBegun(2));
  PutOneThatHolds(/*may_block=*/false);
  PutOneThatCounts();
  EXPECT_TRUE(AwaitBegun(4));
}

TEST_F(QueueThreadsTest, ThoseThatCameGoWhenAllIsWell) {
  Start(1, {.period = absl::Milliseconds(1), .patience = absl::Milliseconds(20), .calm = 3});
  PutOneThatHolds(/*may_block=*/false);
  PutOneThatHolds(/*may_block=*/false);
  ASSERT_TRUE(AwaitBegun(2));
  PutOneThatCounts();
  ASSERT_TRUE(AwaitBegun(3));
  EXPECT_GE(threads_->places(), 3);
  Release();
  EXPECT_TRUE(AwaitPlaces(1));
  PutOneThatCounts();
  EXPECT_TRUE(AwaitBegun(4));
}

}  // namespace
}  // namespace monsoon
