#include "common/optimizer/matrix_product.h"

#include <limits>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/simd/simd_level.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

std::vector<float> Random(size_t size, uint32_t of) {
  const PhiloxStream stream(7, StreamKind::kTest, of);
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = stream.Normal(i);
  }
  return values;
}

struct Shape {
  size_t rows, columns, inner;
};

// Tiles and blocks that are whole, that are not, that are alone, and several of them.
const Shape kShapes[] = {{1, 1, 1},   {12, 32, 5},    {13, 33, 192},  {11, 31, 193},
                         {5, 600, 3}, {300, 70, 400}, {145, 513, 20}, {2, 3, 1000}};

// Each element in the order of k, rounded after each product and each sum.
std::vector<float> Naive(const Product& product) {
  std::vector<float> c;
  for (size_t i = 0; i < product.rows; ++i) {
    for (size_t j = 0; j < product.columns; ++j) {
      volatile float sum = 0;
      for (size_t k = 0; k < product.inner; ++k) {
        const size_t at = product.a_transposed ? k * product.rows + i : i * product.inner + k;
        volatile float one = product.a[at] * product.b[k * product.columns + j];
        sum = sum + one;
      }
      c.push_back(static_cast<float>(sum));
    }
  }
  return c;
}

std::vector<float> Multiplied(Product product) {
  std::vector<float> scratch(kProductScratch, std::numeric_limits<float>::quiet_NaN());
  // A float before it and one behind: not aligned, and what is outside stays.
  const size_t size = product.rows * product.columns;
  std::vector<float> c(size + 2, 17.0f);
  product.c = c.data() + 1;
  Multiply(product, scratch);
  EXPECT_EQ(c.front(), 17.0f);
  EXPECT_EQ(c.back(), 17.0f);
  return {c.begin() + 1, c.end() - 1};
}

TEST(MatrixProductTest, HasTheBitsOfOneSumAfterAnotherAtEachSimdLevel) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> a = Random(shape.rows * shape.inner, 0);
    const std::vector<float> b = Random(shape.inner * shape.columns, 1);
    for (const bool transposed : {false, true}) {
      const Product product{.rows = shape.rows,
                            .columns = shape.columns,
                            .inner = shape.inner,
                            .a = a.data(),
                            .a_transposed = transposed,
                            .b = b.data()};
      const std::vector<float> expected = Naive(product);
      for (const SimdLevel level : SupportedSimdLevels()) {
        const ScopedSimdLevel scoped(level);
        EXPECT_EQ(Multiplied(product), expected)
            << shape.rows << " x " << shape.inner << " x " << shape.columns << ", transposed "
            << transposed << ", " << SimdLevelName(level);
      }
    }
  }
}

TEST(MatrixProductTest, HalfOfASymmetricOneIsTheOther) {
  for (const size_t n : {1u, 12u, 33u, 161u, 530u}) {
    const size_t inner = 37;
    const std::vector<float> a = Random(n * inner, 0);
    Product product{.rows = n,
                    .columns = n,
                    .inner = inner,
                    .a = a.data(),
                    .a_transposed = true,
                    .b = a.data()};
    const std::vector<float> whole = Multiplied(product);
    product.symmetric = true;
    EXPECT_EQ(Multiplied(product), whole) << n;
  }
}

TEST(MatrixProductTest, Transposes) {
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{1, 5}, {32, 32}, {33, 70}}) {
    const std::vector<float> from = Random(rows * columns, 2);
    std::vector<float> to(from.size());
    Transpose(rows, columns, from.data(), to.data());
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        ASSERT_EQ(to[j * rows + i], from[i * columns + j]) << rows << " x " << columns;
      }
    }
  }
}

}  // namespace
}  // namespace monsoon
