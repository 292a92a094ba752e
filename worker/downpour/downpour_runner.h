// DownpourRunner: the steps of one replica in one session (Dean et al. 2012,
// section 4.1): fetch, compute, push, as the job's exchange says (exchange.h). It has the
// threads, the clock, the client and the group; what decides stands in classes that have none:
//
//   FetchPlan          when to fetch, what, and when it lands
//   Exchange           what rounds come to, and what a push carries
//   ReplicaParameters  where parameters are, and what moves them
//   TrainingRound      a round of batches to one gradient
//   PushLedger         which pushes all shards have, and which blocks are done
//   StatisticsKeeper   what pushes bring of running statistics
//
// overlap NONE: fetch, compute and push strictly in turn in the caller's
// thread; ceil(steps / n_fetch) fetches and ceil(steps / n_push) pushes.
// overlap ASYNC: a fetch thread and a push thread run beside the caller, with
// at most one fetch and one push in flight. A step uses the newest fetch that
// has landed; it waits only for the first one, and for the previous push when
// the next accumulation is full. Where the parameters are mapped, a fetch is one
// copy at the boundary, by the caller: waking a thread for it takes as long.
// Where they are not and the model is small, a fetch that is due comes with the
// acknowledgement of the push before it.
//
// A step here is a round of the replica group: one batch for each replica of this
// process, all at the same parameters. n_fetch and n_push count rounds; figures
// count batches. A round's gradient is the sum over its batches, so k replicas
// with n_fetch = n_push = 1 do to the bit what one does with n_fetch = n_push = k
// (without overlap and local update). A lone replica's round is one batch.
//
// Where the shards keep their state and one is away, training goes on meanwhile with the
// parameters that are there, for at most away_steps steps; no fetch lands until every shard has
// all pushes again. With overlap NONE it waits at once.
//
// Thread safety: none; one thread (the compute thread) calls everything.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/downpour/accumulator.h"
#include "worker/downpour/difference_weight.h"
#include "worker/downpour/downpour_options.h"
#include "worker/downpour/exchange.h"
#include "worker/downpour/fetch_plan.h"
#include "worker/downpour/fetch_timer.h"
#include "worker/downpour/local_updater.h"
#include "worker/downpour/push_ledger.h"
#include "worker/downpour/row_sums.h"
#include "worker/downpour/shard_calls.h"
#include "worker/downpour/statistics_keeper.h"
#include "worker/downpour/training_round.h"
#include "worker/group/replica_group.h"
#include "worker/session/background_call.h"
#include "worker/session/done_part.h"
#include "worker/session/push_bound.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

class DownpourRunner {
 public:
  // Everything pointed to must outlive the runner; `local` may be null where gradients are
  // pushed. `group` may be lent out between rounds. `weigher` is of the job.
  DownpourRunner(const DownpourRunnerOptions& options, const ParameterLayout* layout,
                 ParameterClient* client, ReplicaGroup* group, std::unique_ptr<LocalUpdater> local,
                 StatsCollector* stats, SessionControl* control, const Clock* clock,
                 const DifferenceWeigher& weigher = DifferenceWeigher(Job(), 1));
  // Waits for the calls in flight; stop the session or cancel the client first.
  ~DownpourRunner();

  // Before the first step: the replica waits for slower ones as `bound` says, which outlives this;
  // null: for none.
  void BoundBy(PushBound* bound) { bound_ = bound; }

  // Batches that the next round can still take, at least one when none is there.
  size_t room() const { return batches_.room(); }

  // The next batch of the round; see ReplicaGroup::Add. `last_of`: it ends this
  // block.
  void Add(Batch* batch, const std::optional<BlockId>& last_of) { batches_.Add(batch, last_of); }

  // The round that is being computed ends this part of the data, too: for a network that finds
  // out while it computes.
  void FinishPart(DonePart part) { batches_.FinishPart(std::move(part)); }

  // One round on what was added, at least one batch. The result is the mean loss
  // over the samples of the steps that were not dropped, and their sums. Errors: DivergedError,
  // ProgramDivergedError and DeviceError (session_status.h), a lost session (IsSessionLost),
  // CANCELLED when stopped.
  absl::StatusOr<StepResult> Step();

  // Within Step(), from a network that waits for another process: what needs nothing of this
  // round goes on. With fragments, what was pushed last is fetched once the shards have it,
  // and not only when the next one is to leave.
  absl::Status Advance();

  // Within Step(), from a network whose model has tables: reads rows, as soon as all shards are
  // there. CANCELLED when the session ends.
  absl::Status FetchRows(std::span<const RowRequest> wanted) { return calls_.FetchRows(wanted); }
  // Within Step(): gradients of rows that belong to its step, and leave with the push that
  // brings the step's gradient. clip_norm is not of them.
  void AddRows(const RowSums& rows) { rows_.Add(rows); }

