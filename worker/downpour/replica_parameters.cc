#include "worker/downpour/replica_parameters.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/base/status.h"
#include "worker/downpour/device_status.h"
#include "worker/nn/device_training.h"

namespace monsoon {

void ReplicaParameters::Restore() {
  // The only copy was not lent out.
  if (!store_.empty() && !store_.once()) {
    group_->SetParameters(store_.front_buffer());
  }
}

absl::Status FetchedParameters::Land(SharedMarks marks, bool keeps, bool open) {
  store_.Swap(std::move(marks));
  if (open) {
    // What was the front until now has the program's steps that are not pushed yet.
    statistics_->LandOpen(keeps ? std::span<const float>(store_.back()) : std::span<const float>(),
                          store_.mutable_front());
  }
  group_->SetParameters(store_.front_buffer());
  return absl::OkStatus();
}

void MovedParameters::LandFragment(const FragmentMap& fragments, uint32_t fragment,
                                   const FetchMarks& marks) {
  auto all = std::make_shared<FetchMarks>(*store_.marks());
  for (uint32_t shard = 0; shard < all->shard.size(); ++shard) {
    for (const StripeRun& run : fragments.Runs(fragment, shard)) {
      std::copy(marks.shard[shard].begin() + run.first, marks.shard[shard].begin() + run.end,
                all->shard[shard].begin() + run.first);
    }
  }
  group_->Reclaim(&store_.front_buffer());
  // The other fragments stay where they are, so that this one is made in the back and copied.
  const std::span<float> front = store_.mutable_front();
  const std::span<float> back = store_.back();
  const std::vector<float> fetched = statistics_->Landing(back);
  local_->Rebase(*all, back, front, fragment);
  statistics_->LandUpdated(fetched, front, back);
  for (const Slice& slice : fragments.Slices(fragment)) {
    std::ranges::copy(back.subspan(slice.begin, slice.size()),
                      front.begin() + static_cast<ptrdiff_t>(slice.begin));
  }
  store_.SetMarks(std::move(all));
  group_->SetParameters(store_.front_buffer());
}

absl::Status MovedOnHost::Land(SharedMarks marks, bool keeps, bool /*open*/) {
  store_.Swap(std::move(marks));
  const std::span<float> front = store_.mutable_front();
  const std::span<const float> local =
      keeps ? std::span<const float>(store_.back()) : std::span<const float>();
  const std::vector<float> fetched = statistics_->Landing(front);
  local_->Rebase(*store_.marks(), front, local);
  // After Rebase, since what it has added to statistics is to be told from what was fetched.
  statistics_->LandUpdated(fetched, local, front);
  group_->SetParameters(store_.front_buffer());
  return absl::OkStatus();
}

absl::Status MovedOnHost::Step(std::span<const float> gradient) {
  local_->Step(gradient, store_.mutable_front());
  group_->SetParameters(store_.front_buffer());
  return absl::OkStatus();
}

absl::Status MovedOnDevice::Land(SharedMarks marks, bool /*keeps*/, bool /*open*/) {
  store_.Swap(std::move(marks));
  group_->SetFirstParameters(store_.front_buffer());
  // What is added takes effect as they arrive, before the others get them.
  local_->Rebase(*store_.marks(), group_->device()->parameters());
  return OfDevice(worker_, group_->ShareParameters());
}

absl::Status MovedOnDevice::Step(std::span<const float> /*gradient*/) {
  local_->Step(group_->device()->gradient(), group_->device()->parameters());
  return OfDevice(worker_, group_->ShareParameters());
}

absl::Status MovedOnDevice::Bring() {
  if (store_.empty()) {
    return absl::OkStatus();
  }
  const auto reading =
      group_->device()->Read(group_->device()->parameters(), store_.mutable_front());
  return OfDevice(worker_, reading.ok() ? (*reading)->Await() : reading.status());
}

}  // namespace monsoon
