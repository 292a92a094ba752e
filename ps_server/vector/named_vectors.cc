#include "ps_server/vector/named_vectors.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/vector_name.h"

namespace monsoon {

NamedVectors::NamedVectors(std::string job, size_t floats, MemoryBudget* budget)
    : job_(std::move(job)), floats_(floats), budget_(budget) {}

absl::StatusOr<std::unique_ptr<SliceVector>> NamedVectors::Allocate(const std::string& name) const {
  RETURN_IF_ERROR(CheckVectorName(name));
  {
    MutexLock lock(&mutex_);
    if (vectors_.contains(name)) {
      return absl::AlreadyExistsError(
          absl::StrCat("job ", job_, ": vector \"", name, "\" exists; write a new name"));
    }
  }
  ASSIGN_OR_RETURN(MemoryBudget::Reservation memory,
                   budget_->Reserve(VectorCost(floats_ * sizeof(float)), absl::StrCat("job ", job_),
                                    absl::StrCat("vector \"", name, "\"")));
  return std::make_unique<SliceVector>(std::move(memory), AlignedFloats::Uninitialized(floats_));
}

void NamedVectors::Store(const std::string& name, std::unique_ptr<SliceVector> vector) {
  MutexLock lock(&mutex_);
  CHECK(vectors_.emplace(name, std::move(vector)).second);
}

absl::StatusOr<std::shared_ptr<const SliceVector>> NamedVectors::Find(
    const std::string& name) const {
  MutexLock lock(&mutex_);
  const auto found = vectors_.find(name);
  if (found == vectors_.end()) {
    return absl::NotFoundError(
        absl::StrCat("job ", job_, " has no vector \"", absl::CHexEscape(name), "\""));
  }
  return found->second;
}

void NamedVectors::Free(const std::string& name) {
  std::shared_ptr<const SliceVector> freed;  // after the lock
  MutexLock lock(&mutex_);
  if (const auto found = vectors_.find(name); found != vectors_.end()) {
    freed = std::move(found->second);
    vectors_.erase(found);
  }
}

void NamedVectors::Clear() {
  std::map<std::string, std::shared_ptr<const SliceVector>> freed;  // after the lock
  MutexLock lock(&mutex_);
  freed.swap(vectors_);
}

uint64_t NamedVectors::memory_bytes() const {
  MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const auto& [name, vector] : vectors_) {
    bytes += vector->bytes();
  }
  return bytes;
}

}  // namespace monsoon
