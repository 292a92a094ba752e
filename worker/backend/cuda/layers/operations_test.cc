// What of the CUDA backend is plain arithmetic: Philox, half formats, the form
// of a product, memory sizes.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/kernels/divisor.h"
#include "worker/backend/cuda/kernels/gemm_call.h"
#include "worker/backend/cuda/kernels/half.h"
#include "worker/backend/cuda/kernels/philox.h"
#include "worker/backend/cuda/layers/memory_plan.h"
#include "worker/backend/cuda/layers/test_network.h"

namespace monsoon::cuda {
namespace {

using testing::TestNetwork;

// Each divisor at the multiples next to which a wrong multiplier errs first, and at
// random.
TEST(DivisorTest, EqualsDivision) {
  constexpr uint32_t kEnd = uint32_t{1} << 31;
  const PhiloxStream random(5, StreamKind::kTest);
  std::vector<uint32_t> divisors;
  for (uint32_t d = 1; d <= 4100; ++d) {
    divisors.push_back(d);
  }
  for (int shift = 12; shift <= 31; ++shift) {
    for (const int off : {-3, -1, 0, 1, 3}) {
      divisors.push_back(std::min((uint32_t{1} << shift) + static_cast<uint32_t>(off), kEnd));
    }
  }
  for (uint64_t i = 0; i < 3000; ++i) {
    divisors.push_back(1 + random.Below(i, kEnd >> (i % 31)));
  }
  uint64_t draw = 1'000'000;
  for (const uint32_t d : divisors) {
    const Divisor divisor(d);
    ASSERT_EQ(divisor.value(), d);
    const auto check = [&](uint32_t n) {
      ASSERT_EQ(divisor.Quotient(n), n / d) << n << " / " << d;
      ASSERT_EQ(divisor.Remainder(n), n % d) << n << " % " << d;
    };
    const uint32_t last = (kEnd - 1) / d * d;  // the largest multiple
    for (const uint32_t at : {0u, d, last, last / 2 / d * d, last / 3 / d * d}) {
      for (const uint32_t n : {at - 1, at, at + 1, at + d - 1}) {
        if (n < kEnd) {
          check(n);
        }
      }
    }
    check(kEnd - 1);
    for (int i = 0; i < 100; ++i) {
      check(random.Below(draw++, kEnd));
    }
  }
  // Every n of a short range, by every divisor in it.
  for (uint32_t d = 1; d < 600; ++d) {
    const Divisor divisor(d);
    for (uint32_t n = 0; n < 3000; ++n) {
      ASSERT_EQ(divisor.Quotient(n), n / d) << n << " / " << d;
    }
  }
}

TEST(PhiloxTest, EqualsTheOneOfAllOtherCode) {
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t key = i * 0x9E3779B97F4A7C15u;
    const uint64_t high = key ^ (key >> 17);
    const std::array<uint32_t, 4> want = Philox4x32(key, high, ~i * i);
    const PhiloxBlock got = Philox(key, high, ~i * i);
    for (int j = 0; j < 4; ++j) {
      ASSERT_EQ(got.word[j], want[j]) << i;
    }
  }
  EXPECT_EQ(kDropoutStream >> 32, static_cast<uint64_t>(StreamKind::kDropout));
  EXPECT_EQ(kSampleDropoutStream >> 32, static_cast<uint64_t>(StreamKind::kSampleDropout));
}

TEST(HalfTest, EveryFloat16ComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = FromFloat16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(value)))) << bits;
      EXPECT_GT(bits & 0x7FFFu, 0x7C00u);
    } else {
      EXPECT_EQ(ToFloat16(value), half) << value;
    }
  }
  EXPECT_EQ(FromFloat16(0x3C00), 1.0f);
  EXPECT_EQ(FromFloat16(0x7BFF), 65504.0f);
  EXPECT_EQ(FromFloat16(0x0001), 0x1p-24f);
  EXPECT_EQ(FromFloat16(0x0400), 0x1p-14f);
  EXPECT_EQ(FromFloat16(0xFC00), -std::numeric_limits<float>::infinity());
}

// The nearest of the two neighbours, to the even one in the middle.
TEST(HalfTest, Float16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7BFFu; ++bits) {
    const uint16_t below = static_cast<uint16_t>(bits);
    const uint16_t above = static_cast<uint16_t>(bits + 1);
    const double low = FromFloat16(below);
    const double high = FromFloat16(above);
    const float middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2);
    ASSERT_EQ(ToFloat16(middle), (bits & 1) == 0 ? below : above) << bits;
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 0.0f)), below) << bits;
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 1e9f)), above) << bits;
    ASSERT_EQ(ToFloat16(-std::nextafter(middle, 1e9f)), above | 0x8000u) << bits;
  }
  EXPECT_EQ(ToFloat16(65519.0f), 0x7BFF);
  EXPECT_EQ(ToFloat16(65520.0f), 0x7C00);
  EXPECT_EQ(ToFloat16(-1e30f), 0xFC00);
  EXPECT_EQ(ToFloat16(1e-30f), 0);
}

