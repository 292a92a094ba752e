// Recycler: gives out objects that somebody else will drop, on any thread, and
// gives the same ones out again: a buffer that was used lately is still mapped
// and in a cache.
#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace monsoon {

// Thread safe. Objects may outlive the recycler.
template <typename T>
class Recycler {
 public:
  // Keeps `most` objects that are not in use.
  explicit Recycler(size_t most) : idle_(std::make_shared<Idle>()) { idle_->most = most; }

  // One as it was dropped, or a new one.
  std::shared_ptr<T> Take() {
    std::unique_ptr<T> object;
    {
      MutexLock lock(&idle_->mutex);
      if (!idle_->objects.empty()) {
        object = std::move(idle_->objects.back());
        idle_->objects.pop_back();
      }
    }
    if (object == nullptr) {
      object = std::make_unique<T>();
    }
    return {object.release(), [idle = idle_](T* dropped) { idle->Keep(dropped); }};
  }

 private:
  struct Idle {
    void Keep(T* dropped) {
      std::unique_ptr<T> object(dropped);
      MutexLock lock(&mutex);
      if (objects.size() < most) {
        objects.push_back(std::move(object));
      }
    }

    Mutex mutex;
    size_t most = 0;
    std::vector<std::unique_ptr<T>> objects ABSL_GUARDED_BY(mutex);
  };

  const std::shared_ptr<Idle> idle_;
};

}  // namespace monsoon
