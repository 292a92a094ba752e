#include "common/transport/frame/stream_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

StreamBudget::StreamBudget(uint64_t budget_bytes, uint64_t stream_bytes)
    : budget_bytes_(budget_bytes),
      capacity_(std::max<uint64_t>(1, budget_bytes / 4 * 3 / stream_bytes)) {}

absl::Status StreamBudget::Acquire() {
  MutexLock lock(&mutex_);
  if (open_ == capacity_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", capacity_, " data streams that a message budget of ", budget_bytes_ >> 20,
        " MiB allows are open; raise ps.message_memory_mib in the cluster file"));
  }
  ++open_;
  return absl::OkStatus();
}

void StreamBudget::Release() {
  MutexLock lock(&mutex_);
  CHECK_GT(open_, 0u);
  --open_;
}

}  // namespace monsoon
