// Fault injection for tests: `--fault=delay_ms=20,drop=0.01,seed=1` delays
// every RPC or frame and breaks a share of them; `compute_delay_ms=N` makes a
// worker slow, `break_device_after=N` breaks its first replica's device. Loopback only; the daemons
// refuse the flag otherwise. Pure: the callers wait and break.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"

namespace monsoon {

struct FaultOptions {
  uint32_t delay_ms = 0;            // added to every RPC and every frame
  double drop = 0.0;                // probability in [0, 1) that one is lost
  uint64_t seed = 0;                // of the dice
  uint32_t compute_delay_ms = 0;    // added to every chunk of a batch job; workers only
  uint32_t break_device_after = 0;  // gradients of a session; 0: never; workers only

  bool enabled() const {
    return delay_ms != 0 || drop != 0.0 || compute_delay_ms != 0 || break_device_after != 0;
  }
};

// Parses "delay_ms=20,drop=0.01,seed=1"; every part may be left out. "" gives
// no faults. InvalidArgument names the part.
absl::StatusOr<FaultOptions> ParseFaultOptions(absl::string_view text);

// What happens to one RPC or frame.
struct Fault {
  enum class Loss {
    kNone,
    kRequest,  // lost before it was served
    kReply,    // served, but the answer is lost
  };
  absl::Duration delay;
  Loss loss = Loss::kNone;
};

// Deals the faults of one process: the n-th is a function of (seed, n).
// Thread safe.
class FaultInjector {
 public:
  explicit FaultInjector(const FaultOptions& options) : options_(options) {}
  bool enabled() const { return options_.enabled(); }
  Fault Next();

 private:
  const FaultOptions options_;
  Mutex mutex_;
  uint64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace monsoon
