#include "worker/downpour/downpour_runner.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "worker/downpour/device_status.h"
#include "worker/downpour/gradient_clip.h"
#include "worker/downpour/make_exchange.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

constexpr absl::Duration kWaitSlice = ShardCalls::kWaitSlice;
// From here on it takes less to keep the memory of a program's push as it is than to copy it; of
// small ones there would be too many.
constexpr uint64_t kLargeFloats = 1 << 20;

}  // namespace

DownpourRunner::DownpourRunner(const DownpourRunnerOptions& options, const ParameterLayout* layout,
                               ParameterClient* client, ReplicaGroup* group,
                               std::unique_ptr<LocalUpdater> local, StatsCollector* stats,
                               SessionControl* control, const Clock* clock,
                               const DifferenceWeigher& weigher)
    : options_(options),
      client_(client),
      stats_(stats),
      control_(control),
      clock_(clock),
      keeps_memory_(group->device() != nullptr ||
                    (!group->own_parameters().empty() && layout->size() >= kLargeFloats)),
      calls_(client, stats, control, clock),
      statistics_(*layout,
                  {.values = !options.rounds && TensorCodec::CarriesStatistics(options.push_format),
                   .local_update = local != nullptr}),
      plan_({.overlapped = options.overlap == ASYNC,
             .landing_steps = options.landing_steps,
             .away_steps = options.away_steps,
             .fragments = options.fragments}),
      exchange_(
          MakeExchange(options, layout->size(), group, std::move(local), &statistics_, &plan_)),
      batches_(options, layout, group, &statistics_, stats),
      weigher_(weigher),
      ledger_(options.fragments.count()) {
  if (options_.overlap == ASYNC) {
    fetcher_ = std::make_unique<BackgroundCall<Fetched>>();
    pusher_ = std::make_unique<BackgroundCall<Pushed>>();
  }
}

DownpourRunner::~DownpourRunner() = default;

// ---- fetch -----------------------------------------------------------------

absl::Status DownpourRunner::AwaitShards() {
  std::optional<std::string> away = client_->away();
  if (away.has_value()) {
    if (plan_.GoesOnWithoutShard(batches_.size(), !parameters().empty())) {
      stats_->AddAwaySteps(batches_.size());
      return absl::OkStatus();
    }
    LOG(WARNING) << batches_.Where() << ": waits for " << *away;
    RETURN_IF_ERROR(calls_.AwaitShards(*std::move(away)));
  }
  plan_.AllShardsAreThere();
  return absl::OkStatus();
}

absl::Status DownpourRunner::TakeSettings() {
  if (!exchange_->begins()) {
    return absl::OkStatus();
  }
  const auto settings = control_->NewerSettings(options_.settings_revision);
  if (settings == nullptr) {
    return absl::OkStatus();
  }
  const Downpour& downpour = settings->downpour;
  RETURN_IF_ERROR(parameters().TakeRates(downpour));
  if (options_.exchange == ExchangeKind::kDifferences && downpour.local().has_inner()) {
    options_.turn_steps = std::max(1u, downpour.local().steps());
    exchange_->SetTurnSteps(options_.turn_steps);
    weigher_.SetSteps(options_.turn_steps);
  }
  if (bound_ != nullptr) {
    bound_->SetBound(downpour.staleness_bound());
  }
  options_.settings_revision = settings->revision;
  control_->TookSettings(options_.settings_revision);
  LOG(INFO) << batches_.Where() << ": trains with settings " << options_.settings_revision;
  return absl::OkStatus();
}

absl::StatusOr<bool> DownpourRunner::AwaitSlower() {
  if (bound_ == nullptr || !exchange_->drained()) {
    return false;
  }
  // Meanwhile a shard that is started anew gets what it has not of this replica.
  return bound_->Await(ledger_.last() + (in_flight_.has_value() ? 1 : 0), [this]() -> absl::Status {
    RETURN_IF_ERROR(LookAfterPushes());
    TakeAcknowledged();
    return TakeSettings();  // it may have to wait no more
  });
}

