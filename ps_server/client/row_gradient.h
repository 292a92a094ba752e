// Rows of tables as a client sends and asks for them.
#pragma once

#include <cstdint>
#include <span>

namespace monsoon {

// Of one table; each table once a push.
struct RowGradient {
  uint32_t table = 0;              // index into the model's tables
  std::span<const uint64_t> rows;  // rising
  std::span<const float> values;   // the table's columns for each row
};

struct RowRequest {
  uint32_t table = 0;
  std::span<const uint64_t> rows;  // in any order
  std::span<float> values;         // the table's columns for each row
};

}  // namespace monsoon
