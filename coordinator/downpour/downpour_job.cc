#include "coordinator/downpour/downpour_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// Blocks given to a replica that holds none: one to train on and one to
// prefetch. After that each call brings one more.
constexpr int kFirstBlocks = 2;

// How long a replica with nothing to do waits before it asks again: short
// against a block, long against a call.
constexpr uint32_t kWaitMs = 50;

constexpr uint32_t kDefaultBlockBatches = 8;

// A stopped replica holds its blocks until it is lost (3 s). The others must not
// wait for it meanwhile, and a small data set's epoch takes well under a second.
constexpr uint32_t kMaxEpochsAhead = 8;

constexpr double kRounding = 1e-9;

uint64_t StepsOf(uint64_t examples, uint32_t batch) { return (examples + batch - 1) / batch; }

// The number of blocks after which the first limit in data is reached: whole
// blocks, so stop.steps is rounded up to the end of a block.
uint64_t PlannedBlocks(const DownpourOptions& options) {
  const uint64_t per_epoch =
      (options.examples + options.block_examples - 1) / options.block_examples;
  uint64_t blocks = BlockDispenser::kNoLimit;
  if (options.stop.epochs() > 0) {
    blocks = std::max<uint64_t>(
        1, static_cast<uint64_t>(
               std::ceil(options.stop.epochs() * static_cast<double>(per_epoch) - kRounding)));
  }
  if (options.stop.steps() > 0) {
    const uint64_t block_steps = StepsOf(options.block_examples, options.batch_size);
    const uint64_t last = options.examples - (per_epoch - 1) * options.block_examples;
    const uint64_t epoch_steps = (per_epoch - 1) * block_steps + StepsOf(last, options.batch_size);
    const uint64_t epochs = options.stop.steps() / epoch_steps;
    const uint64_t rest = options.stop.steps() % epoch_steps;
    const uint64_t by_steps =
        epochs * per_epoch + std::min(per_epoch, (rest + block_steps - 1) / block_steps);
    blocks = std::min(blocks, by_steps);
  }
  return blocks;
}

}  // namespace

DownpourOptions DownpourOptions::FromJob(const Job& job, uint64_t examples) {
  DownpourOptions options;
  options.examples = examples;
  options.batch_size = job.batch_size();
  options.block_examples = job.block_examples() != 0
                               ? job.block_examples()
                               : uint64_t{kDefaultBlockBatches} * job.batch_size();
  options.stop = job.stop();
  options.warmstart = job.downpour().warmstart();
  options.has_test = job.has_test();
  options.evaluate_every_epochs = job.evaluation().every_epochs();
  if (job.stop().target_accuracy() > 0 && options.evaluate_every_epochs <= 0) {
    options.evaluate_every_epochs = 1;
  }
  options.max_epochs_ahead = kMaxEpochsAhead;
  options.hands_over = job.has_sandblaster();
  return options;
}

DownpourJob::DownpourJob(const DownpourOptions& options)
    : options_(options),
      blocks_({options.examples, options.block_examples, PlannedBlocks(options),
               options.max_epochs_ahead}),
      evaluations_(options.has_test, options.evaluate_every_epochs, !options.hands_over) {
  CHECK(options.batch_size > 0);
}

void DownpourJob::AddReplica(uint32_t worker, absl::Duration now) {
  replicas_.Add(worker);
  blocks_.SetReplicas(replicas_.live());
  if (phase_ != Phase::kIdle) {
    return;
  }
  started_ = now;
  if (options_.warmstart.steps() > 0 || options_.warmstart.seconds() > 0) {
    phase_ = Phase::kWarmstart;
    warm_replica_ = worker;
    AddEvent("warmstart", absl::StrCat(WorkerName(worker), " trains alone"));
  } else {
    phase_ = Phase::kRunning;
    AddEvent("running", absl::StrCat(WorkerName(worker), " trains"));
  }
}

