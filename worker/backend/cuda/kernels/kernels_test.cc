// Each kernel and product against its definition, over odd shapes, with random
// data and outputs that start as NaN. Built twice: for the GPU, and for the
// stand-in on the host.
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/kernels/elementwise_kernels.h"
#include "worker/backend/cuda/kernels/gemm.h"
#include "worker/backend/cuda/kernels/kernel_test.h"
#include "worker/backend/cuda/kernels/loss_kernels.h"
#include "worker/backend/reference/softmax_cross_entropy.h"
#include "worker/nn/dropout_mask.h"

namespace monsoon::cuda {
namespace {

using testing::DeviceArray;
using testing::ExpectNear;
using testing::KernelTest;
using testing::Random;

// One element, a part of a block, a block, and more than a grid holds at once.
constexpr size_t kCounts[] = {1, 3, 255, 256, 257, 100'003};

TEST_F(KernelTest, Activations) {
  const auto value = [](ActivationKind kind, double x) {
    switch (kind) {
      case ActivationKind::kRelu:
        return x > 0 ? x : 0.0;
      case ActivationKind::kSigmoid:
        return 1 / (1 + std::exp(-x));
      default:
        return std::tanh(x);
    }
  };
  for (const ActivationKind kind :
       {ActivationKind::kRelu, ActivationKind::kSigmoid, ActivationKind::kTanh}) {
    for (const size_t count : kCounts) {
      std::vector<float> in = Random(count, count);
      in[0] = 0;  // Where ReLU bends.
      const std::vector<float> diff = Random(count, count + 1);
      const auto out = Poisoned(count);
      const auto in_diff = Poisoned(count);
      const auto device_in = OnDevice(in);
      Activate(*stream_, ActivationForward{kind, device_in.data(), out.data()}, count);
      stream_->Synchronize();
      std::vector<double> want(count), slope(count);
      for (size_t i = 0; i < count; ++i) {
        const double y = value(kind, in[i]);
        want[i] = y;
        slope[i] = diff[i] * (kind == ActivationKind::kRelu      ? (in[i] > 0 ? 1.0 : 0.0)
                              : kind == ActivationKind::kSigmoid ? y * (1 - y)
                                                                 : 1 - y * y);
      }
      ExpectNear(out.Get(), want, 1e-6);
      const auto device_diff = OnDevice(diff);
      ActivateBackward(*stream_,
                       ActivationBackward{kind, out.data(), device_diff.data(), in_diff.data()},
                       count);
      ExpectNear(in_diff.Get(), slope, 2e-6);
    }
  }
}

TEST_F(KernelTest, ReluKeepsANan) {
  const auto in = OnDevice({std::numeric_limits<float>::quiet_NaN(), -1.0f});
  const auto out = Poisoned(2);
  Activate(*stream_, ActivationForward{ActivationKind::kRelu, in.data(), out.data()}, 2);
  EXPECT_TRUE(std::isnan(out.Get()[0]));
  EXPECT_EQ(out.Get()[1], 0.0f);
}

TEST_F(KernelTest, DropoutMasksEqualTheOtherBackends) {
  constexpr uint32_t kLayer = 5;
  constexpr double kRate = 0.3;
  const DropoutLayer layer{kDropoutStream | kLayer, static_cast<uint64_t>(kRate * 0x1p32),
                           static_cast<float>(1 / (1 - kRate))};
  const std::vector<uint32_t> samples = {7, 900'000, 0, 12, 13};
  for (const uint32_t values : {1u, 3u, 37u, 400u}) {
    for (const bool by_sample : {false, true}) {
      const size_t count = samples.size() * values;
      StepKey key{11, 3, 99};
      StepControl control = {};
      std::vector<uint64_t> keys(samples.size());
      control.dropout_key = DropoutKey(key.seed, kDropoutStream | key.worker, key.step);
      if (by_sample) {
        key.samples = samples;
        control.by_sample = 1;
        for (size_t n = 0; n < samples.size(); ++n) {
          keys[n] = DropoutKey(key.seed, kSampleDropoutStream, samples[n]);
        }
      }
      std::vector<float> mask(count);
      FillDropoutMask(key, kLayer, kRate, mask);
      const auto ones = OnDevice(std::vector<float>(count, 1.0f));
      const auto out = Poisoned(count);
      const DeviceArray<StepControl> device_control(*stream_, std::vector<StepControl>{control});
      const DeviceArray<uint64_t> device_keys(*stream_, keys);
      DropOut(*stream_,
              ApplyDropout(layer, device_control.data(), device_keys.data(), values, samples.size(),
                           ones.data(), out.data()),
              samples.size());
      EXPECT_EQ(out.Get(), mask) << values << " values, by sample: " << by_sample;
    }
  }
}

TEST_F(KernelTest, BiasOfRows) {
  for (const uint32_t rows : {1u, 5u, 300u}) {
    for (const uint32_t columns : {1u, 7u, 129u}) {
      const std::vector<float> matrix = Random(rows * columns, rows);
      const std::vector<float> bias = Random(columns, columns);
      const auto device = OnDevice(matrix);
      const auto device_bias = OnDevice(bias);
      std::vector<double> added(rows * columns);
      for (size_t i = 0; i < added.size(); ++i) {
        added[i] = static_cast<double>(matrix[i]) + bias[i % columns];
      }
      AddBiasToRows(*stream_, AddBias{device_bias.data(), columns, device.data()}, rows * columns);
      ExpectNear(device.Get(), added, 1e-6);
    }
  }
}

TEST_F(KernelTest, CastsToBothHalves) {
  std::vector<float> values = Random(1001, 1);
  values[3] = 1e9f;
  values[4] = -1e-9f;
  for (const HalfType type : {HalfType::kBfloat16, HalfType::kFloat16}) {
    const auto in = OnDevice(values);
    const DeviceArray<uint16_t> out(*stream_, values.size());
    Cast(*stream_, CastToHalf{type, in.data(), out.data()}, values.size());
    const std::vector<uint16_t> got = out.Get();
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(got[i], ToHalf(type, values[i])) << values[i];
    }
  }
}

TEST_F(KernelTest, TheLossScaleGoesAndWhatIsNotFiniteIsFlagged) {
  StepControl control = {};
  control.inverse_loss_scale = 0x1p-14f;
  const DeviceArray<StepControl> device_control(*stream_, std::vector<StepControl>{control});
  std::vector<float> values = Random(3001, 2);
  for (const bool broken : {false, true}) {
    if (broken) {
      values[2999] = std::numeric_limits<float>::infinity();
    }
    const auto device = OnDevice(values);
    const DeviceArray<uint32_t> flag(*stream_, std::vector<uint32_t>{0});
    UnscaleGradient(*stream_, Unscale{device_control.data(), device.data(), flag.data()}, 3001);
    EXPECT_EQ(flag.Get()[0], broken ? 1u : 0u);
    EXPECT_EQ(device.Get()[17], values[17] * 0x1p-14f);
  }
}

TEST_F(KernelTest, RefusesMoreElementsThanItsIndicesHold) {
  const auto array = Poisoned(1);
  Activate(*stream_, ActivationForward{ActivationKind::kRelu, array.data(), array.data()},
           (uint64_t{1} << 31) + 1);
  EXPECT_EQ(errors_.kind(), ErrorLog::Kind::kOutOfMemory);
  EXPECT_NE(errors_.message().find("activation: 2147483649 elements"), std::string::npos)
      << errors_.message();
}

TEST_F(KernelTest, SoftmaxCrossEntropyEqualsTheReference) {
  for (const uint32_t classes : {1u, 2u, 10u, 257u, 1000u}) {
    for (const uint32_t examples : {1u, 7u, 300u}) {
      std::vector<float> outputs = Random(examples * classes, classes);
      if (classes > 2) {
        outputs[1] = 1e4f;        // No overflow,
        outputs[2] = outputs[1];  // the first of equal ones counts,
        outputs.back() = -1e4f;   // and no underflow that hurts.
      }
      const PhiloxStream draw(3, StreamKind::kTest, 8);
      std::vector<uint32_t> labels(examples);
      for (uint32_t n = 0; n < examples; ++n) {
        labels[n] = draw.Below(n, classes);
      }
      const std::vector<double> precise(outputs.begin(), outputs.end());
      std::vector<double> want(outputs.size());
      const LossSums sums = reference::SoftmaxCrossEntropy(precise, labels, want);
      StepControl control = {};
      control.loss_scale = 1.0f;
      const auto device_outputs = OnDevice(outputs);
      const DeviceArray<uint32_t> device_labels(*stream_, labels);
      const DeviceArray<StepControl> device_control(*stream_, std::vector<StepControl>{control});
      const DeviceArray<Largest> largest(*stream_, examples);
      const DeviceArray<RowSums> row_sums(*stream_, examples);
      const DeviceArray<double> losses(*stream_, examples);
      const DeviceArray<StepSums> answer(*stream_, 1);
      const auto diff = Poisoned(outputs.size());
      SoftmaxCrossEntropy(
          *stream_,
          LossArrays{device_outputs.data(), device_labels.data(), device_control.data(),
                     largest.data(), row_sums.data(), losses.data(), answer.data(), diff.data()},
          examples, classes);
      ExpectNear(diff.Get(), want, 1e-6);
      const StepSums got = answer.Get()[0];
      EXPECT_NEAR(got.loss, sums.loss, 1e-6 * (examples + sums.loss));
      EXPECT_EQ(got.correct, sums.correct);
      EXPECT_EQ(got.non_finite, 0u);
    }
  }
}

// The label leads by up to 80, so that losses and gradients are far below the
// rounding of 1.
TEST_F(KernelTest, SmallLossesAndGradientsKeepTheirDigits) {
  constexpr uint32_t kClasses = 10;
  for (const float lead : {20.0f, 40.0f, 80.0f}) {
    std::vector<float> outputs = Random(kClasses, 5);
    outputs[3] += lead;
    const std::vector<uint32_t> labels = {3};
    const std::vector<double> precise(outputs.begin(), outputs.end());
    std::vector<double> want(kClasses);
    const LossSums sums = reference::SoftmaxCrossEntropy(precise, labels, want);
    StepControl control = {};
    control.loss_scale = 1.0f;
    const auto device_outputs = OnDevice(outputs);
    const DeviceArray<uint32_t> device_labels(*stream_, labels);
    const DeviceArray<StepControl> device_control(*stream_, std::vector<StepControl>{control});
    const DeviceArray<Largest> largest(*stream_, 1);
    const DeviceArray<RowSums> row_sums(*stream_, 1);
    const DeviceArray<double> losses(*stream_, 1);
    const DeviceArray<StepSums> answer(*stream_, 1);
    const auto diff = Poisoned(kClasses);
    SoftmaxCrossEntropy(
        *stream_,
        LossArrays{device_outputs.data(), device_labels.data(), device_control.data(),
                   largest.data(), row_sums.data(), losses.data(), answer.data(), diff.data()},
        1, kClasses);
    EXPECT_NEAR(answer.Get()[0].loss, sums.loss, 1e-5 * sums.loss) << lead;
    const std::vector<float> got = diff.Get();
    for (uint32_t c = 0; c < kClasses; ++c) {
      EXPECT_NEAR(got[c], want[c], 1e-5 * std::abs(want[c]) + 1e-37) << lead << ", class " << c;
    }
  }
}

TEST_F(KernelTest, ProductsInEveryForm) {
  const auto at = [](const std::vector<float>& matrix, bool transpose, size_t rows, size_t columns,
                     size_t i, size_t j) {
    return transpose ? matrix[j * rows + i] : matrix[i * columns + j];
  };
  constexpr std::array<size_t, 3> kSizes[] = {{1, 1, 1}, {3, 5, 7}, {130, 33, 65}};
  for (const Precision precision :
       {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16, Precision::kFloat16}) {
    Gemm gemm(*stream_, precision);
    ASSERT_TRUE(errors_.ok()) << errors_.message();
    for (const auto& [m, n, k] : kSizes) {
      for (int form = 0; form < 8; ++form) {
        const std::vector<float> a = Random(m * k, m);
        const std::vector<float> b = Random(k * n, n);
        const std::vector<float> c = Random(m * n, 3);
        const auto device_c = (form & 4) != 0 ? OnDevice(c) : Poisoned(m * n);
        const auto device_a = OnDevice(a);
        const auto device_b = OnDevice(b);
        const DeviceArray<uint16_t> half_a(*stream_, a.size());
        const DeviceArray<uint16_t> half_b(*stream_, b.size());
        RowMajorProduct product;
        product.transpose_a = (form & 1) != 0;
        product.transpose_b = (form & 2) != 0;
        product.accumulate = (form & 4) != 0;
        product.m = m;
        product.n = n;
        product.k = k;
        product.a = device_a.data();
        product.b = device_b.data();
        product.c = device_c.data();
        if (IsHalf(precision)) {
          Cast(*stream_, CastToHalf{HalfOf(precision), device_a.data(), half_a.data()}, a.size());
          Cast(*stream_, CastToHalf{HalfOf(precision), device_b.data(), half_b.data()}, b.size());
          product.a = half_a.data();
          product.b = half_b.data();
        }
        gemm.Multiply(product);
        std::vector<double> want(m * n);
        for (size_t i = 0; i < m; ++i) {
          for (size_t j = 0; j < n; ++j) {
            double sum = product.accumulate ? c[i * n + j] : 0.0;
            for (size_t l = 0; l < k; ++l) {
              sum += static_cast<double>(at(a, product.transpose_a, m, k, i, l)) *
                     at(b, product.transpose_b, k, n, l, j);
            }
            want[i * n + j] = sum;
          }
        }
        // Of a sum of up to 65 products of normal values: 24, 11, 8 and 11 bits.
        const double tolerance[] = {1e-5, 1e-2, 6e-2, 1e-2};
        SCOPED_TRACE(::testing::Message() << "form " << form << " m " << m);
        ExpectNear(device_c.Get(), want, tolerance[static_cast<int>(precision)]);
      }
    }
  }
}

// One factor for all, the other and the sums each at a stride with a gap.
TEST_F(KernelTest, ProductsInABatch) {
  constexpr size_t kBatch = 3, kM = 5, kN = 9, kK = 7, kStrideB = kK * kN + 2,
                   kStrideC = kM * kN + 3;
  const std::vector<float> a = Random(kM * kK, 1);
  const std::vector<float> b = Random(kBatch * kStrideB, 2);
  const std::vector<float> c = Random(kBatch * kStrideC, 3);
  Gemm gemm(*stream_, Precision::kFloat32);
  for (const bool accumulate : {false, true}) {
    const auto device_a = OnDevice(a);
    const auto device_b = OnDevice(b);
    const auto device_c = OnDevice(c);
    RowMajorProduct product;
    product.m = kM;
    product.n = kN;
    product.k = kK;
    product.a = device_a.data();
    product.b = device_b.data();
    product.c = device_c.data();
    product.accumulate = accumulate;
    product.batch = kBatch;
    product.stride_b = kStrideB;
    product.stride_c = kStrideC;
    gemm.Multiply(product);
    std::vector<double> want(c.begin(), c.end());  // The gaps stay.
    for (size_t n = 0; n < kBatch; ++n) {
      for (size_t i = 0; i < kM * kN; ++i) {
        double sum = accumulate ? c[n * kStrideC + i] : 0.0;
        for (size_t l = 0; l < kK; ++l) {
          sum += static_cast<double>(a[i / kN * kK + l]) * b[n * kStrideB + l * kN + i % kN];
        }
        want[n * kStrideC + i] = sum;
      }
    }
    ExpectNear(device_c.Get(), want, 1e-5);
  }
}

// In one kernel and in two; the same addresses and others, at the alignment of a
// network's parameters and without one.
TEST_F(KernelTest, ProductsThatEndWithABias) {
  constexpr std::array<size_t, 3> kSizes[] = {{1, 1, 1}, {3, 5, 7}, {5, 3, 7}, {64, 10, 50}};
  for (const Precision precision :
       {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16, Precision::kFloat16}) {
    for (const bool fuse_bias : {true, false}) {
      Gemm gemm(*stream_, precision, fuse_bias);
      for (const auto& [m, n, k] : kSizes) {
        for (const size_t skip : {0, 16, 1}) {
          const std::vector<float> a = Random(m * k, m);
          const std::vector<float> b = Random(n * k, n);
          const std::vector<float> bias = Random(skip + n, skip);
          const auto device_a = OnDevice(a);
          const auto device_b = OnDevice(b);
          const auto device_bias = OnDevice(bias);
          const auto device_c = Poisoned(m * n);
          const DeviceArray<uint16_t> half_a(*stream_, a.size());
          const DeviceArray<uint16_t> half_b(*stream_, b.size());
          RowMajorProduct product;
          product.transpose_b = true;
          product.m = m;
          product.n = n;
          product.k = k;
          product.a = device_a.data();
          product.b = device_b.data();
          product.c = device_c.data();
          if (IsHalf(precision)) {
            Cast(*stream_, CastToHalf{HalfOf(precision), device_a.data(), half_a.data()}, a.size());
            Cast(*stream_, CastToHalf{HalfOf(precision), device_b.data(), half_b.data()}, b.size());
            product.a = half_a.data();
            product.b = half_b.data();
          }
          gemm.MultiplyAndAddBias(product, device_bias.data() + skip);
          std::vector<double> want(m * n);
          for (size_t i = 0; i < m * n; ++i) {
            want[i] = bias[skip + i % n];
            for (size_t l = 0; l < k; ++l) {
              want[i] += static_cast<double>(a[i / n * k + l]) * b[i % n * k + l];
            }
          }
          const double tolerance[] = {1e-5, 1e-2, 6e-2, 1e-2};
          SCOPED_TRACE(::testing::Message() << "m " << m << " skip " << skip);
          ExpectNear(device_c.Get(), want, tolerance[static_cast<int>(precision)]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace monsoon::cuda
