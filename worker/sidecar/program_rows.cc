#include "worker/sidecar/program_rows.h"

#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

template <typename T>
std::vector<T> TakeMany(FieldReader* fields, uint64_t count) {
  const bool possible = count <= kMaxMessageBytes / sizeof(T);
  const std::string_view bytes = fields->Take(possible ? count * sizeof(T) : SIZE_MAX);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

// What every call with rows begins with.
struct Rows {
  uint32_t table = 0;
  std::vector<uint64_t> numbers;
};
absl::StatusOr<Rows> TakeRows(FieldReader* fields, std::span<const TableInfo> tables) {
  Rows rows;
  rows.table = fields->Number<uint32_t>();
  const auto count = fields->Number<uint64_t>();
  rows.numbers = TakeMany<uint64_t>(fields, count);
  if (fields->broken() || rows.table >= tables.size()) {
    return absl::InvalidArgumentError("the program's rows are malformed");
  }
  return rows;
}

}  // namespace

absl::Status AnswerRows(const Message& call, std::span<const TableInfo> tables, Program* program,
                        absl::FunctionRef<absl::Status(std::span<const RowRequest>)> fetch) {
  FieldReader fields(call.fields);
  ASSIGN_OR_RETURN(const Rows rows, TakeRows(&fields, tables));
  if (!fields.ok()) {
    return absl::InvalidArgumentError("the program's rows are malformed");
  }
  std::vector<float> values(rows.numbers.size() * tables[rows.table].columns);
  const RowRequest wanted{rows.table, rows.numbers, values};
  RETURN_IF_ERROR(fetch(std::span(&wanted, 1)));
  program->AnswerRows(values);
  return absl::OkStatus();
}

absl::Status ReadRows(FieldReader* fields, std::span<const TableInfo> tables, RowSums* sums) {
  const auto pieces = fields->Number<uint32_t>();
  for (uint32_t i = 0; i < pieces && !fields->broken(); ++i) {
    ASSIGN_OR_RETURN(const Rows rows, TakeRows(fields, tables));
    const TableInfo& table = tables[rows.table];
    const std::vector<float> values =
        TakeMany<float>(fields, rows.numbers.size() * uint64_t{table.columns});
    if (fields->broken()) {
      break;
    }
    for (const uint64_t row : rows.numbers) {
      if (row >= table.rows) {
        return absl::InvalidArgumentError(
            absl::StrCat("table \"", table.name, "\": row ", row, " of ", table.rows));
      }
    }
    sums->Add(rows.table, rows.numbers, values);
  }
  return fields->broken() ? absl::InvalidArgumentError("the program's rows are malformed")
                          : absl::OkStatus();
}

}  // namespace monsoon
