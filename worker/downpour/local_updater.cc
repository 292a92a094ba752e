#include "worker/downpour/local_updater.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/optimizer/optimizer_groups.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/range_kernel.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {

namespace {

constexpr int kPlannedPushes = 2;

// Whose steps move the replica's own copy; nothing where none do.
std::optional<Optimizer> OwnOptimizer(const Downpour& downpour) {
  Optimizer optimizer;
  if (downpour.local().has_inner()) {
    return downpour.local().inner();
  }
  if (downpour.local().steps() > 0) {
    optimizer.mutable_sgd()->set_rate(1.0);
    return optimizer;
  }
  *optimizer.mutable_schedule() = downpour.optimizer().schedule();
  for (const OptimizerGroup& group : downpour.optimizer().group()) {
    // A rate of its own stands for the shards' rate, and so in each group.
    OptimizerGroup& own = *optimizer.add_group();
    *own.mutable_tensors() = group.tensors();
    if (group.frozen()) {
      own.set_frozen(true);
    } else {
      own.set_rate_factor(RateOf(OfGroup(downpour.optimizer(), group)) /
                          RateOf(downpour.optimizer()));
    }
  }
  switch (downpour.local_update().kind_case()) {
    case LocalUpdate::kSgdRate:
      optimizer.mutable_sgd()->set_rate(downpour.local_update().sgd_rate());
      return optimizer;
    case LocalUpdate::kAdagradRate:
      optimizer.mutable_adagrad()->set_rate(downpour.local_update().adagrad_rate());
      return optimizer;
    case LocalUpdate::kNone:
    case LocalUpdate::KIND_NOT_SET:
      break;
  }
  return std::nullopt;
}

}  // namespace

TensorRanges LocalUpdater::TensorsOf(const Downpour& downpour, const Model& model,
                                     const ParameterLayout& layout) {
  return TensorRanges::OfModel(model, layout, OwnOptimizer(downpour).value_or(Optimizer()));
}

absl::StatusOr<std::unique_ptr<LocalUpdater>> LocalUpdater::Create(const Downpour& downpour,
                                                                   const ShardMap& map,
                                                                   const TensorRanges& tensors,
                                                                   const FragmentMap& fragments) {
  if (!OwnOptimizer(downpour).has_value()) {
    return nullptr;
  }
  const MakeKernel make = [tensors, size = map.size()](const Downpour& rates,
                                                       uint64_t steps_before) {
    Optimizer optimizer = OwnOptimizer(rates).value_or(Optimizer());
    if (rates.local().has_inner()) {
      optimizer.mutable_schedule()->set_before(steps_before);
    }
    return CreateRangeKernel(optimizer, tensors, {0, size});
  };
  return CreateWith(downpour, map, fragments, make);
}

absl::StatusOr<std::unique_ptr<LocalUpdater>> LocalUpdater::CreateWith(const Downpour& downpour,
                                                                       const ShardMap& map,
                                                                       const FragmentMap& fragments,
                                                                       const MakeKernel& make) {
  auto kernel = make(downpour, 0);
  if (!kernel.ok()) {
    return Annotate(kernel.status(), downpour.local().has_inner() ? "inner" : "local_update");
  }
  std::unique_ptr<LocalUpdater> updater(
      new LocalUpdater(*std::move(kernel), map, fragments, downpour.local().mixing()));
  updater->make_kernel_ = make;
  updater->rates_ = std::make_shared<const Downpour>(downpour);
  updater->inner_ = downpour.local().has_inner();
  RETURN_IF_ERROR(updater->MoveTo(nullptr));
  return updater;
}

LocalUpdater::LocalUpdater(std::unique_ptr<OptimizerKernel> kernel, const ShardMap& map,
                           const FragmentMap& fragments, double mixing)
    : kernel_(std::move(kernel)),
      map_(map),
      fragments_(fragments),
      mixing_(static_cast<float>(mixing)) {}

absl::Status LocalUpdater::MoveTo(VectorPlace* place) {
  CHECK(pending_.empty() && open_empty_);
  place = place == nullptr ? &host_ : place;
  if (place != &host_ && !kernel_->StepAt(0).has_value()) {
    return absl::UnimplementedError(
        "the replica's own optimizer does not treat all parameters alike");
  }
  if (place != &host_ && (!fragments_.whole() || mixing_ > 0)) {
    return absl::UnimplementedError("fragments and mixing are the host's");
  }
  const size_t state_floats = map_.size() * static_cast<size_t>(kernel_->state_slots());
  ASSIGN_OR_RETURN(Floats state, place->Allocate(state_floats, kernel_->initial_state()));
  // A device's room is taken before the first step: of one push in flight, and one before it.
  std::vector<Floats> displacements(place == &host_ ? 1 : 1 + kPlannedPushes);
  for (Floats& displacement : displacements) {
    ASSIGN_OR_RETURN(displacement,
                     place->Allocate(map_.size(), std::numeric_limits<float>::quiet_NaN()));
  }
  state_ = std::move(state);
  open_ = std::move(displacements.back());
  displacements.pop_back();
  free_ = std::move(displacements);
  place_ = place;
  return absl::OkStatus();
}

