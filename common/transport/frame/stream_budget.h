// StreamBudget: how many data streams a server admits, so that the messages in
// flight stay within message_memory, whatever the clients send. gRPC's own
// ResourceQuota does not cap memory.
//
// A stream can hold at once: what the transport reads ahead, a copy and the
// decoded copy of what is applied, and three frames: the one that is served, the
// next one, and an answer being sent; or the next request, an answer being sent
// and the one after it. A quarter of the budget is kept for streams that have
// arrived but are not admitted yet, and for the allocator.
//
// Thread safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {

// Memory that `lookahead_bytes` of transport buffer make one stream cost.
constexpr uint64_t StreamBytes(uint64_t lookahead_bytes) {
  return lookahead_bytes + 2 * kMaxFramePayloadBytes + 3 * kMaxFrameBytes;
}

class StreamBudget {
 public:
  // At least one stream is always admitted.
  StreamBudget(uint64_t budget_bytes, uint64_t stream_bytes);

  // ResourceExhausted names the budget and the field that raises it. After OK
  // the caller must call Release once.
  absl::Status Acquire();
  void Release();

  uint64_t capacity() const { return capacity_; }

 private:
  const uint64_t budget_bytes_;
  const uint64_t capacity_;
  Mutex mutex_;
  uint64_t open_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace monsoon
