// DownpourRunner: the steps of one replica in one session (Dean et al. 2012,
// section 4.1): fetch every n_fetch steps, compute, push every n_push steps.
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
// A shard that does not answer is asked again until the session is stopped:
// whether it is dead is for the coordinator to say. Where the shards keep their state,
// training goes on meanwhile with the parameters that are there, for at most away_steps
// steps; no fetch lands until every shard has all pushes again. With overlap NONE it
// waits at once.
//
// With local_steps the replica's own optimizer moves its parameters at each step, and a
// push is the difference that so many steps made; the fetch after it waits until the shards
// have it, so that it brings what they made of it, and training goes on meanwhile. With fragments
// each push is of one, a local_steps / fragments after the one before, and so is the fetch after
// it; landing_steps says when that lands. A block is done when all fragments have been pushed
// since. One is in flight, and lands before the next leaves; but where the shards average
// differences only before its own next push: workers may be at different places of their turn,
// and each waits for a round that needs the others' pushes of that fragment.
//
// Statistics, as the running means of batch_norm, are not gradients: a step says what is to be
// subtracted from them (ModelTensor.STATISTIC). A round counts their mean over its replicas. A
// push brings values: those that this replica has where steps move its parameters, else the mean
// of those that its rounds would come to. Where the shards average differences, or pushes leave
// values out, they are differences: of rounds that nothing moves them between the mean.
//
// Where the group has a device with memory of its own, sums of gradients and local updates
// stay there, and so many bytes less cross to the host: with n_fetch = n_push = n, one
// vector each way in n rounds. The host's copy of the parameters is then what was fetched.
//
// Thread safety: none; one thread (the compute thread) calls everything.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/codec/tensor_codec.h"
#include "common/model/fragment_map.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "proto/job.pb.h"
#include "proto/wire_format.pb.h"
#include "ps_server/client/parameter_client.h"
#include "worker/downpour/accumulator.h"
#include "worker/downpour/difference_weight.h"
#include "worker/downpour/fetch_timer.h"
#include "worker/downpour/local_updater.h"
#include "worker/downpour/row_sums.h"
#include "worker/group/parameter_store.h"
#include "worker/group/replica_group.h"
#include "worker/session/background_call.h"
#include "worker/session/replica_stats.h"
#include "worker/session/session_control.h"

namespace monsoon {

struct DownpourRunnerOptions {
  uint32_t n_fetch = 1;
  uint32_t n_push = 1;
  uint32_t away_steps = 100;
  Overlap overlap = ASYNC;
  double clip_norm = 0.0;
  // 0: gradients are pushed. Else n_fetch and n_push are the same.
  uint32_t local_steps = 0;
  FragmentMap fragments;             // empty: the model is one
  uint32_t landing_steps = 0;        // after a push; 0: as soon as it is there
  bool dynamic_local_steps = false;  // as the coordinator says, at most local_steps
  double step_clip_norm = 0.0;       // of each step's gradient, with local_steps
  WireFormat push_format = FLOAT32;
  DivergencePolicy divergence;
  bool rounds = false;  // the shards average differences
  uint64_t seed = 0;
  uint32_t worker = 0;

  static DownpourRunnerOptions From(const Job& job, uint32_t worker,
                                    const FragmentMap& fragments = {});
};

class DownpourRunner {
 public:
  // Everything pointed to must outlive the runner; `local` may be null. `group`
  // may be lent out between rounds. `weigher` is of the job.
  DownpourRunner(const DownpourRunnerOptions& options, const ParameterLayout* layout,
                 ParameterClient* client, ReplicaGroup* group, std::unique_ptr<LocalUpdater> local,
                 StatsCollector* stats, SessionControl* control, const Clock* clock,
                 const DifferenceWeigher& weigher = DifferenceWeigher(Job(), 1));
  // Waits for the calls in flight; stop the session or cancel the client first.
  ~DownpourRunner();

  // Batches that the next round can still take, at least one when none is there.
  size_t room() const { return group_->room(); }

  // The next batch of the round; see ReplicaGroup::Add. `last_of`: it ends this
  // block.
  void Add(Batch* batch, const std::optional<BlockId>& last_of);

  // The round that is being computed ends this block, too: for a network that finds out
  // while it computes.
  void EndBlock(const BlockId& block) { ending_.push_back(block); }

  // One round on what was added, at least one batch. The result is the mean loss
  // over the samples of the steps that were not dropped, and their sums. Errors: DivergedError and
  // DeviceError (session_status.h), a lost session (IsSessionLost), CANCELLED when stopped.
  absl::StatusOr<StepResult> Step();

  // Within Step(), from a network that waits for another process: what needs nothing of this
  // round goes on. With fragments, what was pushed last is fetched once the shards have it,
  // and not only when the next one is to leave.
  absl::Status Advance();

