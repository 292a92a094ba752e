#include "coordinator/downpour/downpour_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"

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

std::string Task(uint32_t worker) { return absl::StrCat("worker/", worker); }

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
      schedule_(options.has_test ? options.evaluate_every_epochs : 0) {
  CHECK(options.batch_size > 0);
}

void DownpourJob::AddReplica(uint32_t worker, absl::Duration now) {
  CHECK(live_.insert(worker).second);
  replica_[worker] = Replica{};
  blocks_.SetReplicas(live_);
  if (phase_ != Phase::kIdle) {
    return;
  }
  started_ = now;
  if (options_.warmstart.steps() > 0 || options_.warmstart.seconds() > 0) {
    phase_ = Phase::kWarmstart;
    warm_replica_ = worker;
    AddEvent("warmstart", absl::StrCat(Task(worker), " trains alone"));
  } else {
    phase_ = Phase::kRunning;
    AddEvent("running", absl::StrCat(Task(worker), " trains"));
  }
}

uint64_t DownpourJob::RemoveReplica(uint32_t worker, absl::Duration now) {
  if (live_.erase(worker) == 0) {
    return 0;
  }
  const uint64_t released_before = blocks_.blocks_released();
  replica_.erase(worker);
  blocks_.Release(worker);
  blocks_.SetReplicas(live_);
  schedule_.Remove(worker);
  if (warm_replica_ == worker) {
    warm_replica_.reset();
  }
  Advance(now);
  return blocks_.blocks_released() - released_before;
}

absl::StatusOr<NextWorkReply> DownpourJob::NextWork(uint32_t worker, const NextWorkRequest& request,
                                                    absl::Duration now) {
  const auto found = replica_.find(worker);
  if (found == replica_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Task(worker), " has no open session in this job"));
  }
  Replica& replica = found->second;
  if (replica.last_reply && request.request() == replica.last_request) {
    return *replica.last_reply;
  }
  if (replica.last_reply && request.request() != replica.last_request + 1) {
    return absl::FailedPreconditionError(absl::StrCat("NextWork request ", request.request(),
                                                      " of ", Task(worker), " does not follow ",
                                                      replica.last_request));
  }
  for (const BlockId& done : request.done()) {
    blocks_.Done(worker, BlockRef{done.epoch(), done.block()});
  }
  Advance(now);
  NextWorkReply reply;
  reply.set_request(request.request());
  Decide(worker, now, &reply);
  replica.last_request = request.request();
  replica.last_reply = reply;
  replica.trains = reply.has_train() || reply.has_flush();
  return reply;
}

void DownpourJob::Decide(uint32_t worker, absl::Duration now, NextWorkReply* reply) {
  const bool leaving = phase_ >= Phase::kLeaving;
  if (leaving && options_.hands_over) {
    reply->mutable_wait()->set_retry_ms(kWaitMs);
    return;
  }
  if (leaving) {
    reply->mutable_finish();
    replica_[worker].left = true;
    Advance(now);
    return;
  }
  const bool had_evaluation = schedule_.assigned_worker() == worker;
  if (const auto id = schedule_.Assign(worker, live_)) {
    if (!had_evaluation) {
      given_out_ = {steps_, epoch(), now - *started_,
                    0,      0,       schedule_.assigned_final() && !options_.hands_over};
    }
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
  if (request.examples() == 0 || request.correct() > request.examples()) {
    return absl::InvalidArgumentError(absl::StrCat("evaluation ", request.evaluation(), " of ",
                                                   Task(worker), " counts ", request.correct(),
                                                   " correct of ", request.examples()));
  }
  const auto assigned = schedule_.assigned_id();
  if (!schedule_.Complete(worker, request.evaluation())) {
    if (assigned == request.evaluation()) {
      return absl::FailedPreconditionError(absl::StrCat("evaluation ", request.evaluation(),
                                                        " is not ", Task(worker), "'s any more"));
    }
    return absl::OkStatus();  // Known already, or replaced by a newer one.
  }
  EvaluationRecord record = given_out_;
  record.loss = request.loss_sum() / static_cast<double>(request.examples());
  record.accuracy =
      static_cast<double>(request.correct()) / static_cast<double>(request.examples());
  evaluations_.push_back(record);
  events_.push_back({"evaluation", Task(worker),
                     absl::StrFormat("epoch %.2f: accuracy %.4f, loss %.4f", record.epoch,
                                     record.accuracy, record.loss)});
  if (running() && options_.stop.target_accuracy() > 0 &&
      record.accuracy >= options_.stop.target_accuracy()) {
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
  schedule_.DropDue();
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
      } else if (!warm_replica_ && !live_.empty()) {
        warm_replica_ = *live_.begin();
        AddEvent("warmstart", absl::StrCat(Task(*warm_replica_), " takes over, alone"));
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
      schedule_.NoteProgress(epoch());
    }
  }
  if (phase_ == Phase::kDraining && blocks_.all_done()) {
    trained_ = now;
    phase_ = Phase::kFinalEvaluation;
    if (options_.has_test) {
      schedule_.RequestFinal();
    }
  }
  if (phase_ == Phase::kFinalEvaluation &&
      (options_.has_test ? schedule_.final_done() : schedule_.idle())) {
    phase_ = options_.hands_over ? Phase::kDone : Phase::kLeaving;
    leaving_since_ = now;
  }
  if (phase_ == Phase::kLeaving) {
    const bool all_left = std::all_of(replica_.begin(), replica_.end(),
                                      [](const auto& entry) { return entry.second.left; });
    if (all_left || now - leaving_since_ >= kLeaveTimeout) {
      phase_ = Phase::kDone;
    }
  }
}

std::string DownpourJob::ReplicaState(uint32_t worker) const {
  const auto found = replica_.find(worker);
  if (found == replica_.end()) {
    return "WAITING";
  }
  if (found->second.left || phase_ == Phase::kDone) {
    return "DONE";
  }
  if (schedule_.assigned_worker() == worker) {
    return "EVALUATING";
  }
  return found->second.trains ? "RUNNING" : "WAITING";
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
