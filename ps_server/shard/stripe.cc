#include "ps_server/shard/stripe.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {

Stripe::Stripe(size_t floats, const OptimizerKernel* kernel, uint64_t epoch)
    : size_(floats),
      kernel_(kernel),
      epoch_(epoch),
      parameters_(floats),
      state_(floats * static_cast<size_t>(kernel->state_slots())) {
  std::ranges::fill(state_.span(), kernel->initial_state());
}

int64_t Stripe::StalenessOf(const Push& push) const {
  // A base from the future is a broken sender's; never a negative sample.
  if (push.base_epoch != epoch_ || push.base_version > statistics_.version) {
    return -1;
  }
  return static_cast<int64_t>(statistics_.version - push.base_version);
}

PushVerdict Stripe::Apply(Push push) {
  PushVerdict verdict;
  verdict.set_staleness(-1);
  MutexLock lock(&mutex_);
  verdict.set_version(statistics_.version);
  const auto found = windows_.find(push.session);
  if (found == windows_.end()) {
    verdict.set_verdict(REFUSED_SESSION);
    verdict.set_message(absl::StrCat("the session of worker/", push.session.worker, "#",
                                     push.session.incarnation, " is not open"));
    return verdict;
  }
  SessionWindow& window = found->second;
  switch (window.Locate(push.sequence)) {
    case SessionWindow::Place::kGap:
      verdict.set_verdict(REFUSED_GAP);
      verdict.set_expected_sequence(window.last() + 1);
      verdict.set_message(absl::StrCat("sequence ", push.sequence, " came where ",
                                       window.last() + 1, " was expected"));
      return verdict;
    case SessionWindow::Place::kSeen:
      verdict.set_verdict(DUPLICATE);
      return verdict;
    case SessionWindow::Place::kRefused:
      verdict.set_verdict(REFUSED_INVALID);
      verdict.set_message(window.refusal(push.sequence));
      return verdict;
    case SessionWindow::Place::kNext:
      break;
  }
  if (push.invalid.has_value()) {
    verdict.set_verdict(REFUSED_INVALID);
    verdict.set_message(*push.invalid);
    window.RecordRefused(push.sequence, *std::move(push.invalid));
    return verdict;
  }
  verdict.set_staleness(StalenessOf(push));
  if (verdict.staleness() >= 0) {
    ++statistics_.staleness[static_cast<uint64_t>(verdict.staleness())];
  } else {
    ++statistics_.staleness_unknown;
  }
  kernel_->Apply(statistics_.version, parameters_.span(), state_.span(), push.gradient);
  window.RecordApplied(push.sequence);
  verdict.set_version(++statistics_.version);
  verdict.set_verdict(APPLIED);
  return verdict;
}

std::optional<FetchRecord> Stripe::Copy(std::optional<SessionId> session,
                                        std::span<float> out) const {
  CHECK_EQ(out.size(), size_);
  FetchRecord record;
  record.set_length(static_cast<uint32_t>(size_ * sizeof(float)));
  MutexLock lock(&mutex_);
  if (session.has_value()) {
    const auto window = windows_.find(*session);
    if (window == windows_.end()) {
      return std::nullopt;
    }
    record.set_applied_sequence(window->second.last());
  }
  std::memcpy(out.data(), parameters_.data(), size_ * sizeof(float));
  record.set_version(statistics_.version);
  return record;
}

void Stripe::Write(std::span<const float> parameters) {
  CHECK_EQ(parameters.size(), size_);
  MutexLock lock(&mutex_);
  std::memcpy(parameters_.data(), parameters.data(), size_ * sizeof(float));
}

void Stripe::OpenSession(SessionId session) {
  MutexLock lock(&mutex_);
  windows_.try_emplace(session);
}

bool Stripe::HasSession(SessionId session) const {
  MutexLock lock(&mutex_);
  return windows_.contains(session);
}

uint64_t Stripe::CloseSession(SessionId session) {
  MutexLock lock(&mutex_);
  const auto window = windows_.find(session);
  if (window == windows_.end()) {
    return 0;
  }
  const uint64_t applied = window->second.applied();
  windows_.erase(window);
  return applied;
}

Stripe::Statistics Stripe::statistics() const {
  MutexLock lock(&mutex_);
  return statistics_;
}

std::string Stripe::Snapshot() const {
  MutexLock lock(&mutex_);
  std::string bytes;
  for (const AlignedFloats* block : {&parameters_, &state_}) {
    bytes.append(reinterpret_cast<const char*>(block->data()), block->size() * sizeof(float));
  }
  return bytes;
}

}  // namespace monsoon
