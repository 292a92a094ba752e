#include "worker/group/replica_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "worker/group/gradient_sum.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

// One wait counts so long at most: a process that was stopped saw no time pass.
constexpr absl::Duration kWaitSlice = absl::Seconds(1);
// Below, handing slices to threads (some 20 us) costs more than it saves.
constexpr size_t kMinSlicedFloats = 64 * 1024;
// Slices begin on a 64-byte line.
constexpr size_t kSliceFloats = 16;

}  // namespace

// ---- making ------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<ReplicaGroup>> ReplicaGroup::Create(const Options& options,
                                                                   uint32_t replicas,
                                                                   const MakeNetwork& make) {
  CHECK_GE(replicas, 1u);
  std::unique_ptr<ReplicaGroup> group;
  if (replicas == 1) {
    ASSIGN_OR_RETURN(std::unique_ptr<Network> network, make(0));
    group = std::make_unique<ReplicaGroup>(options, network.get());
    group->owned_ = std::move(network);
  } else {
    group.reset(new ReplicaGroup(options, replicas));
    RETURN_IF_ERROR(group->replicas_.Make(make));
    group->FindDevices();
  }
  return group;
}

ReplicaGroup::ReplicaGroup(const Options& options, Network* network)
    : options_(options),
      alone_(network),
      replicas_(options.worker, options.stats, 0),
      device_(network->device_training()) {
  slots_.push_back(std::make_shared<Work>());
  if (options_.stats != nullptr) {
    options_.stats->SetReplicas(1, 0);
  }
}

ReplicaGroup::ReplicaGroup(const Options& options, uint32_t replicas)
    : options_(options), replicas_(options.worker, options.stats, replicas) {}

// ---- the group -----------------------------------------------------------------

size_t ReplicaGroup::live() const { return alone_ != nullptr ? 1 : replicas_.live(); }

std::vector<std::string> ReplicaGroup::Fingerprints() const {
  return alone_ != nullptr ? std::vector<std::string>{alone_->Fingerprint()}
                           : replicas_.Fingerprints();
}

void ReplicaGroup::GiveUp(Replica& replica, std::shared_ptr<Work>* work) {
  // From here on it owns what it computes with; the batch is read by both.
  auto again = std::make_shared<Work>();
  again->own = (*work)->own;
  again->batch = (*work)->batch;
  again->lent = true;
  again->samples = (*work)->samples;
  again->key = (*work)->key;
  again->key.samples = again->samples;
  *work = std::move(again);
  if (std::find(kept_.begin(), kept_.end(), parameters_) == kept_.end()) {
    kept_.push_back(parameters_);
  }
  replica.thread->GiveUp();
  replica.thread.reset();
  replica.holder.reset();
  replicas_.Lose(replica, absl::DeadlineExceededError("did not finish its work in time"));
}

void ReplicaGroup::SetParameters(SharedBuffer parameters) {
  parameters_ = std::move(parameters);
  from_first_ = false;
  ++generation_;
  if (alone_ != nullptr) {
    alone_->SetParameters(parameters_->span());
  }
}

void ReplicaGroup::LockPages(AlignedFloats* floats) {
  Network* network = alone_;
  for (size_t i = 0; network == nullptr && i < replicas_.size(); ++i) {
    network = replicas_[i].alive ? replicas_[i].holder->network.get() : nullptr;
  }
  if (network != nullptr && floats->size() > 0) {
    floats->Keep(network->LockPages(floats->span()));
  }
}

void ReplicaGroup::Reclaim(SharedBuffer* buffer) {
  if (kept_.empty() || std::find(kept_.begin(), kept_.end(), *buffer) == kept_.end()) {
    return;
  }
  auto copy = std::make_shared<AlignedFloats>(AlignedFloats::NanFilled((*buffer)->size()));
  std::copy_n((*buffer)->data(), (*buffer)->size(), copy->data());
  LockPages(copy.get());
  const bool in_use = *buffer == parameters_;
  *buffer = std::move(copy);
  if (in_use && from_first_) {
    parameters_ = *buffer;  // nobody reads it: the devices have newer ones
  } else if (in_use) {
    SetParameters(*buffer);
  }
}

// ---- rounds --------------------------------------------------------------------

size_t ReplicaGroup::room() const { return live() - (computed_ ? 0 : size_); }

