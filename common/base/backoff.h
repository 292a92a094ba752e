// Backoff: how long to wait before the n-th repetition. Pure; the caller waits
// and watches its deadline.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace monsoon {

struct BackoffOptions {
  absl::Duration initial = absl::Milliseconds(10);
  absl::Duration maximum = absl::Milliseconds(500);
  double factor = 2.0;
  // Each wait is drawn from [1 - jitter, 1] times the plan, so that replicas
  // that lost the same shard do not come back at once.
  double jitter = 0.3;
};

class Backoff {
 public:
  explicit Backoff(BackoffOptions options = {}, uint64_t seed = 0)
      : options_(options), seed_(seed) {}

  // The wait before the next repetition.
  absl::Duration Next();
  // Begins anew after a success.
  void Reset() { count_ = 0; }
  uint32_t count() const { return count_; }

 private:
  const BackoffOptions options_;
  const uint64_t seed_;
  uint32_t count_ = 0;
};

}  // namespace monsoon
