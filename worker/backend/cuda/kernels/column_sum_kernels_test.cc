// Sums over rows and images against plain sums in double, in the form of
// kernels_test.cc.
#include "worker/backend/cuda/kernels/column_sum_kernels.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/kernels/kernel_test.h"

namespace monsoon::cuda {
namespace {

using testing::DeviceArray;
using testing::Random;

class ColumnSumKernelTest : public testing::KernelTest {
 protected:
  DeviceArray<char> Scratch(uint64_t bytes) { return DeviceArray<char>(*stream_, bytes); }
};

// Sums, and sums of magnitudes.
struct Expected {
  explicit Expected(size_t columns) : sums(columns), magnitudes(columns) {}
  void Add(size_t column, float value) {
    sums[column] += value;
    magnitudes[column] += std::abs(value);
  }
  // What column_sums.h promises: two roundings of the addends, and one of the answer.
  void ExpectNear(const std::vector<float>& got) const {
    ASSERT_EQ(got.size(), sums.size());
    for (size_t c = 0; c < sums.size(); ++c) {
      ASSERT_NEAR(got[c], sums[c], 0x1p-24 * (2 * magnitudes[c] + std::abs(sums[c])))
          << "column " << c;
    }
  }

  std::vector<double> sums;
  std::vector<double> magnitudes;
};

struct Matrix {
  uint32_t rows, columns;
  bool two_stages;
};

TEST_F(ColumnSumKernelTest, OfAMatrix) {
  // Fewer rows than lanes, blocks that are not full, and slices of uneven length.
  for (const Matrix& m : {Matrix{1, 1, false}, Matrix{1, 33, false}, Matrix{5, 7, false},
                          Matrix{64, 10, false}, Matrix{300, 1, false}, Matrix{129, 129, false},
                          Matrix{8191, 1, false}, Matrix{8192, 1, true}, Matrix{1000, 10, true},
                          Matrix{261, 129, true}, Matrix{3000, 70, true}}) {
    SCOPED_TRACE(::testing::Message() << m.rows << " x " << m.columns);
    EXPECT_EQ(ColumnSumBytes(m.rows, m.columns) > 0, m.two_stages);
    const std::vector<float> matrix = Random(size_t{m.rows} * m.columns, m.rows);
    Expected want(m.columns), twice(m.columns);
    for (size_t i = 0; i < matrix.size(); ++i) {
      want.Add(i % m.columns, matrix[i]);
      twice.Add(i % m.columns, 2 * matrix[i]);
    }
    const auto device = OnDevice(matrix);
    const auto sums = Poisoned(m.columns);
    const auto scratch = Scratch(ColumnSumBytes(m.rows, m.columns));
    ColumnSums call{device.data(), m.rows, m.columns, sums.data(), scratch.data()};
    SumColumns(*stream_, call);
    const std::vector<float> once = sums.Get();
    want.ExpectNear(once);
    SumColumns(*stream_, call);
    EXPECT_EQ(sums.Get(), once);
    call.accumulate = true;
    SumColumns(*stream_, call);
    twice.ExpectNear(sums.Get());
    scratch.Get();  // Not written past its end.
  }
}

TEST_F(ColumnSumKernelTest, OfChannels) {
  struct Case {
    uint32_t examples, channels, height, width;
    bool two_stages;
  };
  for (const Case& c :
       {Case{1, 1, 1, 1, false}, Case{3, 5, 4, 2, false}, Case{2, 300, 3, 3, false},
        Case{7, 1, 1, 5000, true}, Case{16, 20, 26, 26, true}, Case{129, 6, 9, 9, true}}) {
    SCOPED_TRACE(::testing::Message()
                 << c.examples << " of " << c.channels << " x " << c.height << " x " << c.width);
    const ImageShape shape = {1, 1, 1, c.channels, c.height, c.width, 1, 1, 0};
    EXPECT_EQ(ChannelSumBytes(shape, c.examples) > 0, c.two_stages);
    const std::vector<float> images = Random(size_t{c.examples} * shape.out_size(), c.channels);
    Expected want(c.channels);
    for (size_t i = 0; i < images.size(); ++i) {
      want.Add(i / shape.out_area() % c.channels, images[i]);
    }
    const auto device = OnDevice(images);
    const auto sums = Poisoned(c.channels);
    const auto scratch = Scratch(ChannelSumBytes(shape, c.examples));
    const ChannelSums call{shape, c.examples, device.data(), sums.data(), scratch.data()};
    SumChannels(*stream_, call);
    const std::vector<float> once = sums.Get();
    want.ExpectNear(once);
    SumChannels(*stream_, call);
    EXPECT_EQ(sums.Get(), once);
    scratch.Get();
  }
}

// A network keeps its scratch from a larger batch for smaller ones.
TEST_F(ColumnSumKernelTest, ScratchGrowsWithTheRows) {
  for (const uint32_t columns : {1u, 10u, 128u, 5000u}) {
    const ImageShape shape = {1, 1, 1, columns, 9, 7, 1, 1, 0};
    for (uint64_t rows = 1; rows < 20'000; ++rows) {
      ASSERT_GE(ColumnSumBytes(rows + 1, columns), ColumnSumBytes(rows, columns)) << rows;
      ASSERT_GE(ChannelSumBytes(shape, rows + 1), ChannelSumBytes(shape, rows)) << rows;
    }
  }
}

}  // namespace
}  // namespace monsoon::cuda
