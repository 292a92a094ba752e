// TableInfo: a table of a model with all that was left open filled in, and the values that its
// rows begin with.
//
// Thread safety: immutable; pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/table_map.h"
#include "proto/model.pb.h"

namespace monsoon {

// Of one model.
inline constexpr int kMaxTables = 64;
inline constexpr size_t kMaxTableNameBytes = 128;

struct TableInfo {
  std::string name;
  uint64_t rows = 0;
  uint32_t columns = 0;
  Initializer initializer;
  RowAdagrad optimizer;
};

// The tables of `model`, in their order. InvalidArgument names the table and what is wrong.
absl::StatusOr<std::vector<TableInfo>> ReadTables(const Model& model);

// How each is cut. InvalidArgument names the table that cannot be.
absl::StatusOr<std::vector<TableMap>> TableMaps(std::span<const TableInfo> tables, uint32_t shards);

// What the rows of all of them, with their sums, take on one shard once each is touched, and what
// is kept of each stripe. InvalidArgument as of TableMaps.
absl::StatusOr<uint64_t> TableBytes(std::span<const TableInfo> tables, uint32_t shard,
                                    uint32_t shards);

// The first values of rows first_row, first_row + 1, ... of the model's table `index`: a pure
// function of (seed, index, row, column). values.size() is a multiple of table.columns.
void InitializeRows(const TableInfo& table, uint32_t index, uint64_t seed, uint64_t first_row,
                    std::span<float> values);

}  // namespace monsoon
