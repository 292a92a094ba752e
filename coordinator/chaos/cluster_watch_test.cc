#include "coordinator/chaos/cluster_watch.h"

#include "common/base/mutex.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// A coordinator whose answers wait until they are let through.
class Answers {
 public:
  absl::StatusOr<ClusterView> Ask() {
    MutexLock lock(&mutex_);
    const int mine = ++asked_;
    changed_.NotifyAll();
    changed_.WaitFor(&mutex_, kPatience, [&] {
      mutex_.AssertHeld();
      return let_through_ >= mine;
    });
    if (mine == 2) {
      return absl::UnavailableError("away");
    }
    ClusterView view;
    view.asked_at = absl::Seconds(mine);
    return view;
  }
  void LetThrough(int count) {
    MutexLock lock(&mutex_);
    let_through_ = count;
    changed_.NotifyAll();
  }
  bool AwaitAsked(int count) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, kPatience, [&] {
      mutex_.AssertHeld();
      return asked_ >= count;
    });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
  int let_through_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(WatchInBackground, DoesNotWaitForAnAnswer) {
  Answers answers;
  const auto watch = WatchInBackground([&answers] { return answers.Ask(); }, absl::Milliseconds(1));
  ASSERT_TRUE(answers.AwaitAsked(1));
  EXPECT_EQ(watch->Newest().view, nullptr);
  answers.LetThrough(1);
  ASSERT_TRUE(answers.AwaitAsked(2));
  ASSERT_NE(watch->Newest().view, nullptr);
  EXPECT_EQ(watch->Newest().view->asked_at, absl::Seconds(1));
  EXPECT_TRUE(watch->Newest().status.ok());
  // An error keeps the view.
  answers.LetThrough(2);
  ASSERT_TRUE(answers.AwaitAsked(3));
  EXPECT_EQ(watch->Newest().status, absl::UnavailableError("away"));
  EXPECT_EQ(watch->Newest().view->asked_at, absl::Seconds(1));
  answers.LetThrough(3);
  ASSERT_TRUE(answers.AwaitAsked(4));
  EXPECT_TRUE(watch->Newest().status.ok());
  EXPECT_EQ(watch->Newest().view->asked_at, absl::Seconds(3));
  answers.LetThrough(1000000);
}

TEST(WatchInBackground, ItsEndDoesNotWaitForThePause) {
  Answers answers;
  answers.LetThrough(1000000);
  WatchInBackground([&answers] { return answers.Ask(); }, absl::Hours(10)).reset();
}

TEST(WatchOnDemand, AsksEachTime) {
  Answers answers;
  answers.LetThrough(1000000);
  const auto watch = WatchOnDemand([&answers] { return answers.Ask(); });
  EXPECT_EQ(watch->Newest().view->asked_at, absl::Seconds(1));
  const ClusterNews away = watch->Newest();
  EXPECT_EQ(away.view->asked_at, absl::Seconds(1));
  EXPECT_FALSE(away.status.ok());
  EXPECT_EQ(watch->Newest().view->asked_at, absl::Seconds(3));
}

}  // namespace
}  // namespace monsoon
