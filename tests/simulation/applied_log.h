// AppliedLog: what one shard has applied to its slice of the job, in order, kept outside of
// its processes. When a life begins with an older content, what that lacks is undone. What
// the slice holds must follow from the log alone, bit by bit, whatever has happened to the
// processes: Replay is the optimizer written once more, a float at a time.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/session_table.h"

namespace monsoon::simulation {

// Of a job whose stripes are all of this length.
inline constexpr size_t kStripeFloats = 16;

// The floats of a stripe, of FLOAT32, BFLOAT16 or what a TensorCodec has.
std::vector<float> DecodeStripe(WireFormat format, std::span<const std::byte> bytes);

class AppliedLog {
 public:
  explicit AppliedLog(uint32_t stripes) : stripes_(stripes) {}

  // One push as a stripe has taken it.
  struct Entry {
    SessionId session;
    uint64_t sequence = 0;
    std::vector<float> gradient;
    double weight = 1;   // in its round
    double part = 1;     // of a whole difference
    uint64_t round = 0;  // the version that it makes, alone or with others of its round
  };
  void Applied(uint32_t stripe, Entry entry);
  // A life begins with this version of the stripe, and so many pushes of the round after it.
  void Restored(uint32_t stripe, uint64_t version, uint64_t open);

  uint32_t stripes() const { return static_cast<uint32_t>(stripes_.size()); }
  // Fails the test unless each version up to this one was made by some push, and `open` pushes
  // are of the round after it.
  void CheckVersion(uint32_t stripe, uint64_t version, uint64_t open) const;
  // The last sequence of the session that the stripe holds. Fails the test unless it holds
  // each before that exactly once, in order.
  uint64_t Held(uint32_t stripe, SessionId session) const;
  // The last one that it ever had.
  uint64_t Seen(uint32_t stripe, SessionId session) const;

  struct Content {
    std::vector<float> parameters;
    std::vector<float> state;
  };
  // Of the stripe at that version, which began with `initial`. The mean of a round of several
  // is not rounded as the shard does it.
  Content Replay(uint32_t stripe, uint64_t version, const Optimizer& optimizer,
                 std::vector<float> initial) const;

 private:
  std::vector<std::vector<Entry>> stripes_;
  std::map<std::pair<uint32_t, SessionId>, uint64_t> seen_;
};

}  // namespace monsoon::simulation