TEST(HalfTest, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(ToBfloat16(1.0f), 0x3F80);
  EXPECT_EQ(ToBfloat16(BitsToFloat(0x3F808000)), 0x3F80);  // a tie, to even
  EXPECT_EQ(ToBfloat16(BitsToFloat(0x3F818000)), 0x3F82);
  EXPECT_EQ(ToBfloat16(BitsToFloat(0x3F808001)), 0x3F81);
  EXPECT_EQ(ToBfloat16(BitsToFloat(0x3F807FFF)), 0x3F80);
  EXPECT_EQ(ToBfloat16(3.4e38f), 0x7F80);
  EXPECT_EQ(ToBfloat16(-std::numeric_limits<float>::infinity()), 0xFF80);
  EXPECT_TRUE(std::isnan(FromBfloat16(ToBfloat16(BitsToFloat(0x7F800001)))));
  for (uint32_t bits = 0; bits < 0x7F80u; ++bits) {
    EXPECT_EQ(ToBfloat16(FromBfloat16(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(HalfTest, FiniteIsSeenInTheBits) {
  EXPECT_TRUE(IsFiniteBits(0.0f));
  EXPECT_TRUE(IsFiniteBits(-std::numeric_limits<float>::max()));
  EXPECT_FALSE(IsFiniteBits(std::numeric_limits<float>::infinity()));
  EXPECT_FALSE(IsFiniteBits(std::numeric_limits<float>::quiet_NaN()));
}

// cuBLAS's definition of a leading dimension: at least the rows stored.
TEST(ProductTest, LeadingDimensionsFit) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      RowMajorProduct product;
      product.transpose_a = transpose_a;
      product.transpose_b = transpose_b;
      product.m = 3;
      product.n = 5;
      product.k = 7;
      const ColumnMajorProduct call = ToColumnMajor(product);
      EXPECT_EQ(call.m, 5);
      EXPECT_EQ(call.n, 3);
      EXPECT_EQ(call.k, 7);
      EXPECT_GE(call.lda, call.transpose_a ? call.k : call.m);
      EXPECT_GE(call.ldb, call.transpose_b ? call.n : call.k);
      EXPECT_GE(call.ldc, call.m);
    }
  }
}

// The factors change places, and their strides with them.
TEST(ProductTest, StridesFollowTheirFactors) {
  RowMajorProduct product;
  product.batch = 4;
  product.stride_a = 11;
  product.stride_b = 13;
  product.stride_c = 17;
  const ColumnMajorProduct call = ToColumnMajor(product);
  EXPECT_EQ(call.batch, 4);
  EXPECT_EQ(call.stride_a, 13);
  EXPECT_EQ(call.stride_b, 11);
  EXPECT_EQ(call.stride_c, 17);
}

TEST(MemoryPlanTest, StagingPartsDoNotOverlap) {
  for (const uint64_t examples : {1, 3, 64, 1000}) {
    const StagingLayout layout(TestNetwork(Extent{7}).Dense(3).model(), examples);
    EXPECT_GE(layout.labels, sizeof(StepControl));
    EXPECT_GE(layout.weights, layout.labels + 4 * examples);
    EXPECT_GE(layout.targets, layout.weights + 4 * examples);
    EXPECT_GE(layout.sample_keys, layout.targets);
    EXPECT_GE(layout.inputs, layout.sample_keys + 8 * examples);
    EXPECT_GE(layout.bytes, layout.inputs + 4 * 7 * examples);
    EXPECT_EQ(layout.sample_keys % 256, 0u);
    EXPECT_EQ(layout.inputs % 256, 0u);
  }
}

TEST(MemoryPlanTest, GrowsWithTheBatchAndTheParameters) {
  const TestNetwork network = testing::LeNet();
  const auto plan = [&](uint64_t examples, Precision precision) {
    return PlanMemory(network.model(), examples, precision);
  };
  const MemoryPlan one = plan(1, Precision::kFloat32);
  const MemoryPlan many = plan(256, Precision::kFloat32);
  EXPECT_EQ(one.parameters, 2 * Aligned(network.parameter_floats() * 4));
  EXPECT_EQ(many.parameters, one.parameters);
  // Two 20 x 26 x 26 and two 50 x 9 x 9 outputs, and as many differences.
  EXPECT_GT(many.batch, 256u * 4u * (2u * 13'520u + 2u * 4'050u + 2u * 13'520u));
  EXPECT_LT(many.batch, 256u * 4u * 75'000u);
  EXPECT_GT(plan(1, Precision::kBfloat16).parameters, one.parameters);
  // The columns of conv2 for a large batch stay under their bound.
  EXPECT_LT(plan(100'000, Precision::kFloat32).workspace, (uint64_t{25} << 20));
}

}  // namespace
}  // namespace monsoon::cuda
