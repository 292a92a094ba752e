#include "worker/downpour/fetch_plan.h"

#include <algorithm>
#include <utility>

namespace monsoon {

bool FetchPlan::GoesOnWithoutShard(uint64_t batches, bool any) {
  if (!options_.overlapped || !any || away_steps_ >= options_.away_steps) {
    return false;
  }
  away_steps_ += batches;
  return true;
}

void FetchPlan::BeginRound(bool boundary, bool pushing) {
  // A push that brings parameters has been this boundary's fetch.
  due_ = due_ || (Wants(boundary, pushing) && came_at_ != round_);
}

bool FetchPlan::Wants(bool boundary, bool pushing) const {
  // Without fragments there is always what others have pushed. With them only what was pushed
  // here is fetched, each once.
  const bool something = options_.fragments.whole() || whole_ || pushing || !unlanded_.empty();
  return boundary && something;
}

std::optional<uint32_t> FetchPlan::next() const {
  if (whole_ || unlanded_.empty()) {
    return std::nullopt;
  }
  return options_.fragments.OfPush(unlanded_.front());
}

bool FetchPlan::IsLate(bool fetching, bool any) const {
  return options_.landing_steps > 0 && (due_ || fetching) && any && round_ >= lands_at_;
}

bool FetchPlan::Land(std::optional<uint32_t> fragment) {
  if (fragment.has_value() && !keeps_steps_) {
    return false;
  }
  // A fragment that was under way is not the whole that a round waits for.
  must_land_ = must_land_ && whole_ && fragment.has_value();
  if (!fragment.has_value()) {
    whole_ = false;
    keeps_steps_ = true;
    unlanded_.clear();
    return true;
  }
  std::erase_if(unlanded_,
                [&](uint64_t push) { return options_.fragments.OfPush(push) == *fragment; });
  due_ = due_ || (options_.overlapped && !unlanded_.empty());
  return true;
}

bool FetchPlan::IsUnlanded(uint32_t fragment) const {
  return std::ranges::any_of(
      unlanded_, [&](uint64_t push) { return options_.fragments.OfPush(push) == fragment; });
}

void FetchPlan::ComeWithPush() {
  with_push_ = true;
  came_at_ = round_;
}

void FetchPlan::EndPush(bool brought) {
  due_ = due_ || (std::exchange(with_push_, false) && !brought);
}

void FetchPlan::NotePushed(uint64_t push) {
  if (!options_.fragments.whole()) {
    unlanded_.push_back(push);
  }
}

void FetchPlan::FetchWhole() {
  whole_ = true;
  due_ = options_.overlapped;
}

void FetchPlan::StartAnew() {
  FetchWhole();
  keeps_steps_ = false;
  must_land_ = true;
}

}  // namespace monsoon
