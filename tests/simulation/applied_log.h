// AppliedLog: what one shard has applied to its slice of the job, in order, kept outside of
// its processes. When a life begins with an older content, what that lacks is undone. What
// the slice holds must follow from the log alone, bit by bit, whatever has happened to the
// processes: Replay is the optimizer written once more, a float at a time.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/kept_bytes.h"
#include "ps_server/shard/session_table.h"

namespace monsoon::simulation {

// Of a job whose stripes are all of this length.
inline constexpr size_t kStripeFloats = 16;

// One push to one shard: its stripes' gradients one after the other, in `format`.
struct PushBytes {
  PushBytes(WireFormat of_format, uint32_t stripes)
      : format(of_format), bytes(stripes * StripeBytes(of_format)) {}
  static size_t StripeBytes(WireFormat format) {
    return kStripeFloats * (format == FLOAT32 ? 4 : 2);
  }

  const WireFormat format;
  KeptBytes bytes;
};

class AppliedLog {
 public:
  explicit AppliedLog(uint32_t stripes) : stripes_(stripes) {}

  // Fails the test where the stripe's version does not count what was applied.
  void Applied(uint32_t stripe, SessionId session, uint64_t sequence,
               std::shared_ptr<const PushBytes> push, uint64_t version);
  // A life begins with this version of the stripe.
  void Restored(uint32_t stripe, uint64_t version);

  uint32_t stripes() const { return static_cast<uint32_t>(stripes_.size()); }
  uint64_t version(uint32_t stripe) const { return stripes_[stripe].size(); }
  // The last sequence of the session that the stripe holds. Fails the test unless it holds
  // each before that exactly once, in order.
  uint64_t Held(uint32_t stripe, SessionId session) const;
  // The last one that it ever had.
  uint64_t Seen(uint32_t stripe, SessionId session) const;

  struct Content {
    std::vector<float> parameters;
    std::vector<float> state;
  };
  // Of the stripe, which began with `initial`.
  Content Replay(uint32_t stripe, const Optimizer& optimizer, std::vector<float> initial) const;

 private:
  struct Entry {
    SessionId session;
    uint64_t sequence = 0;
    std::shared_ptr<const PushBytes> push;
  };
  std::vector<std::vector<Entry>> stripes_;
  std::map<std::pair<uint32_t, SessionId>, uint64_t> seen_;
};

}  // namespace monsoon::simulation