uint64_t DownpourJob::RemoveReplica(uint32_t worker, absl::Duration now) {
  if (!replicas_.Remove(worker)) {
    return 0;
  }
  const uint64_t released_before = blocks_.blocks_released();
  blocks_.Release(worker);
  blocks_.SetReplicas(replicas_.live());
  evaluations_.Remove(worker);
  if (warm_replica_ == worker) {
    warm_replica_.reset();
  }
  Advance(now);
  return blocks_.blocks_released() - released_before;
}

absl::StatusOr<NextWorkReply> DownpourJob::NextWork(uint32_t worker, const NextWorkRequest& request,
                                                    absl::Duration now) {
  ASSIGN_OR_RETURN(const std::optional<NextWorkReply> known,
                   replicas_.KnownReply(worker, request.request()));
  if (known) {
    return *known;
  }
  for (const BlockId& done : request.done()) {
    blocks_.Done(worker, BlockRef{done.epoch(), done.block()});
  }
  Advance(now);
  NextWorkReply reply;
  reply.set_request(request.request());
  Decide(worker, now, &reply);
  replicas_.Replied(worker, reply);
  Advance(now);
  return reply;
}

void DownpourJob::Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) {
  if (phase_ >= Phase::kLeaving) {
    if (options_.hands_over) {
      reply->mutable_wait()->set_retry_ms(kWaitMs);
    } else {
      reply->mutable_finish();
    }
    return;
  }
  if (const auto id = evaluations_.Assign(worker, replicas_.live())) {
    evaluations_.GivenOut({.step = steps_, .epoch = epoch(), .at = now - *started_});
    reply->mutable_evaluate()->set_evaluation(*id);
    return;
  }
  const bool may_train =
      phase_ == Phase::kRunning || (phase_ == Phase::kWarmstart && warm_replica_ == worker);
  if (may_train && Train(worker, reply)) {
    return;
  }
  // Its acknowledgements are what everybody waits for: push the tail.
  const bool last_blocks = blocks_.exhausted() && blocks_.held(worker) > 0;
  if (last_blocks || blocks_.HoldsUp(worker)) {
    reply->mutable_flush();
    return;
  }
  reply->mutable_wait()->set_retry_ms(kWaitMs);
}

bool DownpourJob::Train(uint32_t worker, NextWorkReply* reply) {
  const int wanted = blocks_.held(worker) == 0 ? kFirstBlocks : 1;
  for (int i = 0; i < wanted; ++i) {
    const std::optional<BlockRef> block = blocks_.Lease(worker);
    if (!block) {
      break;
    }
    BlockId* id = reply->mutable_train()->add_block();
    id->set_epoch(block->epoch);
    id->set_block(block->block);
  }
  return reply->has_train();
}

absl::Status DownpourJob::ReportEvaluation(uint32_t worker, const ReportEvaluationRequest& request,
                                           absl::Duration now) {
  ASSIGN_OR_RETURN(const EvaluationRecord* const record, evaluations_.Report(worker, request));
  if (record == nullptr) {
    return absl::OkStatus();
  }
  events_.push_back({"evaluation", WorkerName(worker),
                     absl::StrFormat("epoch %.2f: accuracy %.4f, loss %.4f", record->epoch,
                                     record->accuracy, record->loss)});
  if (running() && options_.stop.target_accuracy() > 0 &&
      record->accuracy >= options_.stop.target_accuracy()) {
    BeginDraining("target accuracy reached");
  }
  Advance(now);
  return absl::OkStatus();
}

void DownpourJob::Tick(absl::Duration now) { Advance(now); }

void DownpourJob::Describe(JobDescription* description) const {
  description->set_mode("downpour");
  JobDescription::Data* const data = description->mutable_data();
  data->set_blocks(blocks_.blocks_per_epoch());
  data->set_blocks_done(blocks_.blocks_done());
  data->set_blocks_released(blocks_.blocks_released());
}

void DownpourJob::BeginDraining(const std::string& why) {
  blocks_.Stop();
  evaluations_.DropDue();
  phase_ = Phase::kDraining;
  AddEvent("finishing", why);
}

