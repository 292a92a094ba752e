// ShardFanout: one command that every shard must carry out, with repetition.
// Tells which shards are due and keeps their answers.
//
// A pure state machine. Not thread safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace monsoon {

// How long after a lost command it is repeated.
inline constexpr absl::Duration kCommandRetry = absl::Milliseconds(200);

class ShardFanout {
 public:
  explicit ShardFanout(uint32_t shards = 0) : shards_(shards) {}

  // The shards to send to now; they count as in flight until OnResult. Those that are
  // set in `held_back` are told nothing yet.
  std::vector<uint32_t> Due(absl::Duration now, const std::vector<bool>& held_back = {});
  // UNAVAILABLE, DEADLINE_EXCEEDED and ABORTED are repeated after a while; any
  // other error is kept and ends the shard's part.
  void OnResult(uint32_t shard, const absl::Status& status, absl::Duration now);
  // The shard is gone: nothing has to be done there any more.
  void Skip(uint32_t shard);

  // All shards answered for good.
  bool done() const;
  // The first error that repetition does not cure.
  const absl::Status& error() const { return error_; }

 private:
  struct Part {
    enum class State { kDue, kInFlight, kDone };
    State state = State::kDue;
    absl::Duration not_before = -absl::InfiniteDuration();
  };
  std::vector<Part> shards_;
  absl::Status error_;
};

}  // namespace monsoon
