// TableSlice: what a checkpoint holds of it, and how it is made again from that.

#include <algorithm>
#include <map>
#include <numeric>

#include "common/base/check.h"
#include "common/base/status.h"
#include "ps_server/shard/table_slice.h"

namespace monsoon {
namespace {

std::map<SessionId, uint64_t> LastOf(const ShardCheckpoint& content) {
  std::map<SessionId, uint64_t> last;
  for (const SessionWindowRecord& session : content.row_session()) {
    last[{session.worker(), session.incarnation()}] = session.last();
  }
  return last;
}

}  // namespace

void TableSlice::CutSessions(ShardCheckpoint* cut) const {
  MutexLock lock(&sessions_mutex_);
  cut->clear_row_session();
  cut->set_rows_applied(rows_applied_);
  for (const auto& [id, session] : sessions_) {
    MutexLock session_lock(&session->mutex);
    SessionWindowRecord* const record = cut->add_row_session();
    record->set_worker(id.worker);
    record->set_incarnation(id.incarnation);
    record->set_last(session->last);
  }
}

TableSlice::Touched TableSlice::FindTouched() const {
  Touched touched;
  for (const OwnTable& table : own_) {
    std::vector<uint32_t>& stripes = touched.stripes.emplace_back();
    uint64_t& floats = touched.floats.emplace_back(0);
    for (uint32_t i = 0; i < table.stripes.size(); ++i) {
      if (table.stripes[i]->touched()) {
        stripes.push_back(i);
        floats += table.stripes[i]->floats();
      }
    }
  }
  return touched;
}

uint64_t TableSlice::TouchedFloats() const {
  const Touched touched = FindTouched();
  return std::accumulate(touched.floats.begin(), touched.floats.end(), uint64_t{0});
}

absl::Status TableSlice::CutStripes(
    const Touched& touched,
    absl::FunctionRef<absl::Status(RowStripeRecord, std::span<const float>)> take) const {
  AlignedFloats copy;
  for (size_t table = 0; table < own_.size(); ++table) {
    for (const uint32_t i : touched.stripes[table]) {
      const RowStripe& stripe = *own_[table].stripes[i];
      if (copy.size() < stripe.floats()) {
        copy = AlignedFloats::Uninitialized(stripe.floats());
      }
      const std::span<float> floats = copy.span().first(stripe.floats());
      std::optional<RowStripeRecord> cut = stripe.Cut(floats);
      CHECK(cut.has_value());  // once touched it stays so
      cut->set_stripe(i);
      RETURN_IF_ERROR(take(*std::move(cut), floats));
    }
  }
  return absl::OkStatus();
}

void TableSlice::NoteWritten(const ShardCheckpoint& content) {
  for (const SessionWindowRecord& record : content.row_session()) {
    if (const std::shared_ptr<Session> session = Find({record.worker(), record.incarnation()})) {
      MutexLock lock(&session->mutex);
      session->durable = session->written;
      session->written = record.last();
    }
  }
}

std::span<float> TableSlice::RestoredFloats(const RowStripeRecord& stripe) {
  return own_[stripe.table()].stripes[stripe.stripe()]->MakeForRestore();
}

void TableSlice::Restore(const ShardCheckpoint& content, const ShardCheckpoint* older,
                         std::span<const SessionId> open) {
  for (const RowStripeRecord& stripe : content.row_stripe()) {
    own_[stripe.table()].stripes[stripe.stripe()]->Restore(stripe, open);
  }
  const std::map<SessionId, uint64_t> last = LastOf(content);
  const std::map<SessionId, uint64_t> before =
      older == nullptr ? std::map<SessionId, uint64_t>() : LastOf(*older);
  for (const SessionId& id : open) {
    const std::shared_ptr<Session> session = Find(id);
    const auto held = last.find(id);
    if (session == nullptr || held == last.end()) {
      continue;
    }
    MutexLock lock(&session->mutex);
    session->last = session->written = held->second;
    const auto earlier = before.find(id);
    session->durable = earlier == before.end() ? 0 : std::min(earlier->second, session->last);
  }
  rows_applied_ = content.rows_applied();
}

void TableSlice::Clear() {
  for (const OwnTable& table : own_) {
    for (const auto& stripe : table.stripes) {
      stripe->Clear();
    }
  }
}

void TableSlice::AddTo(ShardJobStatus* status) const {
  uint64_t rows = 0, stripes = 0, touched = 0;
  for (const OwnTable& table : own_) {
    rows += table.rows;
    stripes += table.stripes.size();
    touched += static_cast<uint64_t>(
        std::ranges::count_if(table.stripes, [](const auto& stripe) { return stripe->touched(); }));
  }
  status->set_table_rows(rows);
  status->set_table_stripes(stripes);
  status->set_touched_table_stripes(touched);
  status->set_rows_applied(rows_applied_);
  status->set_rows_fetched(rows_fetched_);
}

}  // namespace monsoon