void DownpourJob::Advance(absl::Duration now) {
  if (running()) {
    const double seconds = absl::ToDoubleSeconds(now - *started_);
    if (phase_ == Phase::kWarmstart) {
      const Warmstart& warmstart = options_.warmstart;
      if ((warmstart.steps() > 0 && steps_ >= warmstart.steps()) ||
          (warmstart.seconds() > 0 && seconds >= warmstart.seconds())) {
        phase_ = Phase::kRunning;
        AddEvent("full",
                 absl::StrFormat("all replicas train after %d steps, %.1f s", steps_, seconds));
      } else if (!warm_replica_ && !replicas_.live().empty()) {
        warm_replica_ = *replicas_.live().begin();
        AddEvent("warmstart", absl::StrCat(WorkerName(*warm_replica_), " takes over, alone"));
      }
    }
    if (options_.stop.seconds() > 0 && seconds >= options_.stop.seconds()) {
      BeginDraining("time is over");
    } else if (blocks_.exhausted()) {
      // A block that is released now is leased again: draining does not stop it.
      if (blocks_.all_done()) {
        BeginDraining("all data is done");
      }
    } else {
      evaluations_.NoteProgress(epoch());
    }
  }
  if (phase_ == Phase::kDraining && blocks_.all_done()) {
    trained_ = now;
    phase_ = Phase::kFinalEvaluation;
    evaluations_.RequestFinal();
  }
  if (phase_ == Phase::kFinalEvaluation && evaluations_.finished()) {
    phase_ = options_.hands_over ? Phase::kDone : Phase::kLeaving;
    replicas_.BeginLeaving(now);
  }
  if (phase_ == Phase::kLeaving && replicas_.Gone(now)) {
    phase_ = Phase::kDone;
  }
}

std::string DownpourJob::ReplicaState(uint32_t worker) const {
  if (!replicas_.contains(worker)) {
    return "WAITING";
  }
  if (replicas_.left(worker) || phase_ == Phase::kDone) {
    return "DONE";
  }
  if (evaluations_.assigned_worker() == worker) {
    return "EVALUATING";
  }
  const NextWorkReply* const told = replicas_.last_reply(worker);
  return told != nullptr && (told->has_train() || told->has_flush()) ? "RUNNING" : "WAITING";
}

double DownpourJob::epoch() const {
  return static_cast<double>(blocks_.examples_done()) / static_cast<double>(options_.examples);
}

std::optional<uint64_t> DownpourJob::planned_examples() const {
  const uint64_t blocks = PlannedBlocks(options_);
  if (blocks == BlockDispenser::kNoLimit) {
    return std::nullopt;
  }
  return blocks / blocks_.blocks_per_epoch() * options_.examples +
         blocks % blocks_.blocks_per_epoch() * options_.block_examples;
}

double DownpourJob::planned_epochs() const {
  if (options_.stop.epochs() > 0) {
    return options_.stop.epochs();
  }
  const std::optional<uint64_t> examples = planned_examples();
  return examples ? static_cast<double>(*examples) / static_cast<double>(options_.examples) : 0.0;
}

double DownpourJob::fraction(absl::Duration now) const {
  if (phase_ > Phase::kDraining) {
    return 1.0;
  }
  double fraction = 0.0;
  if (const std::optional<uint64_t> examples = planned_examples()) {
    fraction = static_cast<double>(blocks_.examples_done()) / static_cast<double>(*examples);
  }
  if (options_.stop.seconds() > 0 && started_) {
    fraction = std::max(fraction, absl::ToDoubleSeconds(now - *started_) / options_.stop.seconds());
  }
  return std::min(fraction, 1.0);
}

std::vector<DownpourJob::JobEvent> DownpourJob::TakeEvents() { return std::exchange(events_, {}); }

void DownpourJob::AddEvent(const std::string& kind, const std::string& text) {
  events_.push_back({kind, "", text});
}

}  // namespace monsoon
