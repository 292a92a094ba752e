// ReplicaGroup: the replicas of one worker process (`replicas` in the cluster
// file) that share its session: one fetch for all, one push of their sum.
//
// Work is done in rounds. A round takes at most one batch for each replica that
// is alive; batch i goes to the i-th of them, each computes in a thread of its
// own with its own network, at the same parameters, and the gradients are added
// in the order of the batches. So the bits follow from the batches alone, not
// from the timing, as far as the replicas' networks give the same bits.
//
//   group.SetParameters(parameters);
//   while (group.room() > 0 && MoreBatches()) group.Add(batch, key);
//   RETURN_IF_ERROR(group.ComputeGradients(buffer));
//   ... judge group.result(i), group.Drop(i) ...
//   group.Sum(buffer);
//
// A replica whose network reports an error is lost and leaves the group; another
// one computes its batch in the same round, and the rounds get shorter. So is
// one that is late: longer than `patience` and kLateFactor times the longest
// work seen. Its thread is given up and keeps what it may still touch. Errors
// that any network would give (InvalidArgument, Unimplemented) are the round's.
// With the last replica the group fails with a DeviceError, or ResourceExhausted
// where a device had too little memory.
//
// Where all networks have devices with memory of their own (device()), gradients can stay
// there (ComputeOnDevices) and are added up on the first replica's device, in the same
// order. What that device holds beyond a round is lost with it: then the group fails.
//
// A group of one computes in the caller's thread: no thread, copy or lock, and
// nobody notices when it is late.
//
// Thread safety: none; one thread owns the group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/memory/aligned_floats.h"
#include "worker/group/call_progress.h"
#include "worker/group/parameter_store.h"
#include "worker/group/replica_roster.h"
#include "worker/nn/batch.h"
#include "worker/nn/device_training.h"
#include "worker/nn/network.h"
#include "worker/nn/step_key.h"
#include "worker/nn/test_figures.h"
#include "worker/session/replica_stats.h"

namespace monsoon {

class ReplicaGroup {
 public:
  struct Options {
    uint32_t worker = 0;  // for messages
    // How long after the others a replica may finish.
    absl::Duration patience = absl::Seconds(30);
    StatsCollector* stats = nullptr;  // counts replicas and losses; may be null
    // As long as none has finished any work.
    absl::Duration first_patience = absl::Minutes(10);
  };
  // Called once per replica, in the thread that will compute with it.
  using MakeNetwork = ReplicaRoster::MakeNetwork;

  // Late: patience + so many times the longest work that any replica has finished.
  static constexpr int kLateFactor = 4;

  // Replicas whose network cannot be made are lost; when all are, the error of
  // the first. An error that any network would give is returned as it is.
  static absl::StatusOr<std::unique_ptr<ReplicaGroup>> Create(const Options& options,
                                                              uint32_t replicas,
                                                              const MakeNetwork& make);
  // A group of one around a network that must outlive it.
  ReplicaGroup(const Options& options, Network* network);
  // Waits for running calls but those given up.
  ~ReplicaGroup() = default;

  size_t replicas() const { return replicas_.empty() ? 1 : replicas_.size(); }
  size_t live() const;
  // Network::Fingerprint() of the replicas, each that differs once.
  std::vector<std::string> Fingerprints() const;

  // The parameters of the rounds that follow. The values stay unchanged until
  // the next call, but for what changes between rounds: call again then.
  void SetParameters(SharedBuffer parameters);

  // The copy that a network which is alone computes with: after CopyParameters the memory of
  // SetParameters may be written again. Empty where there is none.
  std::span<const float> own_parameters() const {
    return alone_ == nullptr ? std::span<const float>() : alone_->own_parameters();
  }
  void CopyParameters() { alone_->CopyParameters(); }

  // The same for the first replica alone, at once; the others wait for ShareParameters.
  void SetFirstParameters(SharedBuffer parameters);
  // The others' parameters become those on the first replica's device, which nobody
  // brings from the host any more when this returns.
  absl::Status ShareParameters();

  // Parameters or gradients of the rounds will lie in `floats`; see
  // Network::LockPages.
  void LockPages(AlignedFloats* floats);

  // After a round, for an owner that will write `buffer` again: where a replica
  // that was given up may still read it, it becomes a copy.
  void Reclaim(SharedBuffer* buffer);

  // Batches that the next round can still take.
  size_t room() const;
  // The next batch of the round. A group of one reads it where it is; else it
  // is swapped for another of the same capacity.
  void Add(Batch* batch, const StepKey& key);

  // Network::TellReady of a group of one: of the gradient in ComputeGradients' `alone`. Others
  // never tell.
  void TellReady(Network::GradientReady ready) {
    if (alone_ != nullptr) {
      alone_->TellReady(std::move(ready));
    }
  }

