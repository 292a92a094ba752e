// Stripe: what checkpoints hold of it.
#include <algorithm>
#include <map>

#include "common/base/check.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

// The last sequence of each session that a cut holds; none of null.
std::map<SessionId, uint64_t> LastOf(const StripeRecord* cut) {
  std::map<SessionId, uint64_t> last;
  if (cut != nullptr) {
    for (const SessionWindowRecord& window : cut->session()) {
      last[{window.worker(), window.incarnation()}] = window.last();
    }
  }
  return last;
}

}  // namespace

void Stripe::Restore(const StripeRecord& cut, const StripeRecord* older) {
  const std::map<SessionId, uint64_t> before = LastOf(older);
  MutexLock lock(&mutex_);
  RestoreSessions(cut, before);
  absent_->Restore(cut);
  if (public_.has_value()) {
    public_->Restore(cut.public_version());
  }
  if (round_.has_value()) {
    round_->Restore(cut);
    CloseRoundIfOver();  // those that it waited for may be gone
  }
}

void Stripe::RestoreSessions(const StripeRecord& cut, const std::map<SessionId, uint64_t>& before) {
  const StripeWriteScope write(header_);
  version_ = cut.version();
  rules_.Reach(version_);
  for (const SessionWindowRecord& record : cut.session()) {
    const SessionId id{record.worker(), record.incarnation()};
    const auto open = windows_.find(id);
    if (open == windows_.end()) {
      continue;
    }
    Session& session = open->second;
    session.window = SessionWindow(record.last(), record.applied(), record.dropped());
    for (const SessionWindowRecord::Refusal& refusal : record.refusal()) {
      session.window.Remember(refusal.sequence(), refusal.message());
    }
    session.written = record.last();
    // A generation of another lineage may hold more than the one that came after it.
    const auto held = before.find(id);
    session.durable = held == before.end() ? 0 : std::min(held->second, session.written);
    ShareMarks(session);
  }
  header_->version.store(version_, std::memory_order_relaxed);
}

void Stripe::TakeAbsent(const StripeRecord& cut) {
  MutexLock lock(&mutex_);
  absent_->Restore(cut);
}

StripeRecord Stripe::Cut(std::span<float> parameters, std::span<float> state) const {
  CHECK_EQ(parameters.size(), size_);
  StripeRecord record;
  MutexLock lock(&mutex_);
  CHECK_EQ(state.size(), state_.size());
  std::ranges::copy(parameters_, parameters.begin());
  std::ranges::copy(state_.span(), state.begin());
  if (public_.has_value()) {
    record.set_public_version(public_->Cut(parameters_, version_, state.last(size_)));
  }
  if (round_.has_value()) {
    const std::span<float> sum =
        state.subspan(StateFloats(rules_.kernel(), size_), Round::kSlots * size_);
    round_->Split(sum.first(size_), sum.last(size_));
    round_->AddMembersTo(&record);
  }
  record.set_version(version_);
  absent_->AddTo(&record);
  for (const auto& [id, session] : windows_) {
    SessionWindowRecord* const window = record.add_session();
    window->set_worker(id.worker);
    window->set_incarnation(id.incarnation);
    window->set_last(session.window.last());
    window->set_applied(session.window.applied());
    window->set_dropped(session.window.dropped());
    for (const auto& [sequence, message] : session.window.refusals()) {
      SessionWindowRecord::Refusal* const refusal = window->add_refusal();
      refusal->set_sequence(sequence);
      refusal->set_message(message);
    }
  }
  for (const auto& [id, closed] : closed_) {
    SessionWindowRecord* const window = record.add_session();
    window->set_worker(id.worker);
    window->set_incarnation(id.incarnation);
    window->set_last(closed.last());
    window->set_applied(closed.applied());
  }
  return record;
}

void Stripe::NoteWritten(const StripeRecord& cut) {
  const std::map<SessionId, uint64_t> held = LastOf(&cut);
  MutexLock lock(&mutex_);
  for (auto& [id, session] : windows_) {
    session.durable = session.written;
    const auto found = held.find(id);
    session.written = found == held.end() ? 0 : found->second;
  }
}

}  // namespace monsoon
