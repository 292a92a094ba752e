// DownpourRunner's part about differences and the fragments that they leave in.
#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/finite.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/downpour/downpour_runner.h"

namespace monsoon {

void DownpourRunner::PaceDifference() {
  const uint32_t fragments = options_.fragments.count();
  if (!accumulator_.empty() || (fragments == 1 && !options_.dynamic_local_steps)) {
    return;
  }
  const uint32_t told = options_.dynamic_local_steps ? control_->local_steps() : 0;
  const uint64_t steps =
      std::max(fragments, told == 0 ? options_.local_steps : std::min(told, options_.local_steps));
  const uint64_t push = last_sequence_ + (in_flight_.has_value() ? 2 : 1);
  // All of them together take so many steps, whatever the remainder.
  accumulator_.SetSteps(
      static_cast<uint32_t>(push * steps / fragments - (push - 1) * steps / fragments));
}

absl::Status DownpourRunner::Advance() {
  if (pusher_ == nullptr || options_.fragments.whole() || came_early_.has_value()) {
    return absl::OkStatus();
  }
  if (std::optional<Pushed> pushed = pusher_->TryTake()) {
    const bool plain = pushed->result.ok() && pushed->result->refused_invalid == 0;
    if (!plain || pushed->fetched.has_value()) {
      came_early_ = *std::move(pushed);  // it changes what the round is computed from
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(FinishPush(*std::move(pushed)));
  }
  if (fetch_due_ && MayFetch() && !store_.empty() && !client_->away().has_value()) {
    BeginFetch(absl::ZeroDuration());  // it has waited for the push
  }
  return absl::OkStatus();
}

void DownpourRunner::GiveUpDifference() {
  local_->Restart();
  whole_due_ = true;
  keeps_local_ = false;
  fetch_due_ = fetcher_ != nullptr;
  must_land_ = true;
}

void DownpourRunner::AwaitLanding() {
  const bool awaited = fetch_due_ || fetcher_->busy();
  if (options_.landing_steps > 0 && awaited && !store_.empty() && round_ >= lands_at_ &&
      !client_->away().has_value()) {
    must_land_ = true;
  }
}

void DownpourRunner::ClearOthers(uint32_t fragment, std::span<float> difference) const {
  size_t end = 0;
  for (const Slice& slice : options_.fragments.Slices(fragment)) {
    std::ranges::fill(difference.subspan(end, slice.begin - end), 0.0f);
    end = slice.end;
  }
  std::ranges::fill(difference.subspan(end), 0.0f);
}

std::optional<uint32_t> DownpourRunner::NextFetched() const {
  if (options_.fragments.whole() || whole_due_ || unlanded_.empty()) {
    return std::nullopt;
  }
  return options_.fragments.OfPush(unlanded_.front());
}

bool DownpourRunner::Unlanded(uint32_t fragment) const {
  return std::ranges::any_of(
      unlanded_, [&](uint64_t push) { return options_.fragments.OfPush(push) == fragment; });
}

void DownpourRunner::LandFragment(uint32_t fragment, const FetchMarks& marks) {
  const FragmentMap& fragments = options_.fragments;
  auto all = std::make_shared<FetchMarks>(*store_.marks());
  for (uint32_t shard = 0; shard < all->shard.size(); ++shard) {
    for (const StripeRun& run : fragments.Runs(fragment, shard)) {
      std::copy(marks.shard[shard].begin() + run.first, marks.shard[shard].begin() + run.end,
                all->shard[shard].begin() + run.first);
    }
  }
  group_->Reclaim(&store_.front_buffer());
  const std::span<float> front = store_.mutable_front();
  const std::vector<float> fetched = Statistics(store_.back());
  local_->Rebase(*all, store_.back(), front, fragment);
  LandStatistics(fetched, front, /*all=*/false, store_.back());
  for (const Slice& slice : fragments.Slices(fragment)) {
    std::ranges::copy(store_.back().subspan(slice.begin, slice.size()),
                      front.begin() + static_cast<ptrdiff_t>(slice.begin));
  }
  store_.SetMarks(std::move(all));
  std::erase_if(unlanded_, [&](uint64_t push) { return fragments.OfPush(push) == fragment; });
  fetch_due_ = fetch_due_ || (fetcher_ != nullptr && !unlanded_.empty());
}

absl::Status DownpourRunner::LeaveNonFinite() {
  RETURN_IF_ERROR(BringParameters());
  if (FirstNonFinite(store_.front()).has_value()) {
    LOG(WARNING) << Where() << ": the inner optimizer has left the finite numbers, and begins anew";
    GiveUpDifference();
  }
  return absl::OkStatus();
}

absl::Status DownpourRunner::Flush() {
  uint32_t pushes = 0;
  for (; !accumulator_.empty() || unpushed_ > 0; ++pushes) {
    RETURN_IF_ERROR(PushAccumulation(/*lands=*/pushes == 0));
  }
  if (pushes > 1) {
    whole_due_ = true;  // no fragment but the last one would be fetched
    fetch_due_ = fetcher_ != nullptr;
  }
  RETURN_IF_ERROR(CollectPush(/*wait=*/true));
  while (client_->away().has_value() || client_->acknowledged() < last_sequence_) {
    if (stopped()) {
      return absl::CancelledError("session ends while a shard is away");
    }
    stats_->SetWaitsFor(client_->away().value_or("acknowledgements"));
    RETURN_IF_ERROR(client_->BringBack(kWaitSlice));
  }
  TakeAcknowledged();
  // Blocks whose last steps were all dropped wait for no gradient.
  for (BlockId& block : accumulator_.TakeBlocks()) {
    done_.push_back(std::move(block));
  }
  return absl::OkStatus();
}

absl::Status DownpourRunner::Idle() {
  if (!options_.rounds) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Flush());
  const absl::Status passed = client_->Pass();
  return MayRetry(passed) ? absl::OkStatus() : passed;  // it is said again
}

}  // namespace monsoon
