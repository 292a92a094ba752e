#include "worker/downpour/downpour_runner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/model/bias_ranges.h"
#include "worker/downpour/gradient_clip.h"
#include "worker/session/session_status.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

// Between two tries of a call that a shard did not answer.
constexpr absl::Duration kRetryPause = absl::Milliseconds(20);

}  // namespace

bool DownpourRunner::MayRetry(const absl::Status& status) {
  return IsTransient(status) && !absl::IsCancelled(status);
}

DownpourRunner::DownpourRunner(const DownpourRunnerOptions& options, const ParameterLayout* layout,
                               ParameterClient* client, ReplicaGroup* group,
                               std::unique_ptr<LocalUpdater> local, StatsCollector* stats,
                               SessionControl* control, const Clock* clock,
                               const DifferenceWeigher& weigher)
    : options_(options),
      layout_(layout),
      statistics_(StatisticRanges(*layout, {0, layout->size()})),
      own_statistics_(!statistics_.empty() && !layout->layers().empty()),
      client_(client),
      group_(group),
      local_(std::move(local)),
      stats_(stats),
      control_(control),
      clock_(clock),
      store_(layout->size()),
      accumulator_(
          layout->size(), options.n_push,
          [group](AlignedFloats* buffer) { group->LockPages(buffer); },
          options.local_steps > 0 ? Accumulator::Kind::kDifferences
                                  : Accumulator::Kind::kGradients),
      device_writes_(group->device() != nullptr),
      weigher_(weigher) {
  for (AlignedFloats* const parameters : store_.buffers()) {
    group_->LockPages(parameters);
  }
  if (group_->device() != nullptr) {
    MoveToDevice(group_->device());
  }
  if (options_.overlap == ASYNC) {
    fetcher_ = std::make_unique<BackgroundCall<Fetched>>();
    pusher_ = std::make_unique<BackgroundCall<Pushed>>();
  }
}

DownpourRunner::~DownpourRunner() = default;

std::string DownpourRunner::Where(size_t i) const {
  return absl::StrCat("worker/", options_.worker, " step ", step_ + i);
}

void DownpourRunner::PauseBeforeRetry(const char* call, const absl::Status& status, bool waits) {
  if (waits) {
    stats_->SetWaitsFor(status.message());
  } else {
    LOG(WARNING) << call << ": " << std::string(status.message()) << "; trying again";
    stats_->AddRetry(status.message());
  }
  control_->Sleep(kRetryPause);
}

// ---- fetch -----------------------------------------------------------------

DownpourRunner::Fetched DownpourRunner::Fetch(std::span<float> out,
                                              std::optional<uint32_t> fragment) {
  const absl::Duration begin = clock_->Now();
  while (true) {
    auto marks = std::make_shared<FetchMarks>();
    Fetched fetched;
    fetched.fragment = fragment;
    fetched.status = fragment.has_value()
                         ? client_->FetchFragment(*fragment, out, marks.get(), &fetched.stats)
                         : client_->Fetch(out, marks.get(), &fetched.stats);
    fetched.duration = clock_->Now() - begin;
    fetched.marks = std::move(marks);
    if (!MayRetry(fetched.status) || stopped()) {
      return fetched;
    }
    PauseBeforeRetry("fetch", fetched.status,
                     client_->away().has_value() || IsRoundOpen(fetched.status));
  }
}

absl::Status DownpourRunner::AwaitShards() {
  std::optional<std::string> away = client_->away();
  if (!away.has_value()) {
    away_steps_ = 0;
    return absl::OkStatus();
  }
  if (options_.overlap == ASYNC && !store_.empty() && away_steps_ < options_.away_steps) {
    away_steps_ += group_->size();
    stats_->AddAwaySteps(group_->size());
    return absl::OkStatus();
  }
  LOG(WARNING) << Where() << ": waits for " << *away;
  for (; away.has_value(); away = client_->away()) {
    if (stopped()) {
      return absl::CancelledError("session ends while a shard is away");
    }
    stats_->SetWaitsFor(*away);
    RETURN_IF_ERROR(client_->BringBack(kWaitSlice));
  }
  away_steps_ = 0;
  return absl::OkStatus();
}

absl::Status DownpourRunner::PrepareParameters() {
  if (options_.overlap == NONE) {
    return (Boundary() && Fetches()) || must_land_ ? LandFetch(Fetch(store_.back(), NextFetched()))
                                                   : absl::OkStatus();
  }
  fetch_due_ = fetch_due_ || (Boundary() && Fetches() && fetched_ahead_ != round_);
  AwaitLanding();
  if (!LandsLater()) {
    if (std::optional<Fetched> landed = fetcher_->TryTake()) {
      RETURN_IF_ERROR(LandFetch(*std::move(landed)));
    }
  }
  RETURN_IF_ERROR(StartFetch());
  while (store_.empty() || must_land_) {
    if (differences()) {
      RETURN_IF_ERROR(CollectPush(/*wait=*/true));  // before it nothing is fetched
    }
    RETURN_IF_ERROR(StartFetch());
    if (!fetcher_->busy()) {
      continue;  // it was mapped
    }
    if (std::optional<Fetched> landed = fetcher_->WaitTake(kWaitSlice)) {
      RETURN_IF_ERROR(LandFetch(*std::move(landed)));
    }
  }
  return absl::OkStatus();
}

