// TableMap: cuts a table's rows into one contiguous run a shard, and each run into stripes of
// whole rows, the unit of lock and dedup. Computed the same way by every process from
// (rows, columns, shards).
//
// Invariants: runs are contiguous, in order and cover [0, rows); all stripes have stripe_rows()
// rows but for the table's last; a stripe's rows and their numbers fit one frame; runs are equal
// to within one stripe. A small table may have fewer stripes than there are shards: then some
// have none of it.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace monsoon {

// What a shard keeps of a stripe of rows beside its floats, with its places in lists.
inline constexpr uint64_t kRowStripeOverheadBytes = 192;

class TableMap {
 public:
  // Of a stripe, numbers of rows included: what fits one frame.
  static constexpr uint64_t kStripeBytes = 1 << 20;
  // Of a row's number beside its values.
  static constexpr uint64_t kNumberBytes = sizeof(uint32_t);
  static constexpr uint32_t kMostColumns = 1u << 16;
  static constexpr uint64_t kMostFloats = uint64_t{1} << 40;

  // InvalidArgument says which of the three is out of range.
  static absl::StatusOr<TableMap> Create(uint64_t rows, uint32_t columns, uint32_t shards);

  uint64_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  uint32_t shards() const { return shards_; }
  uint32_t stripe_rows() const { return stripe_rows_; }
  // Bytes of a row on the wire, its number included.
  uint64_t row_bytes() const { return kNumberBytes + columns_ * sizeof(float); }

  // The first row of `shard` <= shards(); of shards() it is rows().
  uint64_t first_row(uint32_t shard) const;
  uint32_t rows_of(uint32_t shard) const {
    return static_cast<uint32_t>(first_row(shard + 1) - first_row(shard));
  }
  uint32_t stripes_of(uint32_t shard) const {
    return (rows_of(shard) + stripe_rows_ - 1) / stripe_rows_;
  }
  // Of row < rows().
  uint32_t ShardOf(uint64_t row) const;

 private:
  uint64_t rows_ = 0;
  uint64_t all_stripes_ = 0;
  uint32_t columns_ = 0;
  uint32_t shards_ = 0;
  uint32_t stripe_rows_ = 0;
};

}  // namespace monsoon
