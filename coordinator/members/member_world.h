// MemberWorld: what Members stands on, for tests: a coordinator's state without jobs, of a cluster
// "lab" with one parameter server and two workers. At its end it demands that the replay of all
// updates gives the same bytes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/checkpoints/checkpoints.h"
#include "coordinator/members/members.h"
#include "coordinator/state/replayed_state.h"
#include "gtest/gtest.h"

namespace monsoon::testing {

class MemberWorld {
 public:
  explicit MemberWorld(int64_t now_ms)
      : now{absl::Hours(1), now_ms},
        authority(*CertificateAuthority::Create("lab", absl::FromUnixMillis(now_ms))) {
    Start(CoordinatorState());
    EXPECT_TRUE(members->UseAuthority(authority).ok());
  }
  ~MemberWorld() { ExpectReplay(updates, registry->writer.state()); }

  // A life of the coordinator, without an authority.
  void Start(CoordinatorState state) {
    registry = std::make_unique<Registry>(
        Lab(), 1, now, [this](const StateUpdate& update) { updates.push_back(update); },
        std::move(state));
    checkpoints = std::make_unique<Checkpoints>(registry.get());
    replicas = std::make_unique<Replicas>(registry.get(), checkpoints.get());
    guard = std::make_unique<JournalGuard>(registry.get());
    members = std::make_unique<Members>(registry.get(), guard.get(), replicas.get(),
                                        absl::FromUnixMillis(now.unix_ms));
  }
  void Pass(absl::Duration time) {
    now.now += time;
    now.unix_ms += absl::ToInt64Milliseconds(time);
  }

  Moment now;
  const CertificateAuthority authority;
  std::vector<StateUpdate> updates;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Checkpoints> checkpoints;
  std::unique_ptr<Replicas> replicas;
  std::unique_ptr<JournalGuard> guard;
  std::unique_ptr<Members> members;

 private:
  static Cluster Lab() {
    Cluster cluster;
    cluster.set_name("lab");
    cluster.add_ps()->set_address("alpha:2222");
    cluster.add_worker()->set_address("beta:2223");
    cluster.add_worker()->set_address("gamma:2223");
    cluster.set_lost_after_ms(3000);
    return cluster;
  }
};

}  // namespace monsoon::testing
