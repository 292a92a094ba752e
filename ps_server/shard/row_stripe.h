// RowStripe: whole rows of a table, the unit of lock and dedup: their values, the sums of
// row-wise Adagrad, and of each session the last push that has touched the stripe. Its rows are
// made, from (seed, row, column), by the first push that touches it: before that it has no
// memory, and no place in a checkpoint.
//
// Invariants: a push is applied at most once; a cut and a read are as of one moment.
//
// Thread safe. Each call takes the stripe's lock, and no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/memory/aligned_floats.h"
#include "common/model/table_info.h"
#include "common/optimizer/row_adagrad.h"
#include "proto/shard_checkpoint.pb.h"
#include "ps_server/shard/session_table.h"

namespace monsoon {

class RowStripe {
 public:
  // Where a stripe lies. `table` outlives it.
  struct Place {
    const TableInfo* table = nullptr;
    uint32_t index = 0;  // of the table in its model
    uint64_t seed = 0;
    uint64_t first_row = 0;  // of the table
    uint32_t rows = 0;
  };
  explicit RowStripe(const Place& place) : place_(place) {}

  uint32_t rows() const { return place_.rows; }
  // Of the values and sums of all rows, one after the other.
  size_t floats() const { return size_t{place_.rows} * (place_.table->columns + 1); }

  // Rows of one push, rising, as numbers that begin with `base` at the stripe's first row.
  // `gradients` has a row of finite values for each. False: the session's push `push`, or a
  // later one, has touched the stripe before, and nothing was changed.
  bool Apply(SessionId session, uint64_t push, std::span<const uint32_t> rows, uint32_t base,
             const float* gradients);

  // That a row will be needed soon. Takes no lock.
  void Prefetch(uint32_t row) const {
    if (const float* const memory = hint_.load(std::memory_order_relaxed); memory != nullptr) {
      const size_t columns = place_.table->columns;
      const float* const values = memory + size_t{row} * columns;
      for (size_t at = 0; at < columns; at += kLine) {
        __builtin_prefetch(values + at);
      }
      __builtin_prefetch(memory + size_t{place_.rows} * columns + row);
    }
  }

  // Copies the rows of those numbers, in any order.
  void Read(std::span<const uint32_t> rows, uint32_t base, float* values) const;

  // Replaces `count` rows and their sums, from the stripe's row `first` on. It counts as touched.
  void Write(uint32_t first, uint32_t count, const float* values, const float* sums);

  // Whether a push has touched it.
  bool touched() const;
  // Of one that was touched, as of this moment: values, then sums, to `floats` (floats()).
  // Nothing, where it was not.
  std::optional<RowStripeRecord> Cut(std::span<float> floats) const;
  // Makes it what a cut holds, whose floats are to be written to the result (floats()), before
  // anybody else has the stripe. Of sessions only those that `open` says.
  std::span<float> MakeForRestore();
  void Restore(const RowStripeRecord& cut, std::span<const SessionId> open);
  void Clear();

  // The session is over: it sends nothing again.
  void Forget(SessionId session);

 private:
  void Make() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  float* row(uint32_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return memory_.data() + size_t{i} * place_.table->columns;
  }
  float* sums() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return row(place_.rows); }

  static constexpr size_t kLine = 16;  // floats

  const Place place_;
  std::atomic<const float*> hint_{nullptr};  // where memory_ is; for Prefetch alone

  mutable Mutex mutex_;
  AlignedFloats memory_ ABSL_GUARDED_BY(mutex_);  // empty: it was not touched
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  // Few: a scan finds one sooner than a map does.
  std::vector<std::pair<SessionId, uint64_t>> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
