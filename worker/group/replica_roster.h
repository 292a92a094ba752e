// ReplicaRoster: the replicas of a group that have threads of their own: which of them are alive,
// and what each computes with.
//
// Thread safety: none; the group's owner calls everything.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/group/replica_thread.h"
#include "worker/nn/network.h"
#include "worker/session/replica_stats.h"

namespace monsoon {

// The same for any network: the model, the job, the data or the program is at fault, or it was told
// to leave.
bool AnyNetworkWould(const absl::Status& status);
// What the loss of the last replica comes to. Want of memory breaks no device.
absl::Status LossError(const absl::Status& why, const std::string& message);

class ReplicaRoster {
 public:
  // What a replica's thread computes with.
  struct NetworkHolder {
    std::unique_ptr<Network> network;
    uint64_t generation = 0;  // of the parameters that the network has
  };

  struct Replica {
    std::shared_ptr<NetworkHolder> holder;
    std::unique_ptr<ReplicaThread> thread;
    std::string name;
    std::string fingerprint;
    bool alive = true;
  };

  using MakeNetwork = std::function<absl::StatusOr<std::unique_ptr<Network>>(uint32_t replica)>;

  // `worker`: for messages. `stats` counts replicas, and may be null. A roster of none is of a
  // group of one, whose network has no thread of its own.
  ReplicaRoster(uint32_t worker, StatsCollector* stats, uint32_t replicas)
      : worker_(worker), stats_(stats), replicas_(replicas) {}
  // Networks end in their threads, after calls that are running.
  ~ReplicaRoster();

  // Calls `make` in each replica's thread. Those whose network cannot be made are lost; when all
  // are, the error of the first. An error that any network would give is returned as it is.
  absl::Status Make(const MakeNetwork& make);

  bool empty() const { return replicas_.empty(); }
  size_t size() const { return replicas_.size(); }
  Replica& operator[](size_t i) { return replicas_[i]; }
  const Replica& operator[](size_t i) const { return replicas_[i]; }

  size_t live() const;
  std::vector<Replica*> Living();
  // Of all networks, each that differs once.
  std::vector<std::string> Fingerprints() const;

  void Lose(Replica& replica, const absl::Status& why);
  // What the last loss was, as an error of the group.
  const absl::Status& last_loss() const { return last_loss_; }

 private:
  void TellStats() const;

  const uint32_t worker_;
  StatsCollector* const stats_;
  std::vector<Replica> replicas_;
  absl::Status last_loss_;
};

}  // namespace monsoon
