#include "worker/downpour/local_updater.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

void AddTo(std::span<const float> from, std::span<float> to) {
  for (size_t i = 0; i < from.size(); ++i) {
    to[i] += from[i];
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalUpdater>> LocalUpdater::Create(const Downpour& downpour,
                                                                   const ShardMap& map) {
  const LocalUpdate& update = downpour.local_update();
  Optimizer optimizer;
  *optimizer.mutable_schedule() = downpour.optimizer().schedule();
  switch (update.kind_case()) {
    case LocalUpdate::kSgdRate:
      optimizer.mutable_sgd()->set_rate(update.sgd_rate());
      break;
    case LocalUpdate::kAdagradRate:
      optimizer.mutable_adagrad()->set_rate(update.adagrad_rate());
      break;
    case LocalUpdate::kNone:
    case LocalUpdate::KIND_NOT_SET:
      return nullptr;
  }
  auto kernel = OptimizerKernel::Create(optimizer);
  if (!kernel.ok()) {
    return Annotate(kernel.status(), "local_update");
  }
  return std::unique_ptr<LocalUpdater>(new LocalUpdater(*std::move(kernel), map));
}

LocalUpdater::LocalUpdater(std::unique_ptr<OptimizerKernel> kernel, const ShardMap& map)
    : kernel_(std::move(kernel)),
      map_(map),
      state_(AlignedFloats::NanFilled(map.size() * kernel_->state_slots())),
      open_(AlignedFloats::NanFilled(map.size())) {
  state_.Fill(kernel_->initial_state());
}

void LocalUpdater::Step(std::span<const float> gradient, std::span<float> w) {
  kernel_->ApplyAndTell(version_, w, state_.span(), gradient, open_.span(), open_empty_);
  open_empty_ = false;
}

AlignedFloats LocalUpdater::TakeBuffer() {
  if (free_.empty()) {
    return AlignedFloats::NanFilled(open_.size());
  }
  AlignedFloats buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void LocalUpdater::Seal(uint64_t sequence) {
  if (open_empty_) {  // all steps of the push were dropped
    open_.Fill(0.0f);
  }
  pending_.push_back({sequence, false, std::exchange(open_, TakeBuffer())});
  open_empty_ = true;
  ++version_;
}

void LocalUpdater::Drop(uint64_t sequence) {
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    if (it->sequence == sequence) {
      free_.push_back(std::move(it->displacement));
      pending_.erase(it);
      return;
    }
  }
}

void LocalUpdater::Acknowledge(uint64_t sequence) {
  for (Pending& push : pending_) {
    if (push.sequence == sequence) {
      push.acknowledged = true;
    }
  }
}

void LocalUpdater::ForgetAcknowledged() {
  while (!pending_.empty() && pending_.front().acknowledged) {
    free_.push_back(std::move(pending_.front().displacement));
    pending_.pop_front();
  }
}

void LocalUpdater::Rebase(const FetchMarks& marks, std::span<float> w) {
  uint64_t applied_everywhere = UINT64_MAX;
  uint64_t newest = 0;
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    CHECK_EQ(marks.shard[shard].size(), map_.stripes(shard));
    for (uint32_t stripe = 0; stripe < map_.stripes(shard); ++stripe) {
      const uint64_t applied = marks.shard[shard][stripe].applied_sequence;
      applied_everywhere = std::min(applied_everywhere, applied);
      newest = std::max(newest, marks.shard[shard][stripe].version);
      const Slice slice = map_.stripe(shard, stripe);
      for (const Pending& push : pending_) {
        if (push.sequence > applied) {
          AddTo(push.displacement.span().subspan(slice.begin, slice.size()),
                w.subspan(slice.begin, slice.size()));
        }
      }
    }
  }
  if (!open_empty_) {
    AddTo(open_.span(), w);
  }
  while (!pending_.empty() && pending_.front().sequence <= applied_everywhere) {
    free_.push_back(std::move(pending_.front().displacement));
    pending_.pop_front();
  }
  version_ = newest + pending_.size();
}

}  // namespace monsoon
