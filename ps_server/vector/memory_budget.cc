#include "ps_server/vector/memory_budget.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

MemoryBudget::Reservation::~Reservation() {
  if (budget_ != nullptr) {
    budget_->Release(bytes_);
  }
}

void MemoryBudget::Reservation::Add(Reservation other) {
  CHECK(budget_ == nullptr || other.budget_ == nullptr || budget_ == other.budget_);
  if (budget_ == nullptr) {
    Swap(&other);
    return;
  }
  bytes_ += other.bytes_;
  other.budget_ = nullptr;
}

MemoryBudget::MemoryBudget(std::string owner, uint64_t limit_bytes, std::string limit_is)
    : owner_(std::move(owner)), limit_bytes_(limit_bytes), limit_is_(std::move(limit_is)) {}

absl::StatusOr<MemoryBudget::Reservation> MemoryBudget::Reserve(uint64_t bytes,
                                                                absl::string_view subject,
                                                                absl::string_view purpose) {
  MutexLock lock(&mutex_);
  if (bytes > limit_bytes_ || used_ > limit_bytes_ - bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(owner_, ": ", subject, " needs ", bytes, " bytes for ", purpose, "; with ",
                     used_, " in use the sum is ", used_ + bytes, ", over the limit of ",
                     limit_bytes_, " (", limit_is_, ")"));
  }
  used_ += bytes;
  return Reservation(this, bytes);
}

uint64_t MemoryBudget::used() const {
  MutexLock lock(&mutex_);
  return used_;
}

void MemoryBudget::Release(uint64_t bytes) {
  MutexLock lock(&mutex_);
  CHECK_GE(used_, bytes);
  used_ -= bytes;
}

}  // namespace monsoon
