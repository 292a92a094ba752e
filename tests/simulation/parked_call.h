// ParkedCall: a call over the virtual network that parks the virtual thread that makes it, until
// it is answered or its deadline is over.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/simulation/simulated_process.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

// The threads of a life that is over find out within this time.
inline constexpr absl::Duration kLookForDeath = absl::Milliseconds(100);

// From `from`, of whose life the thread is, to `to`; `serve` as in VirtualNetwork::Call. A life
// that is over gets UNAVAILABLE.
template <typename Reply>
absl::StatusOr<Reply> ParkedCall(World* world, SimulatedProcess* from, const ProcessLife& life,
                                 SimulatedProcess* to, absl::Duration deadline,
                                 std::function<void(VirtualNetwork::Answer<Reply>)> serve) {
  const auto answer = std::make_shared<std::optional<absl::StatusOr<Reply>>>();
  if (!life.over()) {
    world->network.Call<Reply>(from, to, deadline, std::move(serve),
                               [world, answer](absl::StatusOr<Reply> reply) {
                                 *answer = std::move(reply);
                                 world->threads.WakeAll(answer.get());
                               });
  }
  while (!answer->has_value()) {
    world->threads.Park(answer.get(), kLookForDeath);
    if (life.over()) {
      return absl::UnavailableError("this process is dead");
    }
  }
  return **answer;
}

}  // namespace monsoon::simulation
