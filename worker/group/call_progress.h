// CallProgress: which of some calls in replicas' threads have returned. Shared with them, since a
// replica that is given up may return later.
//
// Thread safety: any thread.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace monsoon {

class CallProgress {
 public:
  struct Returned {
    std::vector<bool> done;
    size_t finished = 0;
    absl::Duration longest;
  };

  explicit CallProgress(size_t calls) { returned_.done.resize(calls, false); }

  void Done(size_t call, absl::Duration duration);

  // Until all have returned.
  void AwaitAll();
  // Until all have, or `late` says that those that have not are, after so long a wait.
  void Await(absl::Duration slice,
             const std::function<bool(absl::Duration waited, const Returned&)>& late);
  Returned Get() const;

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  Returned returned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
