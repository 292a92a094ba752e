// Exchange: what a replica makes of its rounds: what it pushes and when, and before which rounds
// it fetches. Each mode of training is one (GradientPush, Differences), so that nobody else asks
// which it is. An exchange is told what happens; calls, threads and clocks are the runner's.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/tensor_slices.h"
#include "proto/coordinator.pb.h"
#include "worker/downpour/accumulator.h"
#include "worker/downpour/replica_parameters.h"
#include "worker/downpour/statistics_keeper.h"
#include "worker/session/done_part.h"

namespace monsoon {

// Parameters that were fetched, and are in the back.
struct Landing {
  SharedMarks marks;
  std::optional<uint32_t> fragment;  // that alone
  bool keeps_steps = false;          // FetchPlan::keeps_steps before it
  uint32_t replicas = 1;             // of the job
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  ReplicaParameters& parameters() { return *parameters_; }

  // ---- fetches ----

  // The parameters are to be fetched before that round, the first being 0.
  virtual bool IsBoundary(uint64_t round) const = 0;
  // A fetch is to bring what the shards make of the push before it.
  virtual bool awaits_push() const = 0;
  // Something has to land before the push with that sequence leaves. `fetching`: a fetch is due
  // or in flight.
  virtual bool LandsBefore(uint64_t sequence, bool fetching) const = 0;
  virtual absl::Status Land(Landing landing) = 0;

  // ---- rounds ----

  // A round begins; what is pushed next has that sequence. `told`: the steps that the
  // coordinator asks for; 0: as many as the job says.
  virtual void BeginRound(uint64_t sequence, uint32_t told) = 0;
  // Where the round's gradient goes; empty: it stays on the device.
  std::span<float> step_buffer() { return accumulator_.step_buffer(); }
  // No step waits to be pushed: what begins now is another push.
  bool begins() const { return accumulator_.empty(); }
  // Differences have so many steps from the next one on; nothing of gradients.
  virtual void SetTurnSteps(uint32_t /*turn_steps*/) {}
  // The replica's own optimizer takes steps, whose time is part of the computing.
  virtual bool takes_steps() const = 0;
  // The round's gradient has moved the parameters, where it does, and is to be pushed. `absent`
  // tensors have none.
  virtual void EndRound(std::span<const TensorSlice> absent = {}) {
    accumulator_.Add(parameters_->marks(), absent);
  }
  // No batch of it could be used. `where` is for messages.
  virtual absl::Status EndUnusableRound(const std::string& where) = 0;
  // The last round, of either kind, ends the part.
  void FinishPart(DonePart part) { accumulator_.FinishPart(std::move(part)); }

  // ---- pushes ----

  // A push is to leave.
  bool full() const { return accumulator_.full(); }
  // All rounds have left.
  virtual bool drained() const { return accumulator_.empty(); }
  // What leaves as the push with that sequence. An error is the device's.
  virtual absl::StatusOr<Accumulation> Seal(uint64_t sequence) = 0;
  // That push was refused, and is given up.
  virtual void Refuse(uint64_t sequence) = 0;
  // Parts that wait for no push: all their later steps were dropped.
  std::vector<DonePart> TakeParts() { return accumulator_.TakeParts(); }

 protected:
  // `statistics` must outlive this.
  Exchange(std::unique_ptr<ReplicaParameters> parameters, Accumulator accumulator,
           const StatisticsKeeper* statistics)
      : accumulator_(std::move(accumulator)),
        statistics_(statistics),
        parameters_(std::move(parameters)) {}

  absl::Status LandWhole(Landing landing) {
    return parameters_->Land(std::move(landing.marks), landing.keeps_steps, !accumulator_.empty());
  }

  Accumulator accumulator_;
  const StatisticsKeeper* const statistics_;

 private:
  const std::unique_ptr<ReplicaParameters> parameters_;
};

}  // namespace monsoon
