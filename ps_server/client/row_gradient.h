// Rows of tables as a client sends and asks for them.
#pragma once

#include <cstdint>
#include <span>

namespace monsoon {

// Of one table; the tables of a push rise.
struct RowGradient {
  uint32_t table = 0;              // index into the model's tables
  std::span<const uint64_t> rows;  // rising
  std::span<const float> values;   // the table's columns for each row
};

// Neighbours of one table, to be written before the job's first session.
struct RowWrite {
  uint32_t table = 0;
  uint64_t first_row = 0;
  std::span<const float> values;  // the table's columns for each row
  std::span<const float> sums;    // of row-wise Adagrad, one for each
};

struct RowRequest {
  uint32_t table = 0;
  std::span<const uint64_t> rows;  // in any order
  std::span<float> values;         // the table's columns for each row
};

}  // namespace monsoon
