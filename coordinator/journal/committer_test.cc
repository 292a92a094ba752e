#include "coordinator/journal/committer.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kLong = absl::Seconds(60);

// What is committed, and whether it can be.
class Disk {
 public:
  absl::Status Commit(const StateUpdates& updates, absl::Duration at) {
    MutexLock lock(&mutex_);
    ++tries_;
    changed_.NotifyAll();
    while (held_) {
      changed_.WaitFor(&mutex_, absl::Seconds(1));
    }
    if (!error_.ok()) {
      return error_;
    }
    std::vector<uint64_t> incarnations;
    for (const StateUpdate& update : updates.update()) {
      incarnations.push_back(update.worker_joined().incarnation());
    }
    commits_.push_back(incarnations);
    at_ = at;
    return absl::OkStatus();
  }
  void SetError(absl::Status error) {
    MutexLock lock(&mutex_);
    error_ = std::move(error);
  }
  void Hold(bool held) {
    MutexLock lock(&mutex_);
    held_ = held;
    changed_.NotifyAll();
  }
  void AwaitTries(int tries) {
    MutexLock lock(&mutex_);
    while (tries_ < tries) {
      ASSERT_TRUE(changed_.WaitFor(&mutex_, kLong));
    }
  }
  std::vector<std::vector<uint64_t>> commits() {
    MutexLock lock(&mutex_);
    return commits_;
  }
  absl::Duration at() {
    MutexLock lock(&mutex_);
    return at_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int tries_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::vector<uint64_t>> commits_ ABSL_GUARDED_BY(mutex_);
  absl::Duration at_ ABSL_GUARDED_BY(mutex_);
};

class FakeJournal : public Journal {
 public:
  explicit FakeJournal(Disk* disk) : disk_(disk) {}
  absl::Status Commit(const StateUpdates& updates, absl::Duration at) override {
    return disk_->Commit(updates, at);
  }

 private:
  Disk* const disk_;
};

class CommitterTest : public ::testing::Test {
 protected:
  void Join(uint64_t incarnation) {
    StateUpdate update;
    update.mutable_worker_joined()->set_incarnation(incarnation);
    committer_.Add(update);
  }
  void AddEvent() {
    StateUpdate update;
    update.mutable_event_added();
    committer_.Add(update);
  }
  uint64_t End() { return committer_.EndCall(absl::Seconds(static_cast<double>(++calls_))); }

  Disk disk_;
  Committer committer_{std::make_unique<FakeJournal>(&disk_), Clock::Real()};
  int calls_ = 0;
};

TEST_F(CommitterTest, ACallIsCommittedAsAWhole) {
  EXPECT_TRUE(committer_.Await(End(), kLong)) << "nothing has changed";
  Join(1);
  AddEvent();
  Join(2);
  EXPECT_TRUE(committer_.Await(End(), kLong));
  EXPECT_THAT(disk_.commits(), ElementsAre(ElementsAre(1, 0, 2)));
  EXPECT_EQ(disk_.at(), absl::Seconds(2));
}

TEST_F(CommitterTest, CallsThatComeMeanwhileShareOneWrite) {
  disk_.Hold(true);
  Join(1);
  const uint64_t first = End();
  disk_.AwaitTries(1);
  for (uint64_t i = 2; i <= 9; ++i) {
    Join(i);
    End();
  }
  Join(10);  // of a call that is under way
  EXPECT_FALSE(committer_.Await(first, absl::ZeroDuration()));
  disk_.Hold(false);
  const uint64_t last = End();
  EXPECT_TRUE(committer_.Await(first, kLong));
  EXPECT_TRUE(committer_.Await(last, kLong));
  const std::vector<std::vector<uint64_t>> commits = disk_.commits();
  EXPECT_THAT(commits[0], ElementsAre(1));
  EXPECT_LE(commits.size(), 3u);
}

TEST_F(CommitterTest, WhatMayLagWaitsForNobodyAndIsWrittenSoon) {
  AddEvent();
  EXPECT_TRUE(committer_.Await(End(), absl::ZeroDuration()));
  disk_.AwaitTries(1);
}

TEST_F(CommitterTest, AFailureIsTriedAgainWithWhatCameSince) {
  disk_.SetError(absl::ResourceExhaustedError("No space left on device"));
  Join(1);
  const uint64_t first = End();
  disk_.AwaitTries(2);
  EXPECT_FALSE(committer_.Await(first, absl::ZeroDuration()));
  EXPECT_THAT(committer_.trouble(), HasSubstr("No space left"));
  Join(2);
  const uint64_t second = End();
  disk_.SetError(absl::OkStatus());
  EXPECT_TRUE(committer_.Await(second, kLong));
  std::vector<uint64_t> all;
  for (const std::vector<uint64_t>& commit : disk_.commits()) {
    all.insert(all.end(), commit.begin(), commit.end());
  }
  EXPECT_THAT(all, ElementsAre(1, 2));
  EXPECT_THAT(committer_.trouble(), IsEmpty());
}

TEST_F(CommitterTest, StopLetsNobodyWait) {
  disk_.SetError(absl::UnavailableError("Input/output error"));
  Join(1);
  const uint64_t ticket = End();
  disk_.AwaitTries(1);
  committer_.Stop();
  EXPECT_FALSE(committer_.Await(ticket, kLong));
}

TEST(CommitterEndTest, CommitsWhatIsLeft) {
  Disk disk;
  {
    Committer committer(std::make_unique<FakeJournal>(&disk), Clock::Real());
    StateUpdate update;
    update.mutable_event_added();
    committer.Add(update);
    committer.EndCall(absl::Seconds(1));
  }
  EXPECT_THAT(disk.commits(), SizeIs(1));
}

TEST(CommitterEndTest, WithoutAJournalAllCountsAsCommitted) {
  Committer committer(nullptr, Clock::Real());
  StateUpdate update;
  update.mutable_worker_joined()->set_incarnation(1);
  committer.Add(update);
  EXPECT_TRUE(committer.Await(committer.EndCall(absl::Seconds(1)), absl::ZeroDuration()));
}

}  // namespace
}  // namespace monsoon
