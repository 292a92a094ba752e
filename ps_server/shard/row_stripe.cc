#include "ps_server/shard/row_stripe.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace monsoon {
void RowStripe::Make() {
  const TableInfo& table = *place_.table;
  memory_ = AlignedFloats::Uninitialized(floats());
  hint_ = memory_.data();
  const size_t values = size_t{place_.rows} * table.columns;
  InitializeRows(table, place_.index, place_.seed, place_.first_row, memory_.span().first(values));
  std::ranges::fill(memory_.span().subspan(values),
                    static_cast<float>(table.optimizer.initial_sum()));
}

bool RowStripe::Apply(SessionId session, uint64_t push, std::span<const uint32_t> rows,
                      uint32_t base, const float* gradients) {
  const auto constants = RowAdagradConstants::Of(place_.table->optimizer);
  const size_t columns = place_.table->columns;
  MutexLock lock(&mutex_);
  auto last = std::ranges::find(last_, session, &std::pair<SessionId, uint64_t>::first);
  if (last == last_.end()) {
    last = last_.emplace(last_.end(), session, 0);
  }
  if (push <= last->second) {
    return false;
  }
  if (memory_.size() == 0) {
    Make();
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t at = rows[i] - base;
    StepRow(constants, gradients + i * columns, columns, row(at), sums() + at);
  }
  last->second = push;
  ++version_;
  return true;
}

void RowStripe::Read(std::span<const uint32_t> rows, uint32_t base, float* values) const {
  const size_t columns = place_.table->columns;
  {
    MutexLock lock(&mutex_);
    if (memory_.size() > 0) {
      for (size_t i = 0; i < rows.size(); ++i) {
        std::memcpy(values + i * columns, memory_.data() + (rows[i] - base) * columns,
                    columns * sizeof(float));
      }
      return;
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    InitializeRows(*place_.table, place_.index, place_.seed, place_.first_row + (rows[i] - base),
                   std::span(values + i * columns, columns));
  }
}

void RowStripe::Write(uint32_t first, uint32_t count, const float* values, const float* new_sums) {
  MutexLock lock(&mutex_);
  if (memory_.size() == 0) {
    Make();
  }
  std::copy_n(values, size_t{count} * place_.table->columns, row(first));
  std::copy_n(new_sums, count, sums() + first);
}

bool RowStripe::touched() const {
  MutexLock lock(&mutex_);
  return memory_.size() > 0;
}

std::optional<RowStripeRecord> RowStripe::Cut(std::span<float> floats) const {
  MutexLock lock(&mutex_);
  if (memory_.size() == 0) {
    return std::nullopt;
  }
  CHECK_EQ(floats.size(), memory_.size());
  std::ranges::copy(memory_.span(), floats.begin());
  RowStripeRecord cut;
  cut.set_table(place_.index);
  cut.set_version(version_);
  for (const auto& [session, last] : last_) {
    SessionWindowRecord* const window = cut.add_session();
    window->set_worker(session.worker);
    window->set_incarnation(session.incarnation);
    window->set_last(last);
  }
  return cut;
}

std::span<float> RowStripe::MakeForRestore() {
  MutexLock lock(&mutex_);
  if (memory_.size() == 0) {
    memory_ = AlignedFloats(floats());
    hint_ = memory_.data();
  }
  return memory_.span();
}

void RowStripe::Restore(const RowStripeRecord& cut, std::span<const SessionId> open) {
  MutexLock lock(&mutex_);
  CHECK_GT(memory_.size(), 0u);
  version_ = cut.version();
  last_.clear();
  for (const SessionWindowRecord& window : cut.session()) {
    const SessionId session{window.worker(), window.incarnation()};
    if (std::ranges::binary_search(open, session)) {
      last_.emplace_back(session, window.last());
    }
  }
}

void RowStripe::Clear() {
  MutexLock lock(&mutex_);
  hint_ = nullptr;
  memory_ = AlignedFloats();
  version_ = 0;
  last_.clear();
}

void RowStripe::Forget(SessionId session) {
  MutexLock lock(&mutex_);
  std::erase_if(last_, [&](const auto& entry) { return entry.first == session; });
}

}  // namespace monsoon