void ReplicaGroup::Add(Batch* batch, const StepKey& key) {
  if (std::exchange(computed_, false)) {
    size_ = 0;
  }
  CHECK_GT(room(), 0u);
  if (size_ == slots_.size()) {
    slots_.push_back(std::make_shared<Work>());
  }
  Work& work = *slots_[size_++];
  work.dropped = false;
  work.aside.reset();
  work.key = key;
  if (alone_ != nullptr) {
    work.batch = batch;
    return;
  }
  work.samples.assign(key.samples.begin(), key.samples.end());
  work.key.samples = work.samples;
  if (work.own == nullptr || work.lent || work.own->capacity() != batch->capacity() ||
      work.own->format() != batch->format()) {
    work.own = std::make_shared<Batch>(batch->capacity(), batch->format());
    work.lent = false;
  }
  std::swap(*work.own, *batch);
  work.batch = work.own.get();
}

absl::Status ReplicaGroup::ComputeGradients(std::span<float> alone) {
  alone_gradient_ = alone;
  return Compute(Kind::kGradient);
}

absl::Status ReplicaGroup::Evaluate() { return Compute(Kind::kEvaluation); }

absl::Status ReplicaGroup::ComputeOnDevices() { return Compute(Kind::kOnDevice); }

absl::Status ReplicaGroup::Compute(Kind kind) {
  if (std::exchange(computed_, true)) {
    size_ = 0;
  }
  const absl::Duration begin = Clock::Real()->Now();
  if (alone_ != nullptr) {
    RETURN_IF_ERROR(size_ == 0 ? absl::OkStatus() : ComputeAlone(kind));
  } else {
    RETURN_IF_ERROR(ComputeAll(kind));
  }
  const absl::Duration duration = Clock::Real()->Now() - begin;
  for (size_t i = 0; kind != Kind::kEvaluation && i < size_; ++i) {
    StepResult& result = slots_[i]->result;
    if (result.computing == absl::ZeroDuration()) {
      result.computing = duration;
    }
  }
  return absl::OkStatus();
}

absl::Status ReplicaGroup::ComputeAll(Kind kind) {
  if (kind == Kind::kOnDevice) {
    RETURN_IF_ERROR(CheckFirst());
  }
  std::vector<size_t> open(size_);
  for (size_t i = 0; i < size_; ++i) {
    open[i] = i;
  }
  while (!open.empty()) {
    if (live() == 0) {
      return replicas_.last_loss();
    }
    RETURN_IF_ERROR(ComputeSome(kind, &open));
    if (kind == Kind::kOnDevice) {
      RETURN_IF_ERROR(PutAside(open));
    }
  }
  return absl::OkStatus();
}

absl::Status ReplicaGroup::ComputeAlone(Kind kind) {
  Work& work = *slots_[0];
  if (kind == Kind::kGradient) {
    absl::StatusOr<StepResult> result =
        alone_->LossAndGradient(*work.batch, work.key, alone_gradient_);
    work.status = result.status();
    work.result = result.value_or(StepResult());
  } else if (kind == Kind::kOnDevice) {
    absl::StatusOr<StepResult> result = device_->Compute(*work.batch, work.key);
    work.device = device_;
    work.status = result.status();
    work.result = result.value_or(StepResult());
  } else {
    absl::StatusOr<EvaluationResult> evaluation = alone_->Evaluate(*work.batch);
    work.status = evaluation.status();
    work.evaluation = evaluation.value_or(EvaluationResult());
  }
  if (work.status.ok() || AnyNetworkWould(work.status)) [[likely]] {
    return work.status;
  }
  return LossError(work.status, absl::StrCat("worker/", options_.worker, " (",
                                             alone_->Fingerprint(), "): ", work.status.message()));
}

