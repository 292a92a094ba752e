#include "common/model/table_info.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/inner_path.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/settings/number_rule.h"

namespace monsoon {
namespace {

// Streams of tables, of both kinds; those of the model's tensors come before them.
constexpr uint32_t kFirstStream = 16;

absl::Status CheckName(const std::string& name) {
  const bool printable =
      std::ranges::all_of(name, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (name.empty() || name.size() > kMaxTableNameBytes || !printable) {
    return absl::InvalidArgumentError(absl::StrCat("a table's name has 1 to ", kMaxTableNameBytes,
                                                   " printable characters without blanks"));
  }
  if (!IsInnerPath(name)) {
    return absl::InvalidArgumentError("a table's name is no path that leaves its folder");
  }
  // As the pieces of tensors do, beside which the table stands in a checkpoint.
  return !name.ends_with(')') ? absl::OkStatus()
                              : absl::InvalidArgumentError("a table's name does not end with ')'");
}

absl::StatusOr<Initializer> InitializerOf(const Table& table) {
  Initializer initializer = table.initializer();
  double value = 0;
  switch (initializer.kind_case()) {
    case Initializer::kConstant:
      value = initializer.constant();
      break;
    case Initializer::kNormal:
      value = initializer.normal();
      break;
    case Initializer::kUniform:
      value = initializer.uniform();
      break;
    case Initializer::kFanInUniform:
    case Initializer::KIND_NOT_SET:
      initializer.set_uniform(1.0 / std::sqrt(static_cast<double>(table.columns())));
      return initializer;
    default:
      return absl::InvalidArgumentError(
          "its rows begin with constant, normal, uniform or fan_in_uniform values");
  }
  if (!std::isfinite(value) || std::abs(value) > 1e30) {
    return absl::InvalidArgumentError(absl::StrCat("its rows cannot begin with ", value));
  }
  return initializer;
}

absl::StatusOr<RowAdagrad> OptimizerOf(const Table& table) {
  RowAdagrad optimizer = table.optimizer();
  FillUnset(&optimizer);
  const auto good = [](double value) { return std::isfinite(value) && value >= 0 && value < 1e30; };
  if (!good(optimizer.learning_rate()) || !good(optimizer.epsilon()) ||
      !good(optimizer.initial_sum())) {
    return absl::InvalidArgumentError(
        "learning_rate, epsilon and initial_sum must be finite and not below 0");
  }
  return optimizer;
}

absl::StatusOr<TableInfo> Read(const Table& table) {
  RETURN_IF_ERROR(CheckName(table.name()));
  RETURN_IF_ERROR(TableMap::Create(table.rows(), table.columns(), UINT32_MAX).status());
  TableInfo info{table.name(), table.rows(), table.columns(), {}, {}};
  ASSIGN_OR_RETURN(info.initializer, InitializerOf(table));
  ASSIGN_OR_RETURN(info.optimizer, OptimizerOf(table));
  return info;
}

}  // namespace

absl::StatusOr<std::vector<TableInfo>> ReadTables(const Model& model) {
  if (model.table_size() > kMaxTables) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model of ", model.table_size(), " tables; the limit is ", kMaxTables));
  }
  if (model.table_size() > 0 && model.tensor_size() == 0) {
    return absl::InvalidArgumentError(
        "tables stand beside listed tensors, at least one; a model of layers has none");
  }
  std::set<std::string> names;
  for (const ModelTensor& tensor : model.tensor()) {
    names.insert(tensor.name());
    names.insert(tensor.alias().begin(), tensor.alias().end());
  }
  std::vector<TableInfo> tables;
  for (const Table& table : model.table()) {
    absl::StatusOr<TableInfo> info = Read(table);
    if (info.ok() && !names.insert(table.name()).second) {
      info = absl::InvalidArgumentError("the name is used twice");
    }
    if (!info.ok()) {
      return Annotate(info.status(), absl::StrCat("table \"", table.name().substr(0, 64), "\""));
    }
    tables.push_back(*std::move(info));
  }
  return tables;
}

absl::StatusOr<std::vector<TableMap>> TableMaps(std::span<const TableInfo> tables,
                                                uint32_t shards) {
  std::vector<TableMap> maps;
  for (const TableInfo& table : tables) {
    absl::StatusOr<TableMap> map = TableMap::Create(table.rows, table.columns, shards);
    if (!map.ok()) {
      return Annotate(map.status(), absl::StrCat("table \"", table.name, "\""));
    }
    maps.push_back(*map);
  }
  return maps;
}

absl::StatusOr<uint64_t> TableBytes(std::span<const TableInfo> tables, uint32_t shard,
                                    uint32_t shards) {
  uint64_t bytes = 0;
  ASSIGN_OR_RETURN(const std::vector<TableMap> maps, TableMaps(tables, shards));
  for (const TableMap& map : maps) {
    bytes += map.rows_of(shard) * (map.columns() + uint64_t{1}) * sizeof(float) +
             map.stripes_of(shard) * kRowStripeOverheadBytes;
  }
  return bytes;
}

void InitializeRows(const TableInfo& table, uint32_t index, uint64_t seed, uint64_t first_row,
                    std::span<float> values) {
  const uint64_t begin = first_row * table.columns;
  const uint32_t stream_of = kFirstStream + 2 * index;
  if (table.initializer.kind_case() == Initializer::kConstant) {
    std::ranges::fill(values, static_cast<float>(table.initializer.constant()));
    return;
  }
  if (table.initializer.kind_case() == Initializer::kNormal) {
    const PhiloxStream stream(seed, StreamKind::kInitializer, stream_of + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(table.initializer.normal() * stream.Normal(begin + i));
    }
    return;
  }
  // Four words of a block at a time: a stripe is made while a push waits.
  const double limit = table.initializer.uniform();
  const uint64_t high = static_cast<uint64_t>(StreamKind::kInitializer) << 32 | stream_of;
  for (size_t i = 0; i < values.size();) {
    const std::array<uint32_t, 4> block = Philox4x32(seed, high, (begin + i) >> 2);
    for (size_t word = (begin + i) & 3; word < 4 && i < values.size(); ++word, ++i) {
      const float uniform = static_cast<float>(block[word] >> 8) * 0x1p-24f;
      values[i] = static_cast<float>(limit * (2.0 * uniform - 1.0));
    }
  }
}

}  // namespace monsoon