  // Pushes the tail of the accumulation and waits for all acknowledgements.
  absl::Status Flush();
  // Pushes nothing more, and waits for all acknowledgements. Blocks of which a push was refused,
  // and none acknowledged since, are not done.
  absl::Status Settle();
  // There is nothing to do for now. Where shards average differences, what there is leaves, and
  // no round waits for this replica until it pushes again. Elsewhere a shard that was started anew
  // gets what it had of this replica: until then it writes no checkpoint, for which others may
  // wait.
  absl::Status Idle();
  // After Flush: waits until all pushes are on the shards' disks, where these keep
  // anything (ParameterClient). DeadlineExceeded after `patience`, naming what is missing.
  absl::StatusOr<std::vector<uint64_t>> AwaitDurable(absl::Duration patience) {
    return client_->AwaitDurable(patience);
  }
  // After Flush: all that there have been.
  uint64_t pushes() const { return ledger_.last(); }

  // What all shards have acknowledged the gradients of since the last call.
  std::vector<DonePart> TakeDone();

  // The shards that have all that they have acknowledged (ParameterClient); after Flush, all
  // pushes.
  std::vector<uint64_t> ready_epochs() const { return client_->ready_epochs(); }

  // Before the networks are lent out: what only their devices know comes to the host.
  absl::Status BringParameters() { return parameters().Bring(); }
  // Gives the networks the runner's parameters again after they were lent out.
  void RestoreParameters() { parameters().Restore(); }

  // Batches computed.
  uint64_t steps() const { return batches_.steps(); }

 private:
  ReplicaParameters& parameters() { return exchange_->parameters(); }
  bool fetching() const { return fetcher_ != nullptr && fetcher_->busy(); }
  bool IsBoundary() const { return exchange_->IsBoundary(plan_.round()); }
  // A fetch that is due may begin.
  bool MayFetch() const {
    return plan_.MayBegin(fetching(), exchange_->awaits_push() && pusher_->busy());
  }

  // Takes what the coordinator has told of the job's settings, where a push begins.
  absl::Status TakeSettings();
  // Waits for slower replicas where the bound on staleness is reached, before a push is begun:
  // whether it had to.
  absl::StatusOr<bool> AwaitSlower();
  // Waits for shards that are away, once the bound on steps without them is reached.
  absl::Status AwaitShards();
  // Fetches, begins to fetch and lands what is to be before a round. `anew`: what a fetch that is
  // due brings, has to be there.
  absl::Status PrepareParameters(bool anew = false);
  // Begins a fetch that is due, and may begin; what costs no message lands at once.
  absl::Status StartFetch();
  // The same without a look at mapped memory.
  void BeginFetch(absl::Duration delay);
  absl::Status LandFetch(Fetched fetched);

  // What the replica's own optimizer took, where it takes steps.
  absl::StatusOr<absl::Duration> ComputeRound();

  // `lands`: what the one before brings lands before it.
  absl::Status PushAccumulation(bool lands = true);
  // Of a push that leaves now: for how long its replica goes on without what comes of it.
  absl::Duration Patience() const;
  // In the push thread, or this one. `back`: where the acknowledgement is to bring the
  // parameters; empty: nowhere.
  Pushed Push(const Accumulation& accumulation, std::span<float> back);
  // Takes the result of the push in flight, if any; waits for it if `wait`.
  absl::Status CollectPush(bool wait);
  absl::Status FinishPush(Pushed pushed);
  // Waits for nothing: takes a push that is over, and a shard that is back gets what it has not.
  absl::Status LookAfterPushes();
  // Of pushes that all shards have acknowledged, the blocks are done.
  void TakeAcknowledged();

  DownpourRunnerOptions options_;
  ParameterClient* const client_;
  StatsCollector* const stats_;
  SessionControl* const control_;
  const Clock* const clock_;
  const bool keeps_memory_;  // of pushes as it is: a device writes to it, or it is large

  ShardCalls calls_;
  StatisticsKeeper statistics_;
  FetchPlan plan_;
  FetchTimer fetch_timer_;
  const std::unique_ptr<Exchange> exchange_;
  TrainingRound batches_;
  PushRows rows_;
  DifferenceWeigher weigher_;
  PushLedger ledger_;
  PushBound* bound_ = nullptr;             // null: nobody waits for anybody
  std::optional<Accumulation> in_flight_;  // the push in flight, or being made
  std::optional<Pushed> came_early_;       // its result, which has to wait for the round's end

  // Null when overlap is NONE. Last members: their threads use the ones above.
  std::unique_ptr<BackgroundCall<Fetched>> fetcher_;
  std::unique_ptr<BackgroundCall<Pushed>> pusher_;
};

}  // namespace monsoon
