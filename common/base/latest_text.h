// LatestText: a text that one thread sets and others read.
//
// Thread safe.
#pragma once

#include <string>
#include <utility>

#include "common/base/mutex.h"

namespace monsoon {

class LatestText {
 public:
  void Set(std::string text) {
    MutexLock lock(&mutex_);
    text_ = std::move(text);
  }
  std::string Get() const {
    MutexLock lock(&mutex_);
    return text_;
  }

 private:
  mutable Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
