#include "coordinator/downpour/push_clocks.h"

#include <algorithm>

namespace monsoon {

ClockReply PushClocks::Tell(uint32_t worker, uint64_t clock, bool begins,
                            const std::set<uint32_t>& training) {
  uint64_t& own = clocks_[worker];
  own = std::max(own, clock);  // an earlier call may come late
  ClockReply reply;
  reply.set_clock(own);
  std::optional<uint32_t> slowest;
  for (const uint32_t other : training) {
    if (other == worker) {
      continue;
    }
    if (!clocks_.contains(other)) {
      reply.set_slowest(other);
      return reply;
    }
    if (!slowest || clocks_[other] < clocks_[*slowest]) {
      slowest = other;
    }
  }
  if (begins && slowest) {
    own = std::max(own, clocks_[*slowest]);
    reply.set_clock(own);
  }
  reply.set_slowest(slowest && clocks_[*slowest] < own ? *slowest : worker);
  reply.set_least(clocks_[reply.slowest()]);
  return reply;
}

std::optional<uint64_t> PushClocks::of(uint32_t worker) const {
  const auto told = clocks_.find(worker);
  return told == clocks_.end() ? std::nullopt : std::make_optional(told->second);
}

}  // namespace monsoon
