#include "worker/downpour/row_sums.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace monsoon {

void RowSums::Add(uint32_t table, std::span<const uint64_t> rows, std::span<const float> values) {
  if (rows.empty()) {
    return;
  }
  const size_t columns = values.size() / rows.size();
  CHECK_EQ(values.size(), rows.size() * columns);
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!std::ranges::is_sorted(rows)) {
    // Stable, so that sums have the same bits each time.
    std::ranges::stable_sort(order, {}, [&](size_t i) { return rows[i]; });
  }
  const Table old = std::move(tables_[table]);
  Table& sum = tables_[table];
  sum.rows.reserve(old.rows.size() + rows.size());
  sum.values.reserve(old.values.size() + values.size());
  const auto add = [&](uint64_t row, const float* from) {
    if (!sum.rows.empty() && sum.rows.back() == row) {
      float* const to = sum.values.data() + sum.values.size() - columns;
      for (size_t i = 0; i < columns; ++i) {
        to[i] += from[i];
      }
      return;
    }
    sum.rows.push_back(row);
    sum.values.insert(sum.values.end(), from, from + columns);
  };
  size_t at = 0;  // in the old ones
  for (const size_t i : order) {
    for (; at < old.rows.size() && old.rows[at] <= rows[i]; ++at) {
      add(old.rows[at], &old.values[at * columns]);
    }
    add(rows[i], &values[i * columns]);
  }
  for (; at < old.rows.size(); ++at) {
    add(old.rows[at], &old.values[at * columns]);
  }
}

void RowSums::Add(const RowSums& other) {
  for (const auto& [table, sums] : other.tables_) {
    Add(table, sums.rows, sums.values);
  }
}

std::vector<RowGradient> RowSums::View() const {
  std::vector<RowGradient> view;
  for (const auto& [table, sums] : tables_) {
    view.push_back({table, sums.rows, sums.values});
  }
  return view;
}

void PushRows::EndStep(bool dropped) {
  if (step_.empty()) {
    return;
  }
  if (!dropped) {
    if (push_ == nullptr) {
      push_ = std::make_shared<RowSums>();
    }
    push_->Add(step_);
  }
  step_.Clear();
}

}  // namespace monsoon