absl::Status DownpourRunner::StartFetch() {
  if (fetch_due_ && MayFetch() && !LandsLater()) {
    ASSIGN_OR_RETURN(const bool landed, FetchMapped());
    fetch_due_ = !landed;
  }
  if (fetch_due_ && MayFetch()) {
    BeginFetch(fetch_timer_.Delay());
  }
  return absl::OkStatus();
}

void DownpourRunner::BeginFetch(absl::Duration delay) {
  fetch_due_ = false;
  if (local_ != nullptr) {
    local_->ForgetAcknowledged();
  }
  fetcher_->Start([this, back = store_.back(), delay, fragment = NextFetched()] {
    if (delay > absl::ZeroDuration()) {
      control_->Sleep(delay);
    }
    return Fetch(back, fragment);
  });
}

absl::StatusOr<bool> DownpourRunner::FetchMapped() {
  if (store_.empty()) {
    return false;  // the first fetch maps
  }
  const absl::Duration begin = clock_->Now();
  auto marks = std::make_shared<FetchMarks>();
  Fetched fetched;
  if (!client_->FetchMapped(store_.back(), marks.get(), &fetched.stats)) {
    return false;
  }
  fetched.marks = std::move(marks);
  fetched.duration = clock_->Now() - begin;
  RETURN_IF_ERROR(LandFetch(std::move(fetched)));
  return true;
}

// ---- compute ---------------------------------------------------------------

void DownpourRunner::Add(Batch* batch, const std::optional<BlockId>& last_of) {
  const uint64_t step = step_ + (group_->live() - group_->room());
  group_->Add(batch, StepKey{options_.seed, options_.worker, step, {}});
  if (last_of.has_value()) {
    ending_.push_back(*last_of);
  }
}

absl::StatusOr<bool> DownpourRunner::Judge(size_t i) const {
  const double loss = group_->result(i).loss_mean;
  if (std::isfinite(loss)) [[likely]] {
    return true;
  }
  std::string tensor = NameFirstNonFinite(*layout_, group_->CopyGradient(i));
  if (tensor.empty()) {
    tensor = NameFirstNonFinite(*layout_, store_.front());
  }
  const std::string message =
      absl::StrCat(Where(i), ": loss is ", loss,
                   tensor.empty() ? std::string(", all tensors are finite")
                                  : absl::StrCat(", first non-finite value in tensor ", tensor));
  if (options_.divergence.action() != DivergencePolicy::SKIP) {
    return DivergedError(message);
  }
  LOG(WARNING) << message << "; the step is dropped";
  stats_->AddRefused();
  return false;
}

absl::Status DownpourRunner::JudgeRound() {
  for (size_t i = 0; i < group_->size(); ++i) {
    ASSIGN_OR_RETURN(const bool usable, Judge(i));
    if (!usable || group_->result(i).steps == 0) {
      group_->Drop(i);
    }
  }
  return absl::OkStatus();
}

StepResult DownpourRunner::CountRound(absl::Duration duration) {
  StepResult sum;
  sum.steps = 0;
  uint64_t with_loss = 0;
  for (size_t i = 0; i < group_->size(); ++i) {
    // A dropped step has no loss that could enter a mean.
    if (group_->dropped(i)) {
      continue;
    }
    StepResult step = group_->result(i);
    step.computing += stepping_;
    stats_->AddStep(step, duration);
    sum.steps += step.steps;
    if (step.has_loss) {
      sum.loss_mean += step.loss_mean * static_cast<double>(step.examples);
      with_loss += step.examples;
    }
    sum.correct += step.correct;
    sum.examples += step.examples;
    sum.unjudged += step.unjudged;
  }
  sum.loss_mean /= static_cast<double>(std::max<uint64_t>(1, with_loss));
  sum.has_loss = with_loss > 0;
  return sum;
}

