#include "ps_server/vector/vector_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "common/simd/simd_level.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Vector = std::vector<float>;

// Around every border: empty, one lane, one block, several blocks.
constexpr size_t kSizes[] = {0, 1, 7, 15, 16, 17, 33, 511, 512, 513, 1000, 1537};

// Normal values over eleven decades.
Vector Random(size_t size, uint32_t stream) {
  const PhiloxStream random(7, StreamKind::kTest, stream);
  Vector values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = random.Normal(i) * std::pow(10.0f, static_cast<float>(i % 11) - 5.0f);
  }
  return values;
}

// Lane by lane, as the header says.
double ReferenceDot(const Vector& x, const Vector& y) {
  double sum = 0.0;
  for (size_t lane = 0; lane < kDotLanes; ++lane) {
    double partial = 0.0;
    for (size_t i = lane; i < x.size(); i += kDotLanes) {
      partial += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    }
    sum += partial;
  }
  return sum;
}

std::vector<uint32_t> Bits(const Vector& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) {
    bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }

// Runs at every SIMD level of this machine.
class VectorKernelsTest : public ::testing::TestWithParam<SimdLevel> {
  const ScopedSimdLevel level_{GetParam()};
};

TEST_P(VectorKernelsTest, ElementsAreComputedInDoubleAndRoundedOnce) {
  for (const size_t size : kSizes) {
    const Vector x = Random(size, 1), y = Random(size, 2);
    const double factor = -1.0 / 3.0;
    Vector scaled(size), axpy(size), product(size), out(size);
    for (size_t i = 0; i < size; ++i) {
      scaled[i] = static_cast<float>(factor * static_cast<double>(x[i]));
      const double sum = factor * static_cast<double>(x[i]) + static_cast<double>(y[i]);
      axpy[i] = static_cast<float>(sum);
      product[i] = static_cast<float>(static_cast<double>(x[i]) * static_cast<double>(y[i]));
    }
    ScaleVector(factor, x, out);
    EXPECT_EQ(Bits(out), Bits(scaled)) << size;
    AxpyVector(factor, x, y, out);
    EXPECT_EQ(Bits(out), Bits(axpy)) << size;
    MultiplyVectors(x, y, out);
    EXPECT_EQ(Bits(out), Bits(product)) << size;
  }
}

TEST_P(VectorKernelsTest, ADifferenceOfNearbyValuesIsNotLost) {
  // In float32, 1/3 * x would be rounded before y is subtracted.
  const Vector x = {3.0f * 0x1.000002p0f}, y = {-1.0f};
  Vector out(1);
  AxpyVector(1.0 / 3.0, x, y, out);
  EXPECT_FLOAT_EQ(out[0], static_cast<float>(static_cast<double>(x[0]) / 3.0 - 1.0));
  EXPECT_NE(out[0], 0.0f);
}

TEST_P(VectorKernelsTest, DotHasTheBitsOfItsDefinition) {
  for (const size_t size : kSizes) {
    const Vector x = Random(size, 3), y = Random(size, 4);
    const double dot = DotVectors(x, y);
    EXPECT_EQ(Bits(dot), Bits(ReferenceDot(x, y))) << size;
    long double exact = 0.0L, magnitude = 0.0L;
    for (size_t i = 0; i < size; ++i) {
      const long double product = static_cast<long double>(x[i]) * y[i];
      exact += product;
      magnitude += std::abs(product);
    }
    EXPECT_LE(std::abs(static_cast<long double>(dot) - exact),
              magnitude * static_cast<long double>(size) * 0x1p-53L);
  }
}

