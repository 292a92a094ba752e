#include "common/optimizer/matrix_product.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/optimizer/active_loops.h"
#include "common/optimizer/matrix_loops.h"

namespace monsoon {
namespace {

static_assert(kProductRows % kTileRows == 0 && kProductColumns % kTileColumns == 0);

// A block of one of the three dimensions.
struct Block {
  size_t begin;
  size_t size;
};

Block BlockAt(size_t begin, size_t most, size_t all) {
  return {begin, std::min(most, all - begin)};
}

// Rows of a, a tile's after another's: for each k, kTileRows floats. Rows that are not there are 0.
void PackRows(const Product& product, const Block& rows, const Block& depth, float* to) {
  const size_t row = product.a_transposed ? 1 : product.inner;
  const size_t step = product.a_transposed ? product.rows : 1;
  for (size_t i = 0; i < rows.size; i += kTileRows, to += kTileRows * depth.size) {
    const size_t here = std::min(kTileRows, rows.size - i);
    const float* from = product.a + (rows.begin + i) * row + depth.begin * step;
    if (here == kTileRows) {
      for (size_t k = 0; k < depth.size; ++k, from += step) {
        for (size_t r = 0; r < kTileRows; ++r) {
          to[k * kTileRows + r] = from[r * row];
        }
      }
      continue;
    }
    for (size_t k = 0; k < depth.size; ++k, from += step) {
      for (size_t r = 0; r < kTileRows; ++r) {
        to[k * kTileRows + r] = r < here ? from[r * row] : 0.0f;
      }
    }
  }
}

// Columns of b, likewise.
void PackColumns(const Product& product, const Block& columns, const Block& depth, float* to) {
  for (size_t j = 0; j < columns.size; j += kTileColumns) {
    const size_t here = std::min(kTileColumns, columns.size - j);
    const float* from = product.b + depth.begin * product.columns + columns.begin + j;
    for (size_t k = 0; k < depth.size; ++k, from += product.columns, to += kTileColumns) {
      std::fill(std::copy_n(from, here, to), to + kTileColumns, 0.0f);
    }
  }
}

// The tile at (i, j) of c, which may reach beyond its end.
void AddTile(const Product& product, const float* a, const float* b, size_t i, size_t j,
             const Block& depth) {
  const auto& loops = ActiveMatrixLoops();
  const size_t rows = std::min(kTileRows, product.rows - i);
  const size_t columns = std::min(kTileColumns, product.columns - j);
  const bool fresh = depth.begin == 0;
  float* const c = product.c + i * product.columns + j;
  if (rows == kTileRows && columns == kTileColumns) {
    loops.tile(depth.size, a, b, c, product.columns, fresh);
    return;
  }
  std::array<float, kTileRows* kTileColumns> tile = {};
  for (size_t r = 0; !fresh && r < rows; ++r) {
    std::copy_n(c + r * product.columns, columns, tile.data() + r * kTileColumns);
  }
  loops.tile(depth.size, a, b, tile.data(), kTileColumns, fresh);
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(tile.data() + r * kTileColumns, columns, c + r * product.columns);
  }
}

// What the packed rows and columns add to c.
void AddBlock(const Product& product, const Block& rows, const Block& columns, const Block& depth,
              const float* a, const float* b) {
  for (size_t j = 0; j < columns.size; j += kTileColumns) {
    for (size_t i = 0; i < rows.size; i += kTileRows) {
      const size_t row = rows.begin + i;
      const size_t column = columns.begin + j;
      // Below the diagonal nothing is computed.
      if (!product.symmetric || column + kTileColumns > row) {
        AddTile(product, a + i * depth.size, b + j * depth.size, row, column, depth);
      }
    }
  }
}

// What is below the diagonal is what is above it.
void Mirror(size_t n, float* c) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      c[i * n + j] = c[j * n + i];
    }
  }
}

}  // namespace

void Multiply(const Product& product, std::span<float> scratch) {
  CHECK(scratch.size() >= kProductScratch);
  CHECK(!product.symmetric || product.rows == product.columns);
  float* const packed_rows = scratch.data();
  float* const packed_columns = packed_rows + kProductDepth * kProductRows;
  for (size_t j = 0; j < product.columns; j += kProductColumns) {
    const Block columns = BlockAt(j, kProductColumns, product.columns);
    for (size_t k = 0; k < product.inner; k += kProductDepth) {
      const Block depth = BlockAt(k, kProductDepth, product.inner);
      PackColumns(product, columns, depth, packed_columns);
      for (size_t i = 0; i < product.rows; i += kProductRows) {
        const Block rows = BlockAt(i, kProductRows, product.rows);
        if (product.symmetric && columns.begin + columns.size <= rows.begin) {
          break;
        }
        PackRows(product, rows, depth, packed_rows);
        AddBlock(product, rows, columns, depth, packed_rows, packed_columns);
      }
    }
  }
  if (product.symmetric) {
    Mirror(product.rows, product.c);
  }
}

void Transpose(size_t rows, size_t columns, const float* from, float* to) {
  constexpr size_t kBlock = 32;  // 8 KiB of both stay in the first-level cache
  for (size_t i = 0; i < rows; i += kBlock) {
    for (size_t j = 0; j < columns; j += kBlock) {
      for (size_t r = i; r < std::min(rows, i + kBlock); ++r) {
        for (size_t c = j; c < std::min(columns, j + kBlock); ++c) {
          to[c * rows + r] = from[r * columns + c];
        }
      }
    }
  }
}

}  // namespace monsoon