absl::Status DownpourRunner::PrepareParameters(bool anew) {
  if (fetcher_ == nullptr) {
    return plan_.IsDueInTurn(IsBoundary(), in_flight_.has_value())
               ? LandFetch(calls_.Fetch(parameters().free_back(), plan_.next()))
               : absl::OkStatus();
  }
  plan_.BeginRound(IsBoundary(), in_flight_.has_value());
  if (anew && plan_.due() && !client_->away().has_value()) {
    plan_.MustLand();  // what it has waited for is what the others have pushed meanwhile
  }
  if (plan_.IsLate(fetching(), !parameters().empty()) && !client_->away().has_value()) {
    plan_.MustLand();
  }
  // What was fetched while the last round was computed lands before the next fetch begins: both
  // use the back.
  if (!plan_.LandsLater()) {
    if (std::optional<Fetched> landed = fetcher_->TryTake()) {
      RETURN_IF_ERROR(LandFetch(*std::move(landed)));
    }
  }
  RETURN_IF_ERROR(StartFetch());
  while (parameters().empty() || plan_.must_land()) {
    if (exchange_->awaits_push()) {
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
  // The first fetch maps.
  if (plan_.due() && MayFetch() && !plan_.LandsLater() && !parameters().empty()) {
    std::optional<Fetched> mapped = calls_.FetchMapped(parameters().free_back());
    const bool landed = mapped.has_value();
    if (landed) {
      RETURN_IF_ERROR(LandFetch(*std::move(mapped)));
    }
    plan_.SetDue(!landed);
  }
  if (plan_.due() && MayFetch()) {
    BeginFetch(fetch_timer_.Delay());
  }
  return absl::OkStatus();
}

void DownpourRunner::BeginFetch(absl::Duration delay) {
  plan_.SetDue(false);
  // What all shards have now is in what this fetch brings.
  parameters().ForgetAcknowledged();
  fetcher_->Start([this, back = parameters().free_back(), delay, fragment = plan_.next()] {
    if (delay > absl::ZeroDuration()) {
      control_->Sleep(delay);
    }
    return calls_.Fetch(back, fragment);
  });
}

absl::Status DownpourRunner::LandFetch(Fetched fetched) {
  RETURN_IF_ERROR(fetched.status);
  stats_->AddFetch(fetched.stats, fetched.duration);
  fetch_timer_.NoteFetch(fetched.duration);
  if (batches_.wants_fetched() && !fetched.fragment.has_value()) {
    batches_.NoteFetched(parameters().back());
  }
  const bool keeps_steps = plan_.keeps_steps();
  if (!plan_.Land(fetched.fragment)) {
    return absl::OkStatus();  // the whole is to come
  }
  return exchange_->Land(
      {std::move(fetched.marks), fetched.fragment, keeps_steps, control_->replicas()});
}

// ---- compute ---------------------------------------------------------------

absl::StatusOr<absl::Duration> DownpourRunner::ComputeRound() {
  const std::span<float> gradient = exchange_->step_buffer();
  RETURN_IF_ERROR(batches_.Compute(gradient));
  parameters().Reclaim();
  RETURN_IF_ERROR(batches_.Judge(parameters().front()));
  ASSIGN_OR_RETURN(const bool some, batches_.Sum(gradient));
  if (!some) {
    RETURN_IF_ERROR(exchange_->EndUnusableRound(batches_.Where()));
    return absl::ZeroDuration();
  }
  const bool timed = exchange_->takes_steps();
  const absl::Duration begin = timed ? clock_->Now() : absl::ZeroDuration();
  RETURN_IF_ERROR(parameters().Step(gradient));
  const absl::Duration stepping = timed ? clock_->Now() - begin : absl::ZeroDuration();
  // After the local update has read the gradient, which this may make values of.
  statistics_.TakeStep(parameters().mutable_front(), gradient);
  exchange_->EndRound(batches_.absent());
  return stepping;
}

absl::StatusOr<StepResult> DownpourRunner::Step() {
  const absl::Duration begin = clock_->Now();
  RETURN_IF_ERROR(CollectPush(/*wait=*/false));
  RETURN_IF_ERROR(TakeSettings());
  RETURN_IF_ERROR(AwaitShards());
  ASSIGN_OR_RETURN(const bool waited, AwaitSlower());
  RETURN_IF_ERROR(PrepareParameters(/*anew=*/waited));
  exchange_->BeginRound(ledger_.next() + (in_flight_.has_value() ? 1 : 0), control_->local_steps());
  const absl::Duration computes = clock_->Now();
  ASSIGN_OR_RETURN(const absl::Duration stepping, ComputeRound());
  fetch_timer_.NoteCompute(clock_->Now() - computes);
  for (const DonePart& part : batches_.ending()) {
    exchange_->FinishPart(part);
  }
  batches_.End(&weigher_);
  rows_.EndStep(batches_.dropped(0));
  plan_.EndRound();
  fetch_timer_.NoteStep(clock_->Now() - begin);
  if (exchange_->full()) {
    RETURN_IF_ERROR(PushAccumulation());
  }
  return batches_.Count(clock_->Now() - begin, stepping);
}

absl::Status DownpourRunner::Advance() {
  if (pusher_ == nullptr || !plan_.begins_in_rounds() || came_early_.has_value()) {
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
  if (plan_.due() && MayFetch() && !parameters().empty() && !client_->away().has_value()) {
    BeginFetch(absl::ZeroDuration());  // it has waited for the push
  }
  return absl::OkStatus();
}

// ---- push ------------------------------------------------------------------

Pushed DownpourRunner::Push(const Accumulation& accumulation, std::span<float> back) {
  const absl::Duration begin = clock_->Now();
  if (const absl::Status there = accumulation.Await(); !there.ok()) {
    return Pushed{OfDevice(options_.worker, there), {}, {}};
  }
  // The norm is of the sum that leaves, without statistics, which are a mean.
  ClipGradientNorm(accumulation.gradient, options_.clip_norm, statistics_.parts());
  statistics_.MeanOfPush(accumulation.gradient, accumulation.steps);
  const SharedBuffer owner = keeps_memory_ ? accumulation.memory : nullptr;
  GradientView gradient = accumulation.encoded.empty()
                              ? GradientView(accumulation.gradient, owner)
                              : GradientView::Encoded(accumulation.encoded, owner);
  gradient.weight = accumulation.weight;
  gradient.part = accumulation.part;
  gradient.patience = accumulation.patience;
  gradient.absent = accumulation.absent;
  const std::vector<RowGradient> rows =
      accumulation.rows == nullptr ? std::vector<RowGradient>() : accumulation.rows->View();
  gradient.rows = rows;
  Pushed pushed = calls_.Push(gradient, *accumulation.base, back, begin);
  if (bound_ != nullptr && pushed.result.ok()) {
    bound_->Acknowledged(std::min(pushed.result->sequence, client_->acknowledged()));
  }
  return pushed;
}

absl::Status DownpourRunner::PushAccumulation(bool lands) {
  // Each of these is where it is because of the one before it. A program's statistics are those
  // of the steps that leave, and what lands below is not of them.
  statistics_.KeepForPush(parameters().front());
  // One push is in flight at a time, and its end says what this one's sequence is, whether its
  // steps are given up, and what lands now.
  RETURN_IF_ERROR(CollectPush(/*wait=*/true));
  const uint64_t sequence = ledger_.next();
  for (bool fetches = plan_.due() || fetching();
       lands && exchange_->LandsBefore(sequence, fetches) && !client_->away().has_value();
       fetches = false) {
    plan_.MustLand();
    RETURN_IF_ERROR(PrepareParameters());
  }
  MONSOON_FAIL_POINT("worker.before_push");
  absl::StatusOr<Accumulation> sealed = exchange_->Seal(sequence);
  RETURN_IF_ERROR(OfDevice(options_.worker, sealed.status()));
  in_flight_ = *std::move(sealed);
  const DifferenceWeigher::Counted counted = weigher_.Take(options_.fragments.OfPush(sequence));
  in_flight_->weight = counted.weight;
  in_flight_->part *= counted.part;
  in_flight_->patience = Patience();
  in_flight_->rows = rows_.Take();
  plan_.Push();
  if (pusher_ == nullptr) {
    return FinishPush(Push(*in_flight_, {}));
  }
  // Now that nothing is left of the steps, the boundary after them may be here.
  const bool brings = plan_.MayComeWithPush(IsBoundary(), fetching()) && !parameters().empty() &&
                      client_->combines();
  if (brings) {
    plan_.ComeWithPush();
  }
  pusher_->Start([this, accumulation = *in_flight_,
                  back = brings ? parameters().free_back() : std::span<float>()] {
    return Push(accumulation, back);
  });
  return absl::OkStatus();
}

absl::Duration DownpourRunner::Patience() const {
  if (pusher_ == nullptr) {
    return absl::ZeroDuration();  // it waits at once
  }
  // What lands as soon as it is there is waited for by the next push.
  return fetch_timer_.Patience(options_.landing_steps > 0
                                   ? options_.landing_steps
                                   : options_.turn_steps / options_.fragments.count());
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
  plan_.EndPush(/*brought=*/pushed.fetched.has_value());
  const uint64_t sequence = ledger_.next();
  std::string refusal;
  if (pushed.result.ok()) {
    CHECK_EQ(pushed.result->sequence, sequence);
    MONSOON_FAIL_POINT("worker.pushed");
    ledger_.Sent();
    stats_->AddPush(*pushed.result, pushed.duration);
    fetch_timer_.NotePush(pushed.duration);
    if (pushed.result->refused_invalid > 0) {
      refusal = pushed.result->first_refusal;
    }
  } else if (absl::IsInvalidArgument(pushed.result.status())) {
    stats_->AddRefused();
    refusal = std::string(pushed.result.status().message());
  } else {
    return pushed.result.status();
  }
  // What came with the acknowledgement has this push, so that it lands before the push is one
  // that has not landed, and before what the shards have is forgotten.
  if (pushed.fetched.has_value()) {
    RETURN_IF_ERROR(LandFetch(*std::move(pushed.fetched)));
  }
  plan_.NotePushed(sequence);
  ledger_.Over(sequence, /*refused=*/!refusal.empty(), accumulation.parts);
  TakeAcknowledged();
  if (!refusal.empty()) {
    exchange_->Refuse(sequence);
    return batches_.Refused(refusal, accumulation.gradient);
  }
  batches_.Accepted();
  return absl::OkStatus();
}

void DownpourRunner::TakeAcknowledged() {
  if (bound_ != nullptr) {
    // What a shard that was away has got by now, too.
    bound_->Acknowledged(std::min(ledger_.last(), client_->acknowledged()));
  }
  const std::vector<uint64_t> news = ledger_.Acknowledge(client_->acknowledged());
  for (const uint64_t sequence : news) {
    parameters().Acknowledge(sequence);
  }
  // A fetch in flight may have begun before the shards had them.
  if (!news.empty() && !fetching()) {
    parameters().ForgetAcknowledged();
  }
}

absl::Status DownpourRunner::Flush() {
  uint32_t pushes = 0;
  for (; !exchange_->drained(); ++pushes) {
    RETURN_IF_ERROR(PushAccumulation(/*lands=*/pushes == 0));
  }
  if (pushes > 1) {
    plan_.FetchWhole();  // no fragment but the last one would be fetched
  }
  RETURN_IF_ERROR(CollectPush(/*wait=*/true));
  RETURN_IF_ERROR(calls_.AwaitAcknowledged(ledger_.last()));
  TakeAcknowledged();
  ledger_.FinishAll(exchange_->TakeParts());
  return absl::OkStatus();
}

absl::Status DownpourRunner::Settle() {
  if (const absl::Status collected = CollectPush(/*wait=*/true);
      !collected.ok() && !IsProgramDivergedError(collected)) {
    return collected;
  }
  RETURN_IF_ERROR(calls_.AwaitAcknowledged(ledger_.last()));
  TakeAcknowledged();
  return absl::OkStatus();
}

absl::Status DownpourRunner::Idle() {
  if (bound_ != nullptr) {
    bound_->Rest();
  }
  if (options_.rounds) {
    RETURN_IF_ERROR(Flush());
    return calls_.Pass();
  }
  if (!client_->away().has_value()) {
    return absl::OkStatus();
  }
  return LookAfterPushes();
}

absl::Status DownpourRunner::LookAfterPushes() {
  RETURN_IF_ERROR(CollectPush(/*wait=*/false));
  // A push that is under way looks for shards itself.
  return in_flight_.has_value() || !client_->away().has_value() ? absl::OkStatus()
                                                                : calls_.LookForShards();
}

std::vector<DonePart> DownpourRunner::TakeDone() {
  TakeAcknowledged();
  return ledger_.TakeDone();
}

}  // namespace monsoon
