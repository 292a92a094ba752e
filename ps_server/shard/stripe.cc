#include "ps_server/shard/stripe.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "ps_server/shard/validation.h"

namespace monsoon {
namespace {

// Of one session.
constexpr uint64_t kMostRefusalBytes =
    SessionWindow::kRememberedRefusals * RefusalBytes(kMaxVerdictMessage);

// One of unknown staleness is not.
bool IsTooOld(int64_t staleness, uint32_t most) {
  return most != Stripe::kAnyStaleness && staleness > static_cast<int64_t>(most);
}

// False: the verdict on another one than the next is told.
bool IsNext(const SessionWindow& window, uint64_t sequence, PushVerdict* verdict) {
  switch (window.Locate(sequence)) {
    case SessionWindow::Place::kGap:
      verdict->set_verdict(REFUSED_GAP);
      verdict->set_expected_sequence(window.last() + 1);
      verdict->set_message(
          absl::StrCat("sequence ", sequence, " came where ", window.last() + 1, " was expected"));
      return false;
    case SessionWindow::Place::kSeen:
      verdict->set_verdict(DUPLICATE);
      return false;
    case SessionWindow::Place::kRefused:
      verdict->set_verdict(REFUSED_INVALID);
      verdict->set_message(window.refusal(sequence));
      return false;
    case SessionWindow::Place::kDropped:
      verdict->set_verdict(DROPPED);
      return false;
    case SessionWindow::Place::kNext:
      break;
  }
  return true;
}

}  // namespace

Stripe::Stripe(SharedSlice* slice, uint32_t index, const OptimizerKernel* kernel,
               uint64_t shard_epoch)
    : Stripe(slice, index, kernel, shard_epoch,
             AlignedFloats(StateFloats(*kernel, slice->stripe(index).size())), Options()) {}

Stripe::Stripe(SharedSlice* slice, uint32_t index, const OptimizerKernel* kernel,
               uint64_t shard_epoch, AlignedFloats state, const Options& options,
               std::vector<TensorSlice> tensors)
    : size_(slice->stripe(index).size()),
      shard_epoch_(shard_epoch),
      rules_(kernel, options.damping, options.most_stale, options.rounds.value_or(RoundRule())),
      parameters_(slice->stripe(index)),
      header_(slice->header(index)),
      state_(std::move(state)),
      absent_(std::make_unique<AbsentTensors>(std::move(tensors))) {
  // With its place in a round.
  static_assert(2 * sizeof(SessionId) + sizeof(Session) + sizeof(Round::Member) +
                    2 * (4 * sizeof(void*) + 16) <=
                kSessionStripeBytes);
  const StateBehind behind{options.rounds.has_value(), options.changes != FLOAT32};
  CHECK_EQ(state_.size(), StateFloats(*kernel, size_, behind));
  InitializeState();
  if (behind.public_copy) {
    public_.emplace(options.changes, state_.span().last(size_));
  }
  if (behind.round) {
    const std::span<float> sum = state_.span().subspan(kernel_state().size());
    static_assert(Round::kSlots * sizeof(float) == sizeof(int64_t));
    CHECK_EQ(reinterpret_cast<uintptr_t>(sum.data()) % alignof(int64_t), 0u);
    round_.emplace(std::span(reinterpret_cast<int64_t*>(sum.data()), size_));
  }
}

void Stripe::InitializeState() {
  std::ranges::fill(kernel_state(), rules_.kernel().initial_state());
  std::ranges::fill(state_.span().subspan(kernel_state().size()), 0.0f);  // a round's sum
  absent_->Clear();
  if (public_.has_value()) {
    public_->Forget();  // nobody may take steps from what it has told of them
  }
}

void Stripe::Clear() {
  MutexLock lock(&mutex_);
  std::ranges::fill(parameters_, 0.0f);
  InitializeState();
}

int64_t Stripe::StalenessOf(const Push& push) const {
  // A base from the future is a broken sender's; never a negative sample.
  if (push.base_shard_epoch != shard_epoch_ || push.base_version > version_) {
    return -1;
  }
  return static_cast<int64_t>(version_ - push.base_version);
}

PushVerdict Stripe::Apply(Push push) {
  PushVerdict verdict;
  verdict.set_staleness(-1);
  MutexLock lock(&mutex_);
  CloseRoundIfOver();  // which this push comes too late for
  verdict.set_version(version_);
  const auto found = windows_.find(push.session);
  if (found == windows_.end()) {
    verdict.set_verdict(REFUSED_SESSION);
    verdict.set_message(absl::StrCat("the session of worker/", push.session.worker, "#",
                                     push.session.incarnation, " is not open"));
    return verdict;
  }
  verdict.set_durable_sequence(found->second.durable);
  SessionWindow& window = found->second.window;
  if (!IsNext(window, push.sequence, &verdict)) {
    return verdict;
  }
  Session& session = found->second;
  if (IsOfLaterRound(push)) {
    verdict.set_verdict(REFUSED_BUSY);
    verdict.set_message(absl::StrCat("round ", version_ + 1, " has a difference of worker/",
                                     push.session.worker, " that came again, and is open"));
    return verdict;
  }
  if (push.invalid.has_value()) {
    std::string why = *std::move(push.invalid);
    return Refuse(&session, &push, std::move(why), std::move(verdict));
  }
  const int64_t staleness = StalenessOf(push);
  if (push.dropped || IsTooOld(staleness, rules_.most_stale())) {
    window.RecordDropped(push.sequence);
    const StripeWriteScope write(header_);
    ShareMarks(session);
    verdict.set_verdict(DROPPED);
    return verdict;
  }
  const double damping = DampingFactor(rules_.damping(), staleness);
  if (!round_.has_value()) {
    MoveBy(push, staleness, damping, &session);
  } else {
    const absl::Status joined = JoinRound(push, damping);
    if (absl::IsResourceExhausted(joined)) {
      verdict.set_verdict(REFUSED_BUSY);
      verdict.set_message(std::string(joined.message()));
      return verdict;
    }
    if (!joined.ok()) {
      return Refuse(&session, &push, std::string(joined.message()), std::move(verdict));
    }
    session.passes = false;
    window.RecordApplied(push.sequence);
    {
      const StripeWriteScope write(header_);
      ShareMarks(session);
    }
    CloseRoundIfOver();
  }
  verdict.set_staleness(staleness);
  verdict.set_version(version_);
  verdict.set_verdict(APPLIED);
  return verdict;
}

PushVerdict Stripe::Refuse(Session* session, Push* push, std::string why, PushVerdict verdict) {
  verdict.set_verdict(REFUSED_INVALID);
  verdict.set_message(why);
  session->window.RecordRefused(push->sequence, std::move(why));
  if (session->refusal_memory.bytes() < kMostRefusalBytes) {
    session->refusal_memory.Add(std::move(push->refusal_memory));
  }  // else an older one made way
  const StripeWriteScope write(header_);
  ShareMarks(*session);
  return verdict;
}

void Stripe::MoveBy(const Push& push, int64_t staleness, double damping, Session* session) {
  const StripeWriteScope write(header_);
  // As many pushes as came since its base was fetched, and this one, count alike. One that was
  // under way for long, or whose base nobody knows, does not take statistics back to old values.
  const uint64_t count = staleness < 0 ? windows_.size() : static_cast<uint64_t>(staleness);
  const OptimizerKernel::PushTerms terms{.scale = static_cast<float>(damping * push.weight),
                                         .part = push.part,
                                         .share = 1.0f / static_cast<float>(count + 1),
                                         .values = push.statistic_values};
  if (push.absent.empty() && absent_->none()) {
    rules_.kernel().ApplyPush(version_, parameters_, kernel_state(), push.gradient, terms);
  } else {
    rules_.kernel().ApplyPushTo(absent_->PartsWithout(push.absent), version_, parameters_,
                                kernel_state(), push.gradient, terms);
    absent_->Count(push.absent);
  }
  AdvanceVersion();
  session->window.RecordApplied(push.sequence);
  ShareMarks(*session);
}

void Stripe::AdvanceVersion() {
  ++version_;
  header_->version.store(version_, std::memory_order_relaxed);
  rules_.Reach(version_);
}

uint64_t Stripe::ChangeRules(std::optional<StripeRules::Change> change, uint64_t from) {
  MutexLock lock(&mutex_);
  if (!change.has_value()) {
    rules_.HoldRounds();
    return version_;
  }
  from = rules_.Take(*std::move(change), from, version_);
  CloseRoundIfOver();  // it may have been kept from its end, or want fewer members now
  return from;
}

absl::Status Stripe::JoinRound(const Push& push, double damping) {
  return round_->Add({.session = push.session,
                      .sequence = push.sequence,
                      .weight = push.weight,
                      .damping = static_cast<float>(damping),
                      .part = push.part,
                      .patience = push.patience,
                      .difference = push.gradient},
                     parameters_, rules_.rounds().clock->Now(), rules_.rounds());
}

bool Stripe::IsOfLaterRound(const Push& push) const {
  return round_.has_value() && push.base_shard_epoch != 0 &&
         push.base_shard_epoch != shard_epoch_ && round_->members().contains(push.session);
}

bool Stripe::RoundIsOver() {
  if (!round_.has_value() || round_->empty() || rules_.rounds_are_held()) {
    return false;
  }
  mutex_.AssertHeld();
  const bool all_in = std::ranges::all_of(windows_, [this](const auto& open) {
    mutex_.AssertHeld();
    return open.second.passes || round_->members().contains(open.first);
  });
  return all_in || round_->HasQuorum(rules_.rounds(), rules_.rounds().clock->Now());
}

void Stripe::CloseRoundIfOver() {
  if (!RoundIsOver()) {
    return;
  }
  AlignedFloats mean = AlignedFloats::Uninitialized(size_);
  const float part = round_->Close(parameters_, mean.span());
  const StripeWriteScope write(header_);
  rules_.kernel().ApplyPush(version_, parameters_, kernel_state(), mean.span(),
                            {.part = part, .values = false});
  AdvanceVersion();
}

std::optional<std::vector<SessionId>> Stripe::AwaitedBy(SessionId session) {
  MutexLock lock(&mutex_);
  CloseRoundIfOver();
  if (!round_.has_value() || !round_->members().contains(session)) {
    return std::nullopt;
  }
  std::vector<SessionId> missing;
  for (const auto& [id, open] : windows_) {
    if (!open.passes && !round_->members().contains(id)) {
      missing.push_back(id);
    }
  }
  return missing;
}

void Stripe::Pass(std::optional<SessionId> session) {
  MutexLock lock(&mutex_);
  for (auto& [id, open] : windows_) {
    open.passes |= !session.has_value() || id == *session;
  }
  CloseRoundIfOver();
}

uint64_t Stripe::LandedOf(SessionId id, const Session& session) const {
  if (round_.has_value()) {
    if (const auto member = round_->members().find(id); member != round_->members().end()) {
      return member->second.first - 1;
    }
  }
  return session.window.last();
}

void Stripe::ShareMarks(const Session& session) {
  header_->version.store(version_, std::memory_order_relaxed);
  if (session.slot.ticket != 0) {
    header_->applied[session.slot.slot].store(session.window.last(), std::memory_order_relaxed);
  }
  // After a restore it may say more: what an earlier life had acknowledged.
  if (session.mark != nullptr &&
      session.window.last() > session.mark->load(std::memory_order_relaxed)) {
    session.mark->store(session.window.last(), std::memory_order_relaxed);
  }
}

std::optional<FetchRecord> Stripe::Copy(std::optional<SessionId> session, std::span<float> out,
                                        uint32_t slot) const {
  CHECK_EQ(out.size(), size_);
  FetchRecord record;
  record.set_length(static_cast<uint32_t>(size_ * sizeof(float)));
  MutexLock lock(&mutex_);
  CHECK(slot <= static_cast<uint32_t>(rules_.kernel().state_slots()));
  if (session.has_value()) {
    const auto found = windows_.find(*session);
    if (found == windows_.end()) {
      return std::nullopt;
    }
    record.set_applied_sequence(LandedOf(*session, found->second));
  }
  const float* const from =
      slot == 0 ? parameters_.data() : state_.data() + size_t{slot - 1} * size_;
  std::memcpy(out.data(), from, size_ * sizeof(float));
  record.set_version(version_);
  return record;
}

std::optional<FetchRecord> Stripe::CopyChanges(SessionId session, std::optional<uint64_t> known,
                                               std::span<std::byte> out) {
  CHECK_EQ(out.size(), size_ * sizeof(float));
  MutexLock lock(&mutex_);
  const auto found = windows_.find(session);
  if (found == windows_.end()) {
    return std::nullopt;
  }
  public_->Publish(parameters_, version_);
  FetchRecord record;
  record.set_applied_sequence(LandedOf(session, found->second));
  record.set_version(public_->version());
  const auto steps = known.has_value() ? public_->StepsFrom(*known) : std::nullopt;
  if (!steps.has_value()) {
    std::ranges::copy(std::as_bytes(public_->floats()), out.begin());
    record.set_length(static_cast<uint32_t>(out.size()));
    return record;
  }
  size_t length = 0;
  for (const std::span<const std::byte> step : *steps) {
    std::ranges::copy(step, out.subspan(length).begin());
    length += step.size();
  }
  record.set_changed(true);
  record.set_length(static_cast<uint32_t>(length));
  return record;
}

void Stripe::Write(std::span<const float> content, uint32_t slot) {
  CHECK_EQ(content.size(), size_);
  MutexLock lock(&mutex_);
  CHECK(slot <= static_cast<uint32_t>(rules_.kernel().state_slots()));
  if (slot > 0) {
    std::ranges::copy(content, state_.data() + size_t{slot - 1} * size_);
    return;
  }
  if (public_.has_value()) {
    public_->Forget();  // nobody may take steps from what it has told of them
  }
  const StripeWriteScope write(header_);
  std::memcpy(parameters_.data(), content.data(), size_ * sizeof(float));
}

void Stripe::Adopt(std::span<const std::span<const float>> slots, uint64_t version) {
  MutexLock lock(&mutex_);
  CHECK_EQ(slots.size(), 1 + static_cast<size_t>(rules_.kernel().state_slots()));
  if (public_.has_value()) {
    public_->Forget();  // nobody may take steps from what it has told of them
  }
  const StripeWriteScope write(header_);
  std::memcpy(parameters_.data(), slots[0].data(), size_ * sizeof(float));
  for (size_t slot = 1; slot < slots.size(); ++slot) {
    std::memcpy(state_.data() + (slot - 1) * size_, slots[slot].data(), size_ * sizeof(float));
  }
  version_ = std::max(version_, version);
  rules_.Reach(version_);
  header_->version.store(version_, std::memory_order_relaxed);
}

void Stripe::RaiseVersion(uint64_t version) {
  MutexLock lock(&mutex_);
  if (version > version_) {
    version_ = version;
    rules_.Reach(version_);
    if (public_.has_value()) {
      public_->Forget();  // nobody may take steps from what it has told of them
    }
    const StripeWriteScope write(header_);
    header_->version.store(version_, std::memory_order_relaxed);
  }
}

Stripe::Floats Stripe::MutableFloats() {
  MutexLock lock(&mutex_);
  return {parameters_, state_.span()};
}

std::optional<StripeMarks> Stripe::Marks(SessionId session) const {
  MutexLock lock(&mutex_);
  const auto found = windows_.find(session);
  if (found == windows_.end()) {
    return std::nullopt;
  }
  StripeMarks marks;
  marks.set_applied(found->second.window.last());
  marks.set_durable(found->second.durable);
  marks.set_written(found->second.written);
  return marks;
}

void Stripe::OpenSession(SessionId session, SessionSlot slot, std::atomic<uint64_t>* mark) {
  MutexLock lock(&mutex_);
  const auto [opened, is_new] = windows_.try_emplace(session);
  if (is_new) {
    opened->second.slot = slot;
    opened->second.mark = mark;
    // The slot may hold what an earlier session left.
    const StripeWriteScope write(header_);
    ShareMarks(opened->second);
  }
}

bool Stripe::HasSession(SessionId session) const {
  MutexLock lock(&mutex_);
  return windows_.contains(session);
}

uint64_t Stripe::AppliedBy(SessionId session) const {
  MutexLock lock(&mutex_);
  const auto window = windows_.find(session);
  return window == windows_.end() ? 0 : window->second.window.applied();
}

void Stripe::KeepClosed(SessionId session, uint64_t last) {
  MutexLock lock(&mutex_);
  closed_[session] = SessionWindow(last, last);
}

void Stripe::ForgetClosed(SessionId session) {
  MutexLock lock(&mutex_);
  closed_.erase(session);
}

bool Stripe::IsBehind(SessionId session) const {
  MutexLock lock(&mutex_);
  const auto found = windows_.find(session);
  return found != windows_.end() && found->second.mark != nullptr &&
         found->second.window.last() < found->second.mark->load(std::memory_order_relaxed);
}

Stripe::Closed Stripe::CloseSession(SessionId session, bool keep) {
  MutexLock lock(&mutex_);
  const auto found = windows_.find(session);
  if (found == windows_.end()) {
    return {};
  }
  const SessionWindow& window = found->second.window;
  const Closed closed{window.applied(), window.last()};
  if (keep) {
    closed_[session] = SessionWindow(closed.last, closed.applied);
  }
  windows_.erase(found);
  CloseRoundIfOver();
  return closed;
}

uint64_t Stripe::version() const {
  MutexLock lock(&mutex_);
  return version_;
}

std::string Stripe::Snapshot() const {
  MutexLock lock(&mutex_);
  std::string bytes;
  const AlignedFloats& state = state_;
  for (const std::span<const float> block : {std::span<const float>(parameters_), state.span()}) {
    bytes.append(reinterpret_cast<const char*>(block.data()), block.size_bytes());
  }
  return bytes;
}

}  // namespace monsoon
