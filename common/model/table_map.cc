#include "common/model/table_map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

using Wide = unsigned __int128;

uint64_t CeilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<TableMap> TableMap::Create(uint64_t rows, uint32_t columns, uint32_t shards) {
  if (columns == 0 || columns > kMostColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat(columns, " columns; 1 to ", kMostColumns, " are possible"));
  }
  if (rows == 0 || rows > kMostFloats / columns) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows, " rows of ", columns, " columns; 1 to 2^40 values are possible"));
  }
  if (shards == 0) {
    return absl::InvalidArgumentError("0 shards");
  }
  TableMap map;
  map.rows_ = rows;
  map.columns_ = columns;
  map.shards_ = shards;
  map.stripe_rows_ =
      static_cast<uint32_t>(std::min(kStripeBytes / map.row_bytes(), CeilDivide(rows, shards)));
  map.all_stripes_ = CeilDivide(rows, map.stripe_rows_);
  if (CeilDivide(map.all_stripes_, shards) * map.stripe_rows_ > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        rows, " rows on ", shards, " shards: a shard holds at most 2^32; use more ps tasks"));
  }
  return map;
}

uint64_t TableMap::first_row(uint32_t shard) const {
  const auto stripe = static_cast<uint64_t>(static_cast<Wide>(all_stripes_) * shard / shards_);
  return std::min(rows_, stripe * stripe_rows_);
}

uint32_t TableMap::ShardOf(uint64_t row) const {
  // The largest shard whose first stripe is not after the row's.
  const uint64_t stripe = row / stripe_rows_;
  return static_cast<uint32_t>((static_cast<Wide>(stripe + 1) * shards_ - 1) / all_stripes_);
}

}  // namespace monsoon
