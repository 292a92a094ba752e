#include "worker/downpour/shard_calls.h"

#include <utility>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/session/work_source.h"

namespace monsoon {
namespace {

// Between two tries of a call that a shard did not answer.
constexpr absl::Duration kRetryPause = absl::Milliseconds(20);

}  // namespace

bool ShardCalls::MayRetry(const absl::Status& status) {
  return IsTransient(status) && !absl::IsCancelled(status);
}

void ShardCalls::PauseBeforeRetry(const char* call, const absl::Status& status, bool waits) {
  if (waits) {
    stats_->SetWaitsFor(status.message());
  } else {
    LOG(WARNING) << call << ": " << std::string(status.message()) << "; trying again";
    stats_->AddRetry(status.message());
  }
  control_->Sleep(kRetryPause);
}

Fetched ShardCalls::Fetch(std::span<float> out, std::optional<uint32_t> fragment) {
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

std::optional<Fetched> ShardCalls::FetchMapped(std::span<float> out) {
  const absl::Duration begin = clock_->Now();
  auto marks = std::make_shared<FetchMarks>();
  Fetched fetched;
  if (!client_->FetchMapped(out, marks.get(), &fetched.stats)) {
    return std::nullopt;
  }
  fetched.marks = std::move(marks);
  fetched.duration = clock_->Now() - begin;
  return fetched;
}

Pushed ShardCalls::Push(const GradientView& gradient, const FetchMarks& base, std::span<float> back,
                        absl::Duration begin) {
  while (true) {
    auto marks = back.empty() ? nullptr : std::make_shared<FetchMarks>();
    Fetched fetched;
    bool came = false;
    Pushed pushed{back.empty() ? client_->Push(gradient, base)
                               : client_->PushAndFetch(gradient, base, back, marks.get(),
                                                       &fetched.stats, &came),
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

absl::Status ShardCalls::FetchRows(std::span<const RowRequest> wanted) {
  while (true) {
    FetchStats fetch;
    const absl::Status status = client_->FetchRows(wanted, &fetch);
    if (status.ok()) {
      stats_->AddRows(fetch);
      return status;
    }
    if (!MayRetry(status)) {
      return status;
    }
    if (stopped()) {
      return absl::CancelledError("session ends while rows are fetched");
    }
    PauseBeforeRetry("rows", status, client_->away().has_value());
  }
}

absl::Status ShardCalls::Pass() {
  const absl::Status passed = client_->Pass();
  return MayRetry(passed) ? absl::OkStatus() : passed;
}

absl::Status ShardCalls::BringBack(const std::string& what) {
  stats_->SetWaitsFor(what);
  return client_->BringBack(kWaitSlice);
}

absl::Status ShardCalls::AwaitShards(std::optional<std::string> away) {
  for (; away.has_value(); away = client_->away()) {
    if (stopped()) {
      return absl::CancelledError("session ends while a shard is away");
    }
    RETURN_IF_ERROR(BringBack(*away));
  }
  return absl::OkStatus();
}

absl::Status ShardCalls::AwaitAcknowledged(uint64_t sequence) {
  while (client_->away().has_value() || client_->acknowledged() < sequence) {
    if (stopped()) {
      return absl::CancelledError("session ends while a shard is away");
    }
    RETURN_IF_ERROR(BringBack(client_->away().value_or("acknowledgements")));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
