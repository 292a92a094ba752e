// ShardJob: what a checkpoint holds of it, and how it is made again from that.

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {

StripeRecord ShardJob::CutStripe(uint32_t stripe, std::span<float> parameters,
                                 std::span<float> state) const {
  return stripes_[stripe]->Cut(parameters, state);
}

void ShardJob::NoteWritten(std::span<const StripeRecord> cuts) {
  CHECK_EQ(cuts.size(), stripes_.size());
  for (size_t i = 0; i < cuts.size(); ++i) {
    stripes_[i]->NoteWritten(cuts[i]);
  }
  // The cut of the first of them may be older than the close.
  constexpr int kHoldTheClose = 3;
  MutexLock lock(&sessions_mutex_);
  for (MarkedClose& close : marked_closes_) {
    ++close.generations;
  }
  ForgetMarks([](const MarkedClose& close) { return close.generations >= kHoldTheClose; });
}

ShardCheckpoint ShardJob::CutJob() const {
  ShardCheckpoint cut;
  *cut.mutable_create() = request_;
  cut.set_shard_epoch(facts_.shard_epoch);
  cut.set_parent_epoch(parent_.shard_epoch);
  cut.set_parent_generation(parent_.generation);
  cut.set_state_slots(static_cast<uint32_t>(state_slots()));
  {
    MutexLock lock(&sessions_mutex_);
    for (const auto& [worker, closed] : sessions_.closed()) {
      ClosedSession* const session = cut.add_closed();
      session->set_worker(worker);
      session->set_incarnation(closed.incarnation);
      session->set_applied(closed.applied);
    }
  }
  cut.set_applied(applied_.load());
  cut.set_duplicates(duplicates_.load());
  cut.set_refused(refused_.load());
  for (const auto& [staleness, count] : staleness_.known()) {
    StalenessCount* const counted = cut.add_staleness();
    counted->set_staleness(staleness);
    counted->set_count(count);
  }
  cut.set_staleness_unknown(staleness_.unknown());
  return cut;
}

std::span<float> ShardJob::RestoredParameters(uint64_t at) {
  const uint64_t floats = facts_.map.stripe_floats();
  return stripes_[at / floats]->MutableFloats().parameters.subspan(at % floats);
}

std::span<float> ShardJob::RestoredState(size_t slot, uint64_t at) {
  CHECK_LT(slot, static_cast<size_t>(state_slots()));
  const uint64_t floats = facts_.map.stripe_floats();
  Stripe* const stripe = stripes_[at / floats].get();
  return stripe->MutableFloats()
      .state.subspan(slot * stripe->size(), stripe->size())
      .subspan(at % floats);
}

void ShardJob::Clear() {
  if (tables_ != nullptr) {
    tables_->Clear();
  }
  for (const auto& stripe : stripes_) {
    stripe->Clear();
  }
}

absl::Status ShardJob::Restore(const ShardCheckpoint& content, const ShardCheckpoint* older,
                               std::span<const SessionId> open) {
  RETURN_IF_ERROR(CheckRestorable(content));
  if (older != nullptr) {
    RETURN_IF_ERROR(CheckRestorable(*older));
  }
  MutexLock lock(&sessions_mutex_);
  writing_.Restore();
  readable_ = writing_.readable();
  for (const ClosedSession& closed : content.closed()) {
    RETURN_IF_ERROR(ReserveSessionRecord(closed.worker()));
    sessions_.RecordClose({closed.worker(), closed.incarnation()}, closed.applied());
  }
  RETURN_IF_ERROR(CloseOthers(content, open));
  if (!sessions_.closed().empty()) {
    sessions_.NoteEarlierSessions();
  }
  // Some may have been opened while the stripes were cut, so that only the last of them
  // have it, or after that: what the others have of it is nothing.
  for (const SessionId& session : open) {
    RETURN_IF_ERROR(Reopen(session));
  }
  for (int i = 0; i < content.stripe_size(); ++i) {
    const StripeRecord& stripe = content.stripe(i);
    stripes_[static_cast<size_t>(i)]->Restore(stripe,
                                              older == nullptr ? nullptr : &older->stripe(i));
    RETURN_IF_ERROR(vectors_.RestoreMaxima(
        static_cast<uint32_t>(i),
        std::span(stripe.maximum().data(), static_cast<size_t>(stripe.maximum_size()))));
  }
  if (tables_ != nullptr) {
    tables_->Restore(content, older, open);
  }
  applied_ = content.applied();
  duplicates_ = content.duplicates();
  refused_ = content.refused();
  for (const StalenessCount& counted : content.staleness()) {
    staleness_.AddMany(counted.staleness(), counted.count());
  }
  staleness_.AddUnknown(content.staleness_unknown());
  parent_ = {content.shard_epoch(), content.generation()};
  return absl::OkStatus();
}

absl::Status ShardJob::CheckRestorable(const ShardCheckpoint& content) const {
  if (content.stripe_size() != static_cast<int>(stripes_.size()) ||
      content.state_slots() != static_cast<uint32_t>(state_slots())) {
    return absl::DataLossError(absl::StrCat(
        "generation ", content.generation(), " holds ", content.stripe_size(), " stripes and ",
        content.state_slots(), " floats of optimizer state for each parameter; ", stripes_.size(),
        " and ", state_slots(), " are needed"));
  }
  for (const StripeRecord& stripe : content.stripe()) {
    if (stripe.public_version() > stripe.version()) {
      return absl::DataLossError(
          absl::StrCat("generation ", content.generation(), " has a public copy of version ",
                       stripe.public_version(), " where the parameters are of ", stripe.version()));
    }
    const bool good = std::ranges::all_of(stripe.member(), [](const RoundMember& member) {
      return member.weight() > 0 && std::isfinite(member.weight()) && member.pushes() > 0 &&
             member.pushes() <= Round::kMostPushes && member.first() > 0;
    });
    if (!good || (stripe.member_size() > 0 && !request_.has_rounds())) {
      return absl::DataLossError(absl::StrCat("generation ", content.generation(),
                                              " has members of a round that cannot be"));
    }
  }
  for (int i = 0; i < content.stripe_size(); ++i) {
    const int maxima = content.stripe(i).maximum_size();
    const size_t lines = vectors_.lines(static_cast<uint32_t>(i));
    if (maxima > 0 && static_cast<size_t>(maxima) != lines) {
      return absl::DataLossError(absl::StrCat("generation ", content.generation(), ": stripe ", i,
                                              " has ", maxima, " largest values; ", lines,
                                              " are needed"));
    }
  }
  return absl::OkStatus();
}

absl::Status ShardJob::CloseOthers(const ShardCheckpoint& content,
                                   std::span<const SessionId> open) {
  std::map<SessionId, uint64_t> applied;  // of those to close
  for (const StripeRecord& stripe : content.stripe()) {
    for (const SessionWindowRecord& window : stripe.session()) {
      const SessionId session{window.worker(), window.incarnation()};
      if (!std::ranges::binary_search(open, session)) {
        applied[session] += window.applied();
      }
    }
  }
  for (const auto& [session, records] : applied) {
    if (!sessions_.ClosedApplied(session).has_value()) {
      RETURN_IF_ERROR(ReserveSessionRecord(session.worker));
      sessions_.RecordClose(session, records);
    }
  }
  return absl::OkStatus();
}

absl::Status ShardJob::Reopen(SessionId session) {
  if (sessions_.IsOpen(session)) {
    return absl::OkStatus();
  }
  if (!sessions_.PlanOpen(session).ok()) {
    return absl::OkStatus();  // closed, or overtaken, while the stripes were cut
  }
  return OpenEverywhere(session);
}

}  // namespace monsoon
