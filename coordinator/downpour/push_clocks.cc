#include "coordinator/downpour/push_clocks.h"

namespace monsoon {

ClockReply PushClocks::Tell(uint32_t worker, const ClockRequest& told,
                            const std::set<uint32_t>& training) {
  Replica& own = replicas_[worker];
  ClockReply reply;
  reply.set_clock(told.clock());
  reply.set_slowest(worker);
  if (told.call() <= own.call) {
    return reply;  // it comes late, and nobody waits for the answer
  }
  own.call = told.call();
  if (own.waits && !told.begins()) {
    return reply;  // it was sent before it had to wait
  }
  own.clock = told.clock();
  own.waits = told.begins();
  std::optional<uint64_t> least;  // of the others
  for (const uint32_t other : training) {
    const auto found = replicas_.find(other);
    if (found == replicas_.end()) {
      reply.set_slowest(other);
      return reply;
    }
    const Replica& replica = found->second;
    if (other != worker && !replica.waits && (!least || replica.clock < *least)) {
      least = replica.clock;
      reply.set_slowest(other);
    }
  }
  if (told.begins()) {
    own.clock = least.value_or(told.clock());
    own.waits = false;
  }
  reply.set_clock(own.clock);
  if (!least || own.clock < *least) {
    least = own.clock;
    reply.set_slowest(worker);
  }
  reply.set_least(*least);
  return reply;
}

void PushClocks::Rest(uint32_t worker) { replicas_[worker].waits = true; }

std::optional<uint64_t> PushClocks::of(uint32_t worker) const {
  const auto found = replicas_.find(worker);
  return found == replicas_.end() || found->second.waits ? std::nullopt
                                                         : std::make_optional(found->second.clock);
}

}  // namespace monsoon