TEST_P(VectorKernelsTest, CombineAddsInOrderAndItsDotsAreThoseOfTheRoundedResult) {
  for (const size_t size : kSizes) {
    const std::vector<double> factors = {0.1, -2.5, 1.0, 1e-7};
    std::vector<Vector> inputs;
    std::vector<const float*> in;
    for (uint32_t k = 0; k < factors.size(); ++k) {
      inputs.push_back(Random(size, 10 + k));
    }
    for (const Vector& input : inputs) {
      in.push_back(input.data());
    }
    Vector expected(size), out(size);
    for (size_t i = 0; i < size; ++i) {
      double sum = 0.0;
      for (size_t k = 0; k < factors.size(); ++k) {
        sum += factors[k] * static_cast<double>(inputs[k][i]);
      }
      expected[i] = static_cast<float>(sum);
    }
    const std::vector<const float*> dot_with = {in[2], out.data()};
    std::vector<double> dots(2);
    CombineVectors(factors, in, dot_with, out, dots);
    EXPECT_EQ(Bits(out), Bits(expected)) << size;
    EXPECT_EQ(Bits(dots[0]), Bits(ReferenceDot(expected, inputs[2]))) << size;
    EXPECT_EQ(Bits(dots[1]), Bits(ReferenceDot(expected, expected))) << size;
  }
}

TEST_P(VectorKernelsTest, GramHoldsTheDotsRowByRow) {
  for (const size_t size : kSizes) {
    const Vector a = Random(size, 20), b = Random(size, 21), c = Random(size, 22);
    const std::vector<const float*> rows = {a.data(), b.data()};
    const std::vector<const float*> columns = {a.data(), b.data(), c.data()};
    std::vector<double> dots(6);
    GramVectors(rows, columns, size, dots);
    const Vector* const vectors[] = {&a, &b, &c};
    for (size_t i = 0; i < 2; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        EXPECT_EQ(Bits(dots[i * 3 + j]), Bits(ReferenceDot(*vectors[i], *vectors[j]))) << size;
      }
    }
  }
}

// A vector begins where its tensor does, and SIMD registers are longer than
// what is left at its end.
TEST_P(VectorKernelsTest, AnyAlignmentHasTheSameBitsAndNothingElseIsWritten) {
  constexpr size_t kGuard = 32;
  constexpr float kPoison = 12345.0f;
  const double factor = 0.3;
  for (const size_t size : kSizes) {
    const Vector x = Random(size, 30), y = Random(size, 31);
    Vector expected[3] = {Vector(size), Vector(size), Vector(size)};
    ScaleVector(factor, x, expected[0]);
    AxpyVector(factor, x, y, expected[1]);
    MultiplyVectors(x, y, expected[2]);
    for (const size_t shift : {1u, 3u, 13u}) {
      Vector moved_x(size + 16), moved_y(size + 16);
      std::ranges::copy(x, moved_x.begin() + static_cast<ptrdiff_t>(shift));
      std::ranges::copy(y, moved_y.begin() + static_cast<ptrdiff_t>(16 - shift));
      const std::span<const float> a = std::span(moved_x).subspan(shift, size);
      const std::span<const float> b = std::span(moved_y).subspan(16 - shift, size);
      const double factors[] = {factor, 1.0};
      const float* const in[] = {a.data(), b.data()};
      const float* const with[] = {a.data()};
      double dot = 0.0;
      for (int kernel = 0; kernel < 4; ++kernel) {
        Vector guarded(size + 2 * kGuard, kPoison);
        const std::span<float> out = std::span(guarded).subspan(kGuard - shift, size);
        switch (kernel) {
          case 0:
            ScaleVector(factor, a, out);
            break;
          case 1:
            AxpyVector(factor, a, b, out);
            break;
          case 2:
            MultiplyVectors(a, b, out);
            break;
          default:  // the sum of two is Axpy's
            CombineVectors(factors, in, with, out, std::span(&dot, 1));
        }
        const Vector& want = expected[kernel == 3 ? 1 : kernel];
        EXPECT_EQ(Bits(Vector(out.begin(), out.end())), Bits(want)) << size << " " << kernel;
        EXPECT_EQ(std::ranges::count(guarded, kPoison), static_cast<ptrdiff_t>(2 * kGuard))
            << size << " " << kernel;
      }
      EXPECT_EQ(Bits(dot), Bits(ReferenceDot(x, expected[1]))) << size;
      EXPECT_EQ(Bits(DotVectors(a, b)), Bits(ReferenceDot(x, y))) << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, VectorKernelsTest, ::testing::ValuesIn(SupportedSimdLevels()),
                         [](const auto& info) { return SimdLevelName(info.param); });

}  // namespace
}  // namespace monsoon
