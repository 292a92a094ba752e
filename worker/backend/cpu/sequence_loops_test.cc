// The loops of sequences against plain ones, over odd sizes and at each SIMD level.
#include "worker/backend/cpu/sequence_loops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "common/simd/simd_level.h"
#include "gtest/gtest.h"
#include "worker/backend/cpu/active_loops.h"

namespace monsoon::cpu {
namespace {

class SequenceLoopsTest : public ::testing::TestWithParam<SimdLevel> {
 private:
  const ScopedSimdLevel level_{GetParam()};
};

// Whole numbers from -3 to 3, whose products and sums are exact.
std::vector<float> Wholes(size_t floats, uint64_t seed) {
  const PhiloxStream stream(seed, StreamKind::kTest);
  std::vector<float> values(floats);
  for (size_t i = 0; i < floats; ++i) {
    values[i] = static_cast<float>(stream.Below(i, 7)) - 3;
  }
  return values;
}

TEST_P(SequenceLoopsTest, ProductsAreExactAndStayInTheirPlace) {
  constexpr size_t kRest = 3;  // of each row, behind its columns
  for (const size_t rows : {1, 2, 3, 7, 8, 13, 15, 24}) {
    for (const size_t columns : {1, 3, 4, 7, 15, 16, 33, 48, 53}) {
      for (const size_t depth : {1, 2, 9}) {
        for (const bool transposed : {false, true}) {
          SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " x " << depth);
          const size_t c_row = columns + kRest;
          const std::vector<float> a = Wholes(rows * depth, 1);
          const std::vector<float> b = Wholes(depth * c_row, 2);
          const std::vector<float> before = Wholes(rows * c_row, 3);
          for (const bool adds : {false, true}) {
            std::vector<float> c = before;
            ActiveSequenceLoops().product({.rows = rows,
                                           .columns = columns,
                                           .depth = depth,
                                           .a = a.data(),
                                           .a_row = transposed ? 1 : depth,
                                           .a_depth = transposed ? rows : 1,
                                           .b = b.data(),
                                           .b_depth = c_row,
                                           .c = c.data(),
                                           .c_row = c_row,
                                           .adds = adds});
            for (size_t i = 0; i < rows * c_row; ++i) {
              const size_t row = i / c_row;
              float want = adds || i % c_row >= columns ? before[i] : 0;
              for (size_t k = 0; k < depth && i % c_row < columns; ++k) {
                want += a[transposed ? k * rows + row : row * depth + k] * b[k * c_row + i % c_row];
              }
              ASSERT_EQ(c[i], want) << i;
            }
          }
        }
      }
    }
  }
}

TEST_P(SequenceLoopsTest, TransposesIntoPaddedRows) {
  for (const size_t rows : {1, 5, 16, 17}) {
    const std::vector<float> from = Wholes(rows * 7, 1);
    std::vector<float> to(3 * Padded(rows), NAN);
    ActiveSequenceLoops().transpose(rows, 3, from.data(), 7, to.data());
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t row = i % Padded(rows);
      ASSERT_EQ(to[i], row < rows ? from[row * 7 + i / Padded(rows)] : 0) << rows << ", " << i;
    }
  }
}

TEST_P(SequenceLoopsTest, SoftmaxOfWhatIsSeen) {
  const PhiloxStream stream(1, StreamKind::kTest);
  constexpr float kScale = 0.7f;
  for (const size_t seen : {1, 2, 5, 15, 16, 17, 40}) {
    // Sizes up to where float's exponentials would overflow.
    for (const float size : {0.1f, 5.0f, 300.0f}) {
      SCOPED_TRACE(::testing::Message() << seen << " of size " << size);
      constexpr size_t kPadded = 48;
      std::vector<float> values(kPadded + 1, 7);
      double largest = -INFINITY;
      for (size_t i = 0; i < seen; ++i) {
        values[i] = size * stream.Normal(i);
        largest = std::max(largest, static_cast<double>(values[i]));
      }
      std::vector<double> want(kPadded, 0);
      double sum = 0;
      for (size_t i = 0; i < seen; ++i) {
        want[i] = std::exp((values[i] - largest) * kScale);
        sum += want[i];
      }
      ActiveSequenceLoops().softmax(seen, kPadded, kScale, values.data());
      for (size_t i = 0; i < kPadded; ++i) {
        // The differences are rounded to floats, of up to size * 6 here.
        const double p = want[i] / sum;
        ASSERT_NEAR(values[i], p, 3e-7 + p * size * 6 * 0x1p-23) << i;
        ASSERT_TRUE(i < seen || values[i] == 0) << i;
      }
      EXPECT_EQ(values[kPadded], 7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, SequenceLoopsTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& test) { return SimdLevelName(test.param); });

}  // namespace
}  // namespace monsoon::cpu