  // Runs the round. With one replica the gradient is written to `alone`, else
  // `alone` is not touched. No batch: nothing happens.
  absl::Status ComputeGradients(std::span<float> alone);
  // The same, forward only.
  absl::Status Evaluate();

  // The first replica's device; null where some replica has none of its own memory, or
  // none has room for another's gradients.
  DeviceTraining* device() const { return device_; }
  // ComputeGradients, but the gradients stay on the devices.
  absl::Status ComputeOnDevices();
  // Puts the sum of the gradients that were not dropped into device()->gradient(); false
  // when none is left.
  absl::StatusOr<bool> SumOnDevice();
  // device()->AddToSum of batch i's gradient.
  void AddToSum(size_t i, double weight, std::span<float> sum, bool fresh);

  // The last round, by batch. Where a network does not tell how long it computed, that is
  // how long the round did.
  size_t size() const { return size_; }
  const StepResult& result(size_t i) const { return slots_[i]->result; }
  const EvaluationResult& evaluation(size_t i) const { return slots_[i]->evaluation; }
  // Of ComputeGradients.
  std::span<const float> gradient(size_t i) const;
  // Of either, brought to the host; empty if the device does not answer.
  std::vector<float> CopyGradient(size_t i) const;

  // Leaves this gradient out of the sum.
  void Drop(size_t i) { slots_[i]->dropped = true; }
  bool dropped(size_t i) const { return slots_[i]->dropped; }
  // Writes the sum of the gradients that were not dropped; false when none is
  // left. With one replica `to` is what ComputeGradients was given.
  bool Sum(std::span<float> to);

  // Calls `work` for ranges [begin, end) that cover `size` values, in the
  // replicas' threads; returns when all have. Worth it for sums of large vectors.
  void ForSlices(size_t size, const std::function<void(size_t begin, size_t end)>& work);

 private:
  enum class Kind { kGradient, kOnDevice, kEvaluation };
  using Replica = ReplicaRoster::Replica;

  // One batch of a round, and what came of it. A replica that is given up while
  // it computes keeps it for good.
  struct Work {
    Batch* batch = nullptr;
    std::shared_ptr<Batch> own;  // not in a group of one
    bool lent = false;           // a replica that was given up may still read `own`
    StepKey key;
    std::vector<uint32_t> samples;  // behind key.samples
    AlignedFloats gradient;
    // Whose gradient() it is instead, unless it was put aside for another of the round.
    DeviceTraining* device = nullptr;
    std::unique_ptr<PlacedFloats> aside;
    // Where the gradient is, on its device.
    std::span<const float> OnDevice() const;
    // Keeps it there from the next batch that the replica computes.
    absl::Status PutAside();
    StepResult result;
    EvaluationResult evaluation;
    std::vector<Prediction> predictions;  // evaluation's: the network may compute another batch
    absl::Status status;
    bool dropped = false;
  };
  ReplicaGroup(const Options& options, uint32_t replicas);
  absl::Status Compute(Kind kind);
  absl::Status ComputeAlone(Kind kind);
  absl::Status ComputeAll(Kind kind);
  // Gives the batches of `open` to live replicas and waits; those still to be
  // computed stay in `open`. The round's error.
  absl::Status ComputeSome(Kind kind, std::vector<size_t>* open);
  void StartWork(Kind kind, Replica& replica, const std::shared_ptr<Work>& work, size_t call,
                 const std::shared_ptr<CallProgress>& progress);
  // Finds out whether gradients can stay on devices.
  void FindDevices();
  // Keeps computed gradients from the next batch that their replicas compute.
  absl::Status PutAside(const std::vector<size_t>& open);
  // An error when the first replica is lost, and with it what is on its device.
  absl::Status CheckFirst() const;
  void GiveUp(Replica& replica, std::shared_ptr<Work>* work);

  const Options options_;
  Network* alone_ = nullptr;  // null where there are replica threads
  std::unique_ptr<Network> owned_;
  std::span<float> alone_gradient_;

  ReplicaRoster replicas_;
  DeviceTraining* device_ = nullptr;  // of replica first_
  size_t first_ = 0;
  SharedBuffer parameters_;
  bool from_first_ = false;  // the replicas' are those of the first one's device
  uint64_t generation_ = 0;
  std::vector<std::shared_ptr<Work>> slots_;
  size_t size_ = 0;  // batches in the round
  bool computed_ = false;
  std::optional<absl::Duration> longest_;  // work that was finished
  std::vector<SharedBuffer> kept_;         // what replicas given up may still read
};

}  // namespace monsoon
