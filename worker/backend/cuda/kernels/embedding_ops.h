// Rows of a table by ids, and the table's gradient without additions whose order could change:
// each position knows the next one of the same id, and the first of an id adds up the chain.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/portable.h"

namespace monsoon::cuda {

// Ids are whole and below the table's rows: worker/nn/check_batch.cc. A row beyond it would be
// another tensor's memory, so it reads as NaN and is not written.
struct TableRows {
  const float* ids;  // [positions]
  uint32_t rows;
  MONSOON_PORTABLE bool Has(uint32_t position) const {
    return ids[position] >= 0.0f && ids[position] < static_cast<float>(rows);
  }
  MONSOON_PORTABLE uint32_t Row(uint32_t position) const {
    return static_cast<uint32_t>(ids[position]);
  }
};

// Count: positions * columns.
struct LookUp {
  TableRows table;
  Divisor columns;
  const float* weight;
  float* out;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t position = columns.Quotient(i);
    const uint32_t c = i - position * columns.value();
    out[i] = table.Has(position)
                 ? weight[uint64_t{table.Row(position)} * columns.value() + c]
                 : NAN;
  }
};

// next[p] = the least q > p of the same id, or `positions`; is_next[q] = 1, which was 0.
struct NextOfId {
  using Value = uint32_t;
  const float* ids;
  uint32_t positions;
  uint32_t* next;
  uint32_t* is_next;
  MONSOON_PORTABLE uint32_t Partial(uint32_t position, uint32_t thread, uint32_t threads) const {
    const float id = ids[position];
    for (uint32_t q = position + 1 + thread; q < positions; q += threads) {
      if (ids[q] == id) {
        return q;
      }
    }
    return positions;
  }
  MONSOON_PORTABLE static uint32_t Combine(uint32_t a, uint32_t b) { return a < b ? a : b; }
  MONSOON_PORTABLE void Finish(uint32_t position, uint32_t found) const {
    next[position] = found;
    if (found < positions) {
      is_next[found] = 1;
    }
  }
};

// Adds to the table's gradient, of which nobody else writes the row. Count: positions * columns.
struct AddUpRows {
  TableRows table;
  Divisor columns;
  uint32_t positions;
  const uint32_t* next;
  const uint32_t* is_next;
  const float* out_diff;
  float* gradient;
  MONSOON_PORTABLE void operator()(uint32_t i) const {
    const uint32_t position = columns.Quotient(i);
    if (is_next[position] != 0 || !table.Has(position)) {
      return;
    }
    const uint32_t c = i - position * columns.value();
    double sum = 0;
    for (uint32_t p = position; p < positions; p = next[p]) {
      sum += static_cast<double>(out_diff[p * columns.value() + c]);
    }
    gradient[uint64_t{table.Row(position)} * columns.value() + c] += static_cast<float>(sum);
  }
};

}  // namespace monsoon::cuda
