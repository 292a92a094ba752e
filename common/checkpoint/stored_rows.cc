#include "common/checkpoint/stored_rows.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {

StoredRows::StoredRows(const LoadedCheckpoint& checkpoint)
    : parts_(checkpoint.parts),
      tables_(checkpoint.layout.tables()),
      seed_(checkpoint.content.create().seed()) {
  CHECK_EQ(parts_.size(), checkpoint.content.create().shards());
  absl::StatusOr<std::vector<TableMap>> maps =
      TableMaps(tables_, checkpoint.content.create().shards());
  CHECK_OK(maps.status());  // the parts were read by the same ones
  maps_ = *std::move(maps);
}

absl::Status StoredRows::ReadPart(uint32_t table, uint32_t shard, TakeRowRun take) const {
  const TableMap& map = maps_[table];
  return parts_[shard]->ReadTable(table, [&](const RowStripeRecord& stripe,
                                             std::span<const float> floats) {
    const uint64_t rows = floats.size() / (map.columns() + uint64_t{1});
    return take({.table = table,
                 .first_row = map.first_row(shard) + uint64_t{stripe.stripe()} * map.stripe_rows(),
                 .values = floats.first(rows * map.columns()),
                 .sums = floats.last(rows)});
  });
}

absl::Status StoredRows::GiveFirst(uint32_t table, uint64_t begin, uint64_t end,
                                   TakeRowRun take) const {
  const uint32_t columns = maps_[table].columns();
  std::vector<float> values;
  while (begin < end) {
    const uint64_t rows = std::min<uint64_t>(maps_[table].stripe_rows(), end - begin);
    values.resize(rows * columns);
    InitializeRows(tables_[table], table, seed_, begin, values);
    RETURN_IF_ERROR(take({.table = table, .first_row = begin, .values = values, .sums = {}}));
    begin += rows;
  }
  return absl::OkStatus();
}

absl::Status StoredRows::ReadTouched(TakeRowRun take) const {
  for (uint32_t table = 0; table < tables_.size(); ++table) {
    for (uint32_t shard = 0; shard < parts_.size(); ++shard) {
      RETURN_IF_ERROR(ReadPart(table, shard, take));
    }
  }
  return absl::OkStatus();
}

absl::Status StoredRows::ReadTable(uint32_t table, TakeRowRun take) const {
  uint64_t next = 0;
  for (uint32_t shard = 0; shard < parts_.size(); ++shard) {
    RETURN_IF_ERROR(ReadPart(table, shard, [&](const RowRun& run) {
      RETURN_IF_ERROR(GiveFirst(table, next, run.first_row, take));
      next = run.first_row + run.sums.size();
      return take({.table = table, .first_row = run.first_row, .values = run.values, .sums = {}});
    }));
  }
  return GiveFirst(table, next, tables_[table].rows, take);
}

}  // namespace monsoon
