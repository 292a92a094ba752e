// NamedVectors: a job's vectors by name. A vector does not change once it has
// its name, so a reader that holds one reads it without a lock, also after the
// name is freed.
//
// Thread safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "ps_server/vector/memory_budget.h"

namespace monsoon {

// What a vector of `bytes` takes with its name and what the allocator rounds up.
constexpr uint64_t VectorCost(uint64_t bytes) {
  return bytes + 256 + std::min<uint64_t>(bytes / 32, 8192);
}

// The slice's floats, stripe after stripe, with the memory they stand for.
class SliceVector {
 public:
  SliceVector(MemoryBudget::Reservation memory, AlignedFloats floats)
      : memory_(std::move(memory)), floats_(std::move(floats)) {}

  float* data() { return floats_.data(); }
  const float* data() const { return floats_.data(); }
  size_t size() const { return floats_.size(); }
  uint64_t bytes() const { return floats_.size() * sizeof(float); }

 private:
  const MemoryBudget::Reservation memory_;
  AlignedFloats floats_;
};

class NamedVectors {
 public:
  // `job` is for messages, `floats` the slice's length; `budget` outlives the
  // vectors.
  NamedVectors(std::string job, size_t floats, MemoryBudget* budget);

  // A vector to be filled and named. InvalidArgument for a name that CheckVectorName
  // refuses, AlreadyExists for one in use, ResourceExhausted with the sum. The contents
  // are not defined.
  absl::StatusOr<std::unique_ptr<SliceVector>> Allocate(const std::string& name) const;
  // Gives it the name it was allocated for.
  void Store(const std::string& name, std::unique_ptr<SliceVector> vector);

  // NotFound names job and vector.
  absl::StatusOr<std::shared_ptr<const SliceVector>> Find(const std::string& name) const;

  // A name that does not exist is ignored.
  void Free(const std::string& name);
  // All of them.
  void Clear();

  // Floats of the vectors that have a name.
  uint64_t memory_bytes() const;

 private:
  const std::string job_;
  const size_t floats_;
  MemoryBudget* const budget_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const SliceVector>> vectors_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