  // Within Step(), from a network whose model has tables: reads rows, as soon as all shards are
  // there. CANCELLED when the session ends.
  absl::Status FetchRows(std::span<const RowRequest> wanted);
  // Within Step(): gradients of rows that belong to its step, and leave with the push that
  // brings the step's gradient. clip_norm is not of them.
  void AddRows(const RowSums& rows);

  // Pushes the tail of the accumulation and waits for all acknowledgements.
  absl::Status Flush();
  // There is nothing to do for now. Where shards average differences, what there is leaves, and
  // no round waits for this replica until it pushes again.
  absl::Status Idle();
  // After Flush: waits until all pushes are on the shards' disks, where these keep
  // anything. DeadlineExceeded after `patience`, naming what is missing.
  absl::Status AwaitDurable(absl::Duration patience) { return client_->AwaitDurable(patience); }

  // Blocks whose gradients all shards have acknowledged since the last call.
  std::vector<BlockId> TakeDone();

  // Before the networks are lent out: what only their devices know comes to the host.
  absl::Status BringParameters();
  // Gives the networks the runner's parameters again after they were lent out.
  void RestoreParameters();

  // Batches computed.
  uint64_t steps() const { return step_; }

 private:
  // How long one look at a call in flight waits. The call itself is bounded by
  // the client's deadline and ended by Cancel.
  static constexpr absl::Duration kWaitSlice = absl::Seconds(1);
  // A shard that did not answer is asked again; a cancelled call is over.
  static bool MayRetry(const absl::Status& status);
  // Says why it will be, and waits a moment. `waits`: for somebody, which is no call that failed.
  void PauseBeforeRetry(const char* call, const absl::Status& status, bool waits);

  struct Fetched {
    absl::Status status;
    SharedMarks marks;
    FetchStats stats;
    absl::Duration duration;
    std::optional<uint32_t> fragment;  // that alone
  };
  struct Pushed {
    absl::StatusOr<ParameterClient::PushResult> result;
    absl::Duration duration;
    std::optional<Fetched> fetched;  // with the acknowledgement
  };

  // Sums and local updates move to the device as far as it has room.
  void MoveToDevice(DeviceTraining* device);
  // An error of the device's: want of memory breaks no device, all else does.
  absl::Status OfDevice(const absl::Status& status) const;
  // All, or the fragment.
  Fetched Fetch(std::span<float> out, std::optional<uint32_t> fragment = {});
  // What is to be fetched next: the fragment that was pushed last, where nothing else is due.
  std::optional<uint32_t> NextFetched() const;
  // With fragments: whether there is anything to fetch, once the push in flight is done.
  bool Fetches() const {
    return options_.fragments.whole() || whole_due_ || in_flight_.has_value() || !unlanded_.empty();
  }
  // Whether what was pushed of the fragment has not landed yet.
  bool Unlanded(uint32_t fragment) const;
  // What was fetched of a fragment goes to its place.
  void LandFragment(uint32_t fragment, const FetchMarks& marks);
  // `back`: where the acknowledgement is to bring the parameters; empty: nowhere.
  Pushed Push(const Accumulation& accumulation, std::span<float> back);
  // Reads the parameters in this thread if that costs no message.
  absl::StatusOr<bool> FetchMapped();
  bool Boundary() const {
    return differences() ? accumulator_.empty() : round_ % options_.n_fetch == 0;
  }
  bool differences() const { return options_.local_steps > 0; }
  // Adds what AddRows brought to what is to be pushed, unless the step was dropped.
  void TakeStepRows();
  // Waits for shards that are away, once the bound on steps without them is reached.
  absl::Status AwaitShards();
  // Begins a fetch that is due, and may begin.
  absl::Status StartFetch();
  // The same without a look at mapped memory.
  void BeginFetch(absl::Duration delay);
  absl::Status PrepareParameters();
  absl::Status LandFetch(Fetched fetched);
  // False where gradient i of the round must not be used.
  absl::StatusOr<bool> Judge(size_t i) const;
  // Drops what must not be used, and counts the rest once the round is over.
  absl::Status JudgeRound();
  absl::Status ComputeRound();
  // Whether pushes bring values of statistics, which this replica knows of.
  bool PushesValues() const {
    return !statistics_.empty() && !options_.rounds &&
           TensorCodec::CarriesStatistics(options_.push_format);
  }
  // Whether the front's statistics are those of the last step: a program's, or where steps move
  // the parameters. Else all steps make theirs of the fetched ones.
  bool StatisticsMove() const { return local_ != nullptr || !own_statistics_; }
  // A step of a program has subtracted this from its own.
  void MoveStatistics(std::span<const float> gradient);
  // `values`: Statistics.
  void WriteValues(std::span<const float> values, std::span<float> gradient) const;
  void WriteValuesOfRound(std::span<float> gradient) const;
  // The statistics of `w`, one after another.
  std::vector<float> Statistics(std::span<const float> w) const;
  // Rebase has added what this replica has moved since to `fetched` (Statistics): the sum may be
  // beyond what either has. Means of `fetched` and of `local`, what the replica had, are not.
  // `all`: of all statistics, not of those alone that Rebase has changed.
  void LandStatistics(std::span<const float> fetched, std::span<const float> local, bool all,
                      std::span<float> w) const;
  StepResult CountRound(absl::Duration duration);
  // `lands`: what the one before brings lands before it.
  absl::Status PushAccumulation(bool lands = true);
  // Takes the result of the push in flight, if any; waits for it if `wait`.
  absl::Status CollectPush(bool wait);
  absl::Status FinishPush(Pushed pushed);
  // Of pushes that all shards have acknowledged, the blocks are done.
  void TakeAcknowledged();
  // A fetch may begin: where a difference is pushed, not before the shards have it.
  bool MayFetch() const {
    return !fetcher_->busy() && !push_fetches_ && !(differences() && pusher_->busy());
  }
  // Where a difference begins: how many steps it takes.
  void PaceDifference();
  // What was pushed last is not to land yet.
  bool LandsLater() const { return round_ < lands_at_ && !must_land_; }
  // What was pushed last must land now (landing_steps).
  void AwaitLanding();
  // Floats of other fragments become zero.
  void ClearOthers(uint32_t fragment, std::span<float> difference) const;
  // What a refused difference, or one that cannot be finite, made of the parameters is
  // given up.
  void GiveUpDifference();
  absl::Status LeaveNonFinite();
  absl::Status Refused(const std::string& why);
  std::string Where(size_t i = 0) const;
  bool stopped() const { return control_->state() == SessionControl::State::kStop; }