absl::StatusOr<StepResult> DownpourRunner::Step() {
  const absl::Duration begin = clock_->Now();
  RETURN_IF_ERROR(CollectPush(/*wait=*/false));
  RETURN_IF_ERROR(AwaitShards());
  RETURN_IF_ERROR(PrepareParameters());
  PaceDifference();
  RETURN_IF_ERROR(ComputeRound());
  for (const BlockId& block : ending_) {
    accumulator_.FinishBlock(block);
  }
  ending_.clear();
  for (size_t i = 0; i < group_->size(); ++i) {
    step_ += group_->result(i).steps;
    if (!group_->dropped(i)) {
      weigher_.Add(group_->result(i));
    }
  }
  TakeStepRows();
  ++round_;
  fetch_timer_.NoteStep(clock_->Now() - begin);
  if (accumulator_.full()) {
    RETURN_IF_ERROR(PushAccumulation());
  }
  return CountRound(clock_->Now() - begin);
}

// ---- push ------------------------------------------------------------------

DownpourRunner::Pushed DownpourRunner::Push(const Accumulation& accumulation,
                                            std::span<float> back) {
  const absl::Duration begin = clock_->Now();
  if (accumulation.reading != nullptr) {
    if (const absl::Status status = accumulation.reading->Await(); !status.ok()) {
      return Pushed{OfDevice(status), {}, {}};
    }
  }
  if (accumulation.negated) {
    std::ranges::transform(accumulation.gradient, accumulation.gradient.begin(), std::negate<>());
  }
  ClipGradientNorm(accumulation.gradient, options_.clip_norm, statistics_);
  if (!StatisticsMove() && accumulation.steps > 1) {
    ScaleParts(accumulation.gradient, statistics_, 1.0 / accumulation.steps);
  }
  // Memory that a device writes to is worth keeping as it is.
  const SharedBuffer owner = device_writes_ ? accumulation.memory : nullptr;
  GradientView gradient = accumulation.encoded.empty()
                              ? GradientView(accumulation.gradient, owner)
                              : GradientView::Encoded(accumulation.encoded, owner);
  gradient.weight = accumulation.weight;
  const std::vector<RowGradient> rows =
      accumulation.rows == nullptr ? std::vector<RowGradient>() : accumulation.rows->View();
  gradient.rows = rows;
  while (true) {
    auto marks = back.empty() ? nullptr : std::make_shared<FetchMarks>();
    Fetched fetched;
    bool came = false;
    Pushed pushed{back.empty() ? client_->Push(gradient, *accumulation.base)
                               : client_->PushAndFetch(gradient, *accumulation.base, back,
                                                       marks.get(), &fetched.stats, &came),
                  {},
                  {}};
    pushed.duration = clock_->Now() - begin;
    if (came) {
      fetched.marks = std::move(marks);
      fetched.duration = pushed.duration;
      pushed.fetched = std::move(fetched);
    }
    if (pushed.result.ok() || !MayRetry(pushed.result.status()) || stopped()) {
      return pushed;
    }
    // The client finishes it under the same sequence.
    PauseBeforeRetry("push", pushed.result.status(), /*waits=*/false);
  }
}

absl::Status DownpourRunner::PushAccumulation(bool lands) {
  // What lands now is not of the steps that are pushed. Local updates have these on top of it.
  std::vector<float> values;
  if (PushesValues() && StatisticsMove() && local_ == nullptr) {
    values = Statistics(store_.front());
  }
  RETURN_IF_ERROR(CollectPush(/*wait=*/true));
  const bool fetches = fetch_due_ || (fetcher_ != nullptr && fetcher_->busy());
  const uint32_t fragment = options_.fragments.OfPush(last_sequence_ + 1);
  const bool of_rounds = options_.rounds && !options_.fragments.whole();
  // A push or a fetch that takes as long as the steps of a difference would put the landing
  // off for ever.
  for (bool awaits = of_rounds ? Unlanded(fragment) : fetches;
       awaits && lands && differences() && !client_->away().has_value();
       awaits = of_rounds && Unlanded(fragment)) {
    must_land_ = true;
    RETURN_IF_ERROR(PrepareParameters());
  }
  MONSOON_FAIL_POINT("worker.before_push");
  absl::StatusOr<Accumulation> sealed =
      accumulator_.Seal(differences() ? local_->moved() : std::span<const float>());
  RETURN_IF_ERROR(OfDevice(sealed.status()));
  in_flight_ = *std::move(sealed);
  if (PushesValues() && StatisticsMove()) {
    WriteValues(local_ == nullptr ? values : Statistics(store_.front()), in_flight_->gradient);
  }
  in_flight_->weight = weigher_.Take(fragment);
  in_flight_->rows = std::exchange(rows_, nullptr);
  if (!options_.fragments.whole()) {
    in_flight_->base = store_.marks();
    ClearOthers(fragment, in_flight_->gradient);
  }
  unpushed_ = std::max(1u, unpushed_) - 1;
  lands_at_ = round_ + options_.landing_steps;
  if (local_ != nullptr) {
    RETURN_IF_ERROR(OfDevice(local_->Seal(last_sequence_ + 1)));
  }
  if (options_.overlap == NONE) {
    return FinishPush(Push(*in_flight_, {}));
  }
  push_fetches_ =
      Boundary() && !fetch_due_ && !fetcher_->busy() && !store_.empty() && client_->combines();
  if (push_fetches_) {
    fetched_ahead_ = round_;
  }
  pusher_->Start([this, accumulation = *in_flight_,
                  back = push_fetches_ ? store_.back() : std::span<float>()] {
    return Push(accumulation, back);
  });
  return absl::OkStatus();
}

