// ReplicaParameters: the parameters that a replica computes with, and where they are: what was
// fetched, and, where its own steps move them (LocalUpdater), what these made of it since, in the
// host's memory or on the device that computes.
//
// Between rounds the group's networks have what is here; each call that changes it tells them.
//
// Thread safety: none, but that the back belongs to a fetch in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "common/model/fragment_map.h"
#include "ps_server/client/parameter_client.h"
#include "worker/downpour/local_updater.h"
#include "worker/downpour/statistics_keeper.h"
#include "worker/group/parameter_store.h"
#include "worker/group/replica_group.h"

namespace monsoon {

class ReplicaParameters {
 public:
  virtual ~ReplicaParameters() = default;
  ReplicaParameters(const ReplicaParameters&) = delete;
  ReplicaParameters& operator=(const ReplicaParameters&) = delete;

  // Nothing was fetched yet.
  bool empty() const { return store_.empty(); }
  // The host's copy. Where a device moves them it is what was fetched, until Bring. Where the
  // network has the only one it is that, after a step.
  std::span<const float> front() const {
    return store_.once() ? group_->own_parameters() : store_.front();
  }
  std::span<float> mutable_front() { return store_.mutable_front(); }
  // What they were fetched at.
  const SharedMarks& marks() const { return store_.marks(); }
  // Where a fetch has written, and where the next one may.
  std::span<const float> back() { return store_.back(); }
  std::span<float> free_back() {
    if (store_.once() && !store_.empty()) {
      group_->CopyParameters();
    }
    return store_.back();
  }

  // A fetch of all is in the back. `keeps`: what own steps made of the parameters until now is
  // of use. `open`: there are steps that no push has taken yet.
  virtual absl::Status Land(SharedMarks marks, bool keeps, bool open) = 0;

  // A round's gradient, where it was summed up, is there to step with.
  virtual absl::Status Step(std::span<const float> /*gradient*/) { return absl::OkStatus(); }
  // The steps so far leave as the push with this sequence. See LocalUpdater for these.
  virtual absl::Status Seal(uint64_t /*sequence*/) { return absl::OkStatus(); }
  virtual void Drop(uint64_t /*sequence*/) {}
  virtual void Acknowledge(uint64_t /*sequence*/) {}
  virtual void ForgetAcknowledged() {}

  // The replica's own steps have these rates from now on (LocalUpdater::TakeRates).
  virtual absl::Status TakeRates(const Downpour&) { return absl::OkStatus(); }

  // What only a device knows comes to the host's copy.
  virtual absl::Status Bring() { return absl::OkStatus(); }
  // Gives the networks the parameters again after they were lent out.
  void Restore();
  // After a round: a replica that was given up may still read them.
  void Reclaim() { group_->Reclaim(&store_.front_buffer()); }

 protected:
  // Both pointed to must outlive this.
  ReplicaParameters(ParameterStore store, ReplicaGroup* group, const StatisticsKeeper* statistics)
      : store_(std::move(store)), group_(group), statistics_(statistics) {}

  ParameterStore store_;
  ReplicaGroup* const group_;
  const StatisticsKeeper* const statistics_;
};

// As they were fetched; only a program moves its statistics. Without those it has the only copy
// (ParameterStore::Kind::kOnce).
class FetchedParameters : public ReplicaParameters {
 public:
  FetchedParameters(ParameterStore store, ReplicaGroup* group, const StatisticsKeeper* statistics)
      : ReplicaParameters(std::move(store), group, statistics) {}

  absl::Status Land(SharedMarks marks, bool keeps, bool open) override;
};

// Moved by steps of the replica's own.
class MovedParameters : public ReplicaParameters {
 public:
  absl::Status Seal(uint64_t sequence) override { return local_->Seal(sequence); }
  void Drop(uint64_t sequence) override { local_->Drop(sequence); }
  void Acknowledge(uint64_t sequence) override { local_->Acknowledge(sequence); }
  void ForgetAcknowledged() override { local_->ForgetAcknowledged(); }

  // What the steps moved them by since the last Seal, where they are.
  std::span<const float> moved() { return local_->moved(); }
  // Gives up the steps since the last Seal; the caller fetches anew.
  void Restart() { local_->Restart(); }
  void GoOnAfter(uint64_t steps) { local_->GoOnAfter(steps); }
  absl::Status TakeRates(const Downpour& downpour) override { return local_->TakeRates(downpour); }
  // A fetch of one fragment is in the back; after the first of all. In the host's memory
  // (LocalUpdater::MoveTo).
  void LandFragment(const FragmentMap& fragments, uint32_t fragment, const FetchMarks& marks);

 protected:
  MovedParameters(ParameterStore store, ReplicaGroup* group, const StatisticsKeeper* statistics,
                  std::unique_ptr<LocalUpdater> local)
      : ReplicaParameters(std::move(store), group, statistics), local_(std::move(local)) {}

  const std::unique_ptr<LocalUpdater> local_;
};

class MovedOnHost : public MovedParameters {
 public:
  MovedOnHost(ParameterStore store, ReplicaGroup* group, const StatisticsKeeper* statistics,
              std::unique_ptr<LocalUpdater> local)
      : MovedParameters(std::move(store), group, statistics, std::move(local)) {}

  absl::Status Land(SharedMarks marks, bool keeps, bool open) override;
  absl::Status Step(std::span<const float> gradient) override;
};

// On the group's first device, from the gradient that is there whatever Step is given; the other
// replicas get them from it.
class MovedOnDevice : public MovedParameters {
 public:
  // `worker`: for messages.
  MovedOnDevice(ParameterStore store, ReplicaGroup* group, const StatisticsKeeper* statistics,
                std::unique_ptr<LocalUpdater> local, uint32_t worker)
      : MovedParameters(std::move(store), group, statistics, std::move(local)), worker_(worker) {}

  absl::Status Land(SharedMarks marks, bool keeps, bool open) override;
  absl::Status Step(std::span<const float> gradient) override;
  absl::Status Bring() override;

 private:
  const uint32_t worker_;
};

}  // namespace monsoon
