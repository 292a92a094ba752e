#include "coordinator/chaos/cluster_watch.h"

#include <thread>
#include <utility>

#include "common/base/mutex.h"

namespace monsoon {
namespace {

void Take(absl::StatusOr<ClusterView> answer, ClusterNews* news) {
  news->status = answer.status();
  if (answer.ok()) {
    news->view = std::make_shared<const ClusterView>(*std::move(answer));
  }
}

class BackgroundWatch : public ClusterWatch {
 public:
  BackgroundWatch(ClusterQuestion question, absl::Duration pause)
      : question_(std::move(question)), pause_(pause), thread_([this] { Run(); }) {}
  ~BackgroundWatch() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      wake_.NotifyAll();
    }
    thread_.join();
  }

  ClusterNews Newest() override {
    MutexLock lock(&mutex_);
    return news_;
  }

 private:
  void Run() {
    while (true) {
      absl::StatusOr<ClusterView> answer = question_();
      MutexLock lock(&mutex_);
      Take(std::move(answer), &news_);
      if (wake_.WaitFor(&mutex_, pause_, [this] {
            mutex_.AssertHeld();
            return stopping_;
          })) {
        return;
      }
    }
  }

  const ClusterQuestion question_;
  const absl::Duration pause_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  ClusterNews news_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

class OnDemandWatch : public ClusterWatch {
 public:
  explicit OnDemandWatch(ClusterQuestion question) : question_(std::move(question)) {}

  ClusterNews Newest() override {
    Take(question_(), &news_);
    return news_;
  }

 private:
  const ClusterQuestion question_;
  ClusterNews news_;
};

}  // namespace

std::unique_ptr<ClusterWatch> WatchInBackground(ClusterQuestion question, absl::Duration pause) {
  return std::make_unique<BackgroundWatch>(std::move(question), pause);
}

std::unique_ptr<ClusterWatch> WatchOnDemand(ClusterQuestion question) {
  return std::make_unique<OnDemandWatch>(std::move(question));
}

}  // namespace monsoon