absl::Status DownpourRunner::CollectPush(bool wait) {
  if (pusher_ == nullptr) {
    return absl::OkStatus();
  }
  if (came_early_.has_value()) {
    return FinishPush(*std::exchange(came_early_, std::nullopt));
  }
  while (pusher_->busy()) {
    std::optional<Pushed> pushed = pusher_->WaitTake(wait ? kWaitSlice : absl::ZeroDuration());
    if (pushed.has_value()) {
      return FinishPush(*std::move(pushed));
    }
    if (!wait) {
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status DownpourRunner::FinishPush(Pushed pushed) {
  CHECK(in_flight_.has_value());
  const Accumulation accumulation = *std::exchange(in_flight_, std::nullopt);
  fetch_due_ = fetch_due_ || (std::exchange(push_fetches_, false) && !pushed.fetched.has_value());
  const uint64_t sequence = last_sequence_ + 1;
  std::string refusal;
  if (pushed.result.ok()) {
    CHECK_EQ(pushed.result->sequence, sequence);
    MONSOON_FAIL_POINT("worker.pushed");
    last_sequence_ = sequence;
    stats_->AddPush(*pushed.result, pushed.duration);
    if (pushed.result->refused_invalid > 0) {
      refusal = pushed.result->first_refusal;
    }
  } else if (absl::IsInvalidArgument(pushed.result.status())) {
    stats_->AddRefused();
    refusal = std::string(pushed.result.status().message());
  } else {
    return pushed.result.status();
  }
  if (pushed.fetched.has_value()) {
    RETURN_IF_ERROR(LandFetch(*std::move(pushed.fetched)));
  }
  if (!options_.fragments.whole()) {
    unlanded_.push_back(sequence);
  }
  // A refused push is given up, and its blocks count as visited.
  unacknowledged_.push_back({sequence, !refusal.empty(), accumulation.blocks});
  TakeAcknowledged();
  if (!refusal.empty()) {
    if (local_ != nullptr) {
      local_->Drop(sequence);
    }
    if (differences()) {
      GiveUpDifference();
    }
    const std::string tensor =
        accumulation.gradient.empty() ? "" : NameFirstNonFinite(*layout_, accumulation.gradient);
    return Refused(tensor.empty() ? refusal : absl::StrCat("tensor ", tensor, ": ", refusal));
  }
  refused_in_a_row_ = 0;
  return absl::OkStatus();
}

void DownpourRunner::TakeAcknowledged() {
  const uint64_t acknowledged = std::min(client_->acknowledged(), last_sequence_);
  bool some = false;
  while (!unacknowledged_.empty() && unacknowledged_.front().sequence <= acknowledged) {
    Unacknowledged& push = unacknowledged_.front();
    unfinished_.push_back({push.sequence + options_.fragments.count() - 1, std::move(push.blocks)});
    if (local_ != nullptr && !push.refused) {
      local_->Acknowledge(push.sequence);
      some = true;
    }
    unacknowledged_.pop_front();
  }
  for (; !unfinished_.empty() && unfinished_.front().with_push <= acknowledged;
       unfinished_.pop_front()) {
    std::ranges::move(unfinished_.front().blocks, std::back_inserter(done_));
  }
  if (some && (fetcher_ == nullptr || !fetcher_->busy())) {
    local_->ForgetAcknowledged();
  }
}

absl::Status DownpourRunner::Refused(const std::string& why) {
  ++refused_in_a_row_;
  LOG(WARNING) << Where() << ": push refused (" << refused_in_a_row_ << " in a row): " << why;
  switch (options_.divergence.action()) {
    case DivergencePolicy::SKIP:
      return absl::OkStatus();
    case DivergencePolicy::HALT:
      return DivergedError(absl::StrCat(Where(), ": push refused: ", why));
    default:
      break;
  }
  if (refused_in_a_row_ < options_.divergence.max_refused()) {
    return absl::OkStatus();
  }
  return DivergedError(
      absl::StrCat(Where(), ": ", refused_in_a_row_, " pushes refused in a row, the last: ", why));
}

std::vector<BlockId> DownpourRunner::TakeDone() {
  TakeAcknowledged();
  return std::exchange(done_, {});
}

}  // namespace monsoon