  const DownpourRunnerOptions options_;
  const ParameterLayout* const layout_;
  const std::vector<Slice> statistics_;
  const bool own_statistics_;  // a network's of ours; a program moves its own
  ParameterClient* const client_;
  ReplicaGroup* const group_;
  const std::unique_ptr<LocalUpdater> local_;
  StatsCollector* const stats_;
  SessionControl* const control_;
  const Clock* const clock_;

  ParameterStore store_;
  Accumulator accumulator_;
  RowSums step_rows_;              // of the step under way
  std::shared_ptr<RowSums> rows_;  // of the steps in the accumulator; null: none
  bool sums_on_device_ = false;
  bool local_on_device_ = false;
  const bool device_writes_;               // gradients to the host's memory
  std::optional<Accumulation> in_flight_;  // the push in flight, or being made
  std::optional<Pushed> came_early_;       // its result, which has to wait for the round's end
  // Pushed, but some shard has not got it: rising sequences.
  struct Unacknowledged {
    uint64_t sequence = 0;
    bool refused = false;
    std::vector<BlockId> blocks;
  };
  std::deque<Unacknowledged> unacknowledged_;
  // Acknowledged, and done with this push: all fragments have been pushed since.
  struct Unfinished {
    uint64_t with_push = 0;
    std::vector<BlockId> blocks;
  };
  std::deque<Unfinished> unfinished_;
  // With fragments: pushes of which nothing has landed.
  std::deque<uint64_t> unlanded_;
  std::vector<BlockId> done_;
  std::vector<BlockId> ending_;  // blocks that end in the round being made
  uint64_t step_ = 0;            // batches before this round
  uint64_t round_ = 0;
  uint64_t last_sequence_ = 0;
  uint32_t refused_in_a_row_ = 0;
  uint64_t away_steps_ = 0;  // in a row
  DifferenceWeigher weigher_;
  bool fetch_due_ = false;
  bool must_land_ = false;                 // no step before a fetch
  bool whole_due_ = true;                  // the next fetch is of all fragments
  bool keeps_local_ = false;               // what the steps made of the parameters is of use
  uint64_t lands_at_ = 0;                  // the round before which nothing lands
  uint32_t unpushed_ = 0;                  // pushes until all fragments have all steps
  absl::Duration stepping_;                // what the inner optimizer took in this round
  bool push_fetches_ = false;              // the push in flight brings parameters
  std::optional<uint64_t> fetched_ahead_;  // the boundary that such a push stands for
  FetchTimer fetch_timer_;

  // Null when overlap is NONE. Last members: their threads use the ones above.
  std::unique_ptr<BackgroundCall<Fetched>> fetcher_;
  std::unique_ptr<BackgroundCall<Pushed>> pusher_;
};

}  // namespace monsoon
