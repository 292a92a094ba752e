#include "worker/downpour/differences.h"

#include <algorithm>
#include <utility>

#include "common/base/finite.h"
#include "common/base/logging.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

uint64_t Newest(const FetchMarks& marks) {
  uint64_t version = 0;
  for (const std::vector<StripeMark>& shard : marks.shard) {
    for (const StripeMark& stripe : shard) {
      version = std::max(version, stripe.version);
    }
  }
  return version;
}

}  // namespace

Differences::Differences(const Options& options, std::unique_ptr<MovedParameters> parameters,
                         Accumulator accumulator, const StatisticsKeeper* statistics,
                         FetchPlan* plan)
    : Exchange(std::move(parameters), std::move(accumulator), statistics),
      options_(options),
      moved_(static_cast<MovedParameters*>(&this->parameters())),
      plan_(plan),
      steps_(options.fragments.count()),
      turn_(options.turn_steps) {}

// ---- fetches -----------------------------------------------------------------

bool Differences::LandsBefore(uint64_t sequence, bool fetching) const {
  // A push or a fetch that takes as long as the steps of a difference would put the landing
  // off for ever.
  if (options_.rounds && !options_.fragments.whole()) {
    return plan_->IsUnlanded(options_.fragments.OfPush(sequence));
  }
  return fetching;
}

absl::Status Differences::Land(Landing landing) {
  if (parameters().empty()) {
    // A session that begins late goes on with the schedule where the others are. A round is one
    // version, whoever pushed to it; else each replica's push is one.
    const uint64_t each = options_.rounds ? 1 : std::max(1u, landing.replicas);
    moved_->GoOnAfter(Newest(*landing.marks) / each * options_.turn_steps);
  }
  if (landing.fragment.has_value()) {
    moved_->LandFragment(options_.fragments, *landing.fragment, *landing.marks);
    return absl::OkStatus();
  }
  return LandWhole(std::move(landing));
}

// ---- rounds ------------------------------------------------------------------

void Differences::BeginRound(uint64_t sequence, uint32_t told) {
  // A difference keeps the length that it began with.
  if (!accumulator_.empty()) {
    return;
  }
  const uint32_t asked = options_.paced && told > 0 ? told : options_.turn_steps;
  turn_ = std::max(options_.fragments.count(), std::min(asked, options_.turn_steps));
  const uint32_t steps = StepsOf(sequence, turn_);
  accumulator_.SetSteps(steps);
  Want(steps);
}

void Differences::Want(uint32_t steps) {
  for (Steps& of_fragment : steps_) {
    of_fragment.wanted += steps;
  }
}

uint32_t Differences::StepsOf(uint64_t sequence, uint64_t turn_steps) const {
  // All fragments together take turn_steps, whatever the remainder.
  const uint32_t fragments = options_.fragments.count();
  return static_cast<uint32_t>(sequence * turn_steps / fragments -
                               (sequence - 1) * turn_steps / fragments);
}

void Differences::EndRound(std::span<const TensorSlice> /*absent*/) {
  Exchange::EndRound({});
  for (Steps& of_fragment : steps_) {
    ++of_fragment.taken;
  }
  unpushed_ = options_.fragments.count();
}

absl::Status Differences::EndUnusableRound(const std::string& where) {
  // A step before this one may have left parameters that are no numbers. Then every later step
  // would be dropped, too.
  RETURN_IF_ERROR(parameters().Bring());
  if (FirstNonFinite(parameters().front()).has_value()) {
    LOG(WARNING) << where << ": the inner optimizer has left the finite numbers, and begins anew";
    GiveUp();
  }
  return absl::OkStatus();
}

// ---- pushes ------------------------------------------------------------------

absl::StatusOr<Accumulation> Differences::Seal(uint64_t sequence) {
  if (accumulator_.empty()) {
    Want(StepsOf(sequence, turn_));  // for which there was no data any more
  }
  ASSIGN_OR_RETURN(Accumulation push, accumulator_.Seal(moved_->moved()));
  push.part = TakePart(sequence);
  statistics_->WriteTo(push.gradient, parameters().front());
  if (!options_.fragments.whole()) {
    // Each fragment's base is its own last landing, which may be later than the first step.
    push.base = parameters().marks();
    ClearOthers(options_.fragments.OfPush(sequence), push.gradient);
  }
  unpushed_ = std::max(1u, unpushed_) - 1;
  // After the copy above: it takes what leaves out of what the steps have moved.
  RETURN_IF_ERROR(parameters().Seal(sequence));
  return push;
}

float Differences::TakePart(uint64_t sequence) {
  const Steps steps = std::exchange(steps_[options_.fragments.OfPush(sequence)], Steps());
  // One without any step carries what is not of steps, or nothing.
  return steps.taken == 0 || steps.taken >= steps.wanted
             ? 1.0f
             : static_cast<float>(steps.taken) / static_cast<float>(steps.wanted);
}

void Differences::ClearOthers(uint32_t fragment, std::span<float> difference) const {
  size_t end = 0;
  for (const Slice& slice : options_.fragments.Slices(fragment)) {
    std::ranges::fill(difference.subspan(end, slice.begin - end), 0.0f);
    end = slice.end;
  }
  std::ranges::fill(difference.subspan(end), 0.0f);
}

void Differences::Refuse(uint64_t sequence) {
  parameters().Drop(sequence);
  GiveUp();
}

void Differences::GiveUp() {
  moved_->Restart();
  for (Steps& of_fragment : steps_) {
    of_fragment.taken = 0;
  }
  plan_->StartAnew();
}

}  // namespace monsoon
