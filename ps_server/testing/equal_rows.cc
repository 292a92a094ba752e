#include "ps_server/testing/equal_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/optimizer/row_adagrad.h"

namespace monsoon {
namespace {

constexpr float kGradient = 0.5f;
constexpr float kRate = 0.5f;
constexpr float kEpsilon = 0.125f;

struct Shape {
  const char* name;
  uint64_t rows;
  uint32_t columns;
};
// Of one shard four frames of the first and three of the second.
constexpr Shape kTables[] = {{"words", 50000, 16}, {"wide", 9, 60000}};

std::vector<float> RowAfter(uint32_t columns, uint64_t pushes) {
  std::vector<float> row(columns, 1.0f);
  const std::vector<float> gradient(columns, kGradient);
  float sum = 0;
  for (uint64_t i = 0; i < pushes; ++i) {
    StepRow({.learning_rate = kRate, .epsilon = kEpsilon}, gradient.data(), columns, row.data(),
            &sum);
  }
  return row;
}

}  // namespace

EqualRows::EqualRows() {
  for (const Shape& table : kTables) {
    std::vector<uint64_t>& rows = rows_.emplace_back();
    for (uint64_t row = 0; row < table.rows; ++row) {
      rows.push_back(row);
    }
    values_.emplace_back(table.rows * table.columns, kGradient);
  }
}

TestJobOptions EqualRows::Job() {
  TestJobOptions job;
  ModelTensor* const tensor = job.model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(kFloats);
  for (const Shape& shape : kTables) {
    Table* const table = job.model.add_table();
    table->set_name(shape.name);
    table->set_rows(shape.rows);
    table->set_columns(shape.columns);
    table->mutable_initializer()->set_constant(1);
    table->mutable_optimizer()->set_learning_rate(kRate);
    table->mutable_optimizer()->set_epsilon(kEpsilon);
  }
  job.optimizer = TestSgd(0.5);
  return job;
}

uint64_t EqualRows::push_bytes() {
  uint64_t words = kFloats;
  for (const Shape& table : kTables) {
    words += table.rows * (1 + table.columns);
  }
  return 4 * words;
}

absl::StatusOr<ParameterClient::PushResult> EqualRows::Push(ParameterClient* client) const {
  const std::vector<float> dense(kFloats);
  std::vector<RowGradient> gradients;
  for (uint32_t table = 0; table < rows_.size(); ++table) {
    gradients.push_back({table, rows_[table], values_[table]});
  }
  GradientView view(dense);
  view.rows = gradients;
  return client->Push(view, {});
}

absl::Status EqualRows::Check(ParameterClient* client, uint64_t pushes) const {
  for (uint32_t table = 0; table < rows_.size(); ++table) {
    std::vector<float> values(values_[table].size());
    const std::vector<RowRequest> wanted{{table, rows_[table], values}};
    RETURN_IF_ERROR(client->FetchRows(wanted, nullptr));
    const uint32_t columns = kTables[table].columns;
    const std::vector<float> expected = RowAfter(columns, pushes);
    for (uint64_t row = 0; row < kTables[table].rows; ++row) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(row * columns);
      if (!std::equal(expected.begin(), expected.end(), begin)) {
        return absl::FailedPreconditionError(
            absl::StrCat("row ", row, " of ", kTables[table].name, " begins with ", *begin,
                         ", expected ", expected[0], " after ", pushes, " pushes"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
