// MemoryBudget: what all jobs of a shard may take together
// (ps.memory_limit_mib): parameters, optimizer state, vectors and sums. Memory
// is reserved before it is taken and given back with its owner.
//
// Thread safe. The budget outlives its reservations.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace monsoon {

class MemoryBudget {
 public:
  // Bytes that are given back on destruction.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept { Swap(&other); }
    Reservation& operator=(Reservation&& other) noexcept {
      Reservation(std::move(other)).Swap(this);
      return *this;
    }
    ~Reservation();

    uint64_t bytes() const { return bytes_; }
    // Takes over the bytes of `other`, which is of the same budget or empty.
    void Add(Reservation other);

   private:
    friend class MemoryBudget;
    Reservation(MemoryBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}
    void Swap(Reservation* other) {
      std::swap(budget_, other->budget_);
      std::swap(bytes_, other->bytes_);
    }

    MemoryBudget* budget_ = nullptr;
    uint64_t bytes_ = 0;
  };

  // `owner` ("ps/1") begins every message, which says where the limit comes from.
  MemoryBudget(std::string owner, uint64_t limit_bytes,
               std::string limit_is = "ps.memory_limit_mib in the cluster file");

  // ResourceExhausted: "ps/1: job a needs 64 bytes for parameters; ..." with the
  // sum and the limit, where subject is "job a" and purpose "parameters".
  absl::StatusOr<Reservation> Reserve(uint64_t bytes, absl::string_view subject,
                                      absl::string_view purpose);

  uint64_t used() const;

 private:
  void Release(uint64_t bytes);

  const std::string owner_;
  const uint64_t limit_bytes_;
  const std::string limit_is_;
  mutable Mutex mutex_;
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace monsoon