absl::Status ReplicaGroup::ComputeSome(Kind kind, std::vector<size_t>* open) {
  const std::vector<Replica*> living = replicas_.Living();
  const size_t calls = std::min(open->size(), living.size());
  const auto progress = std::make_shared<CallProgress>(calls);
  for (size_t call = 0; call < calls; ++call) {
    StartWork(kind, *living[call], slots_[(*open)[call]], call, progress);
  }
  // Returns once all calls have, or those that have not are late.
  progress->Await(std::min(kWaitSlice, options_.patience), [this](absl::Duration waited,
                                                                  const auto& returned) {
    const bool comparable = longest_.has_value() || returned.finished > 0;
    const absl::Duration longest = std::max(longest_.value_or(returned.longest), returned.longest);
    return waited >
           (comparable ? options_.patience + kLateFactor * longest : options_.first_patience);
  });
  const CallProgress::Returned returned = progress->Get();
  if (returned.finished > 0) {
    longest_ = std::max(longest_.value_or(returned.longest), returned.longest);
  }
  absl::Status error;
  std::vector<size_t> again;
  for (size_t call = 0; call < calls; ++call) {
    std::shared_ptr<Work>& work = slots_[(*open)[call]];
    if (!returned.done[call]) {
      GiveUp(*living[call], &work);
      again.push_back((*open)[call]);
    } else if (AnyNetworkWould(work->status)) {
      error = error.ok() ? work->status : error;
    } else if (!work->status.ok()) {
      replicas_.Lose(*living[call], work->status);
      again.push_back((*open)[call]);
    }
  }
  again.insert(again.end(), open->begin() + static_cast<std::ptrdiff_t>(calls), open->end());
  *open = std::move(again);
  return error;
}

void ReplicaGroup::StartWork(Kind kind, Replica& replica, const std::shared_ptr<Work>& work,
                             size_t call, const std::shared_ptr<CallProgress>& progress) {
  replica.thread->Start([kind, call, work, progress, holder = replica.holder,
                         parameters = parameters_, generation = generation_] {
    const absl::Duration begin = Clock::Real()->Now();
    Network& network = *holder->network;
    if (std::exchange(holder->generation, generation) != generation) {
      network.SetParameters(parameters->span());
    }
    if (kind == Kind::kGradient) {
      if (work->gradient.size() != parameters->size()) {
        work->gradient = AlignedFloats::NanFilled(parameters->size());
        work->gradient.Keep(network.LockPages(work->gradient.span()));
      }
      absl::StatusOr<StepResult> result =
          network.LossAndGradient(*work->batch, work->key, work->gradient.span());
      work->status = result.status();
      work->result = result.value_or(StepResult());
    } else if (kind == Kind::kOnDevice) {
      work->device = network.device_training();
      absl::StatusOr<StepResult> result = work->device->Compute(*work->batch, work->key);
      work->status = result.status();
      work->result = result.value_or(StepResult());
    } else {
      absl::StatusOr<EvaluationResult> evaluation = network.Evaluate(*work->batch);
      work->status = evaluation.status();
      work->evaluation = evaluation.value_or(EvaluationResult());
      const auto& predictions = work->evaluation.judgement.predictions;
      work->predictions.assign(predictions.begin(), predictions.end());
      work->evaluation.judgement.predictions = work->predictions;
    }
    progress->Done(call, Clock::Real()->Now() - begin);
  });
}

// ---- sums ----------------------------------------------------------------------

std::span<const float> ReplicaGroup::gradient(size_t i) const {
  return alone_ != nullptr ? alone_gradient_ : slots_[i]->gradient.span();
}

bool ReplicaGroup::Sum(std::span<float> to) {
  if (alone_ != nullptr) {
    return size_ > 0 && !slots_[0]->dropped;
  }
  std::vector<const float*> from;
  for (size_t i = 0; i < size_; ++i) {
    if (!slots_[i]->dropped) {
      from.push_back(gradient(i).data());
    }
  }
  if (from.empty()) {
    return false;
  }
  ForSlices(to.size(), [&](size_t begin, size_t end) { SumInOrder(from, begin, end, to.data()); });
  return true;
}

void ReplicaGroup::ForSlices(size_t size, const std::function<void(size_t, size_t)>& work) {
  if (live() <= 1 || size < kMinSlicedFloats) {
    work(0, size);
    return;
  }
  const std::vector<Replica*> living = replicas_.Living();
  const size_t lines = (size + kSliceFloats - 1) / kSliceFloats;
  const size_t slice = (lines + living.size() - 1) / living.size() * kSliceFloats;
  const auto progress = std::make_shared<CallProgress>(living.size());
  for (size_t i = 0; i < living.size(); ++i) {
    const size_t begin = std::min(i * slice, size);
    const size_t end = std::min(begin + slice, size);
    living[i]->thread->Start([&work, begin, end, i, progress] {
      if (begin < end) {
        work(begin, end);
      }
      progress->Done(i, absl::ZeroDuration());
    });
  }
  progress->AwaitAll();
}

}  // namespace monsoon