absl::Status LocalUpdater::TakeRates(const Downpour& downpour) {
  ASSIGN_OR_RETURN(std::unique_ptr<OptimizerKernel> kernel, make_kernel_(downpour, before_));
  if (kernel->state_slots() != kernel_->state_slots()) {
    return absl::InvalidArgumentError("the replica's own optimizer is of another kind");
  }
  kernel_ = std::move(kernel);
  rates_ = std::make_shared<const Downpour>(downpour);
  return absl::OkStatus();
}

void LocalUpdater::GoOnAfter(uint64_t steps) {
  CHECK_EQ(steps_, 0u);
  if (inner_) {
    before_ = steps;
    auto kernel = make_kernel_(*rates_, steps);
    CHECK_OK(kernel.status());  // the same has been made before
    kernel_ = *std::move(kernel);
  }
}

void LocalUpdater::Step(std::span<const float> gradient, std::span<float> w) {
  const uint64_t k = inner_ ? steps_ : version_;
  place_->Apply(*kernel_, k, w, state_->span(), gradient, open_->span(), open_empty_);
  open_empty_ = false;
  ++steps_;
}

std::span<float> LocalUpdater::MutableMoved() {
  if (std::exchange(open_empty_, false)) {
    place_->Fill(open_->span(), 0.0f);
  }
  return open_->span();
}

void LocalUpdater::Restart() {
  open_empty_ = true;
  if (inner_) {
    place_->Fill(state_->span(), kernel_->initial_state());
    GoOnAfter(before_ + std::exchange(steps_, 0));
  }
}

absl::StatusOr<LocalUpdater::Floats> LocalUpdater::TakeBuffer() {
  if (free_.empty()) {
    return place_->Allocate(map_.size(), std::numeric_limits<float>::quiet_NaN());
  }
  Floats buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

absl::Status LocalUpdater::Seal(uint64_t sequence) {
  absl::StatusOr<Floats> next = TakeBuffer();
  if (!next.ok()) {
    return Annotate(next.status(), absl::StrCat("local_update, with ", pending_.size(),
                                                " pushes that the shards have not acknowledged"));
  }
  const std::span<const float> open = moved();  // zero where all steps of the push were dropped
  if (fragments_.whole()) {
    pending_.push_back({sequence, false, std::exchange(open_, *std::move(next))});
    open_empty_ = true;
  } else {
    for (const Slice& slice : fragments_.Slices(fragments_.OfPush(sequence))) {
      place_->Copy(open.subspan(slice.begin, slice.size()),
                   (*next)->span().subspan(slice.begin, slice.size()));
      place_->Fill(open_->span().subspan(slice.begin, slice.size()), 0.0f);
    }
    pending_.push_back({sequence, false, *std::move(next)});
  }
  ++version_;
  return absl::OkStatus();
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

void LocalUpdater::AddPending(const Pending& push, const FetchMarks& marks, std::span<float> w) {
  Slice run = {0, 0};
  const auto add_run = [&] {
    if (run.size() > 0) {
      place_->Add(push.displacement->span().subspan(run.begin, run.size()),
                  w.subspan(run.begin, run.size()));
    }
  };
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    for (uint32_t stripe = 0; stripe < map_.stripes(shard); ++stripe) {
      if (push.sequence <= marks.shard[shard][stripe].applied_sequence ||
          !IsOf(push.sequence, shard, stripe)) {
        continue;
      }
      const Slice slice = map_.stripe(shard, stripe);
      if (slice.begin != run.end) {
        add_run();
        run.begin = slice.begin;
      }
      run.end = slice.end;
    }
  }
  add_run();
}

void LocalUpdater::Rebase(const FetchMarks& marks, std::span<float> w, std::span<const float> local,
                          std::optional<uint32_t> fragment) {
  uint64_t applied_everywhere = UINT64_MAX;
  uint64_t newest = 0;
  for (uint32_t shard = 0; shard < map_.shards(); ++shard) {
    CHECK_EQ(marks.shard[shard].size(), map_.stripes(shard));
    for (const StripeMark& mark : marks.shard[shard]) {
      applied_everywhere = std::min(applied_everywhere, mark.applied_sequence);
      newest = std::max(newest, mark.version);
    }
  }
  for (const Pending& push : pending_) {
    if (!fragment.has_value() || fragments_.OfPush(push.sequence) == *fragment) {
      AddPending(push, marks, w);
    }
  }
  const bool mixes = mixing_ > 0 && !local.empty();
  if (mixes || !open_empty_) {
    const std::span<float> open = MutableMoved();
    for (const Slice& slice : Slices(fragment)) {
      const std::span<float> landed = w.subspan(slice.begin, slice.size());
      const std::span<float> left = open.subspan(slice.begin, slice.size());
      if (mixes) {
        for (size_t i = 0; i < landed.size(); ++i) {
          left[i] = mixing_ * (local[slice.begin + i] - landed[i]);
        }
      }
      place_->Add(left, landed);
    }
  }
  while (!pending_.empty() && pending_.front().sequence <= applied_everywhere) {
    free_.push_back(std::move(pending_.front().displacement));
    pending_.pop_front();
  }
  version_ = newest + pending_.size();
}

}  // namespace monsoon
