// StoredRows: rows of tables as a checkpoint holds them, read part after part and stripe after
// stripe, whatever the number of shards was.
//
// Thread safety: const members may run at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/model/table_info.h"
#include "common/model/table_map.h"

namespace monsoon {

// Neighbours of one table.
struct RowRun {
  uint32_t table = 0;
  uint64_t first_row = 0;
  std::span<const float> values;  // the table's columns for each row
  std::span<const float> sums;    // of row-wise Adagrad, one for each row
};
using TakeRowRun = absl::FunctionRef<absl::Status(const RowRun& run)>;

class StoredRows {
 public:
  // Of a model with tables.
  explicit StoredRows(const LoadedCheckpoint& checkpoint);

  // Gives the rows of all stripes that were touched, table after table, rising. An error of
  // `take` ends it; DataLoss in the end means all that was given.
  absl::Status ReadTouched(TakeRowRun take) const;

  // Gives all rows of a table, rising, but no sums: those of other stripes as they begin.
  absl::Status ReadTable(uint32_t table, TakeRowRun take) const;

 private:
  absl::Status ReadPart(uint32_t table, uint32_t shard, TakeRowRun take) const;
  // Those of [begin, end), as they begin.
  absl::Status GiveFirst(uint32_t table, uint64_t begin, uint64_t end, TakeRowRun take) const;

  std::vector<std::shared_ptr<const PartReader>> parts_;
  std::vector<TableInfo> tables_;
  std::vector<TableMap> maps_;
  uint64_t seed_ = 0;
};

}  // namespace monsoon
