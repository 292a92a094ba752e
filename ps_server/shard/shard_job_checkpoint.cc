// ShardJob: what a checkpoint holds of it, and how it is made again from that.

#include <utility>

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
}

ShardCheckpoint ShardJob::CutJob() const {
  ShardCheckpoint cut;
  *cut.mutable_create() = request_;
  cut.set_shard_epoch(facts_.shard_epoch);
  cut.set_parent_epoch(parent_.shard_epoch);
  cut.set_parent_generation(parent_.generation);
  cut.set_state_slots(static_cast<uint32_t>(kernel_->state_slots()));
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

absl::Status ShardJob::Restore(const ShardCheckpoint& content, std::span<const float> parameters,
                               std::span<const float> state) {
  RETURN_IF_ERROR(CheckRestorable(content, parameters.size(), state.size()));
  MutexLock lock(&sessions_mutex_);
  for (const ClosedSession& closed : content.closed()) {
    RETURN_IF_ERROR(ReserveSessionRecord(closed.worker()));
    sessions_.RecordClose({closed.worker(), closed.incarnation()}, closed.applied());
  }
  // A session may have been opened while the stripes were cut, so that only the last of
  // them have it: what the others have of it is nothing.
  for (const StripeRecord& stripe : content.stripe()) {
    for (const SessionWindowRecord& window : stripe.session()) {
      RETURN_IF_ERROR(Reopen({window.worker(), window.incarnation()}));
    }
  }
  size_t at = 0;
  for (size_t i = 0; i < stripes_.size(); ++i) {
    const size_t floats = stripes_[i]->size();
    stripes_[i]->Restore(parameters.subspan(at, floats),
                         state.subspan(at * static_cast<size_t>(state_slots()),
                                       floats * static_cast<size_t>(state_slots())),
                         content.stripe(static_cast<int>(i)));
    at += floats;
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

absl::Status ShardJob::CheckRestorable(const ShardCheckpoint& content, size_t parameters,
                                       size_t state) const {
  size_t floats = 0;
  for (const auto& stripe : stripes_) {
    floats += stripe->size();
  }
  const auto slots = static_cast<size_t>(state_slots());
  if (content.stripe_size() != static_cast<int>(stripes_.size()) || parameters != floats ||
      state != floats * slots || content.state_slots() != slots) {
    return absl::DataLossError(absl::StrCat(
        "generation ", content.generation(), " holds ", content.stripe_size(), " stripes, ",
        parameters, " parameters and ", state, " floats of optimizer state; ", stripes_.size(),
        ", ", floats, " and ", floats * slots, " are needed"));
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
