// ContributionRunner: one replica's part in batch jobs (Dean et al. 2012,
// section 4.2): computes contributions, the sums of loss and gradient over runs
// of samples at the parameters that the coordinator names, and sends each to
// the shards once.
//
// Three activities overlap: the next batches are gathered, these compute (one for
// each replica of the group), and the contribution before them is sent (one in
// flight). The named vector is fetched once per evaluation and process.
//
// A contribution is a function of (parameters, samples): batches are cut by
// contribution_reader.h, gradients summed by gradient_sum.h, losses in double in
// the same order, dropout keyed by (seed, sample). So two replicas with one
// Network::Fingerprint() get the same bits, whatever the size of their groups.
//
// A contribution whose loss or gradient is not finite is reported as such and
// not sent: the driver shrinks its step. When a shard says that the evaluation
// is over, or work of a newer one comes, what is left of the old one is dropped.
//
// Thread safety: AwaitSent, TakeResults and unreported may be called by any
// thread; all else belongs to the compute thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/memory/aligned_floats.h"
#include "proto/coordinator.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/group/parameter_store.h"
#include "worker/group/replica_group.h"
#include "worker/sandblaster/contribution_reader.h"
#include "worker/sandblaster/contribution_sender.h"
#include "worker/sandblaster/group_sum.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

struct ContributionRunnerOptions {
  size_t floats = 0;  // of the parameter vector
  uint64_t seed = 0;  // the job's, for dropout
  uint32_t worker = 0;
  absl::Duration chunk_delay;  // fault injection: added to each chunk
};

// Sums of the contribution being computed.
struct ContributionTotals {
  double loss_sum = 0;
  double correct = 0;
  uint64_t unjudged = 0;
  uint64_t examples = 0;
  bool finite = true;
  absl::Duration compute;
};

class ContributionRunner {
 public:
  // Everything pointed to must outlive the runner.
  ContributionRunner(const ContributionRunnerOptions& options, ContributionReader* reader,
                     ParameterClient* client, ReplicaGroup* group, StatsCollector* stats,
                     SessionControl* control, const Clock* clock);

  // More work, after what is there; it replaces work of an older evaluation.
  // InvalidArgument for samples that the batch does not have.
  absl::Status Append(const NextWorkReply::Contribute& work);

  // Contributions not computed to the end.
  size_t left() const { return queue_.size(); }

  // Less is left than the replicas can begin next.
  bool wants_more() const { return left() <= 1 || reader_->pieces_left() < group_->live(); }

  // Computes one round of batches, and hands each contribution that ends with
  // them to the sender; waits there for the one sent before. Does nothing when
  // nothing is left. Errors: a lost session (IsSessionLost), CANCELLED when
  // stopped, DeviceError, and what any network refuses.
  absl::Status Step();

  // For a replica that leaves: ends the contribution that was begun, drops
  // those after it, and waits until it is sent.
  absl::Status FinishCurrent();

  // Drops everything that was not computed to the end.
  void Abandon();

  // Gives the networks the evaluation's parameters again after they were lent out.
  void RestoreParameters();

  // Blocks until no gradient is in flight; the error of a send, if any.
  absl::Status AwaitSent() { return sender_.Await(); }
  // Results that may be reported, each once.
  std::vector<ContributionResult> TakeResults() { return sender_.TakeResults(); }
  // A result is there, or its gradient is in flight.
  bool unreported() const { return sender_.unreported(); }

 private:
  // A batch of the round.
  struct Computed {
    bool ends_contribution = false;
    uint64_t examples = 0;
    std::optional<size_t> slot;  // in the group; none: not worth computing
  };

  // Fetches the vector if this evaluation's is not there yet. NotFound: the
  // evaluation is over.
  absl::Status PrepareParameters();
  // Reads and computes one round.
  absl::Status ComputeRound();
  // Takes one batch of the round into the sums.
  absl::Status Take(const Computed& computed, absl::Duration duration);
  absl::Status Finish();
  // Reports everything that is left as closed.
  void CloseAll();
  ContributionResult MakeResult(uint32_t contribution) const;

  const ContributionRunnerOptions options_;
  ContributionReader* const reader_;
  ParameterClient* const client_;
  ReplicaGroup* const group_;
  StatsCollector* const stats_;
  SessionControl* const control_;
  const Clock* const clock_;

  SharedBuffer parameters_;
  GroupSum sum_;
  std::vector<Computed> round_;

  uint64_t evaluation_ = 0;  // the newest that work came for
  std::string vector_;
  uint64_t fetched_evaluation_ = 0;            // parameters_ are this one's
  std::deque<uint32_t> queue_;                 // contributions of evaluation_
  std::optional<ContributionTotals> current_;  // of the first of queue_, once begun

  ContributionSender sender_;
};

}  // namespace monsoon
