// What the tests of kernels share: a device, arrays on it that start as NaN, and
// random data.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/host/test_device.h"
#include "worker/backend/cuda/runtime/error_log.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda::testing {

inline std::vector<float> Random(size_t count, uint64_t seed) {
  const PhiloxStream stream(seed, StreamKind::kTest);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = stream.Normal(i);
  }
  return values;
}

inline void ExpectNear(const std::vector<float>& got, const std::vector<double>& want,
                       double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << "at " << i;
  }
}

class KernelTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) {
      ASSERT_TRUE(SelectDevice(0, errors_));
      stream_ = std::make_unique<Stream>(errors_);
    }
  }

  DeviceArray<float> Poisoned(size_t count) { return DeviceArray<float>(*stream_, count); }
  DeviceArray<float> OnDevice(const std::vector<float>& values) {
    return DeviceArray<float>(*stream_, values);
  }

  ErrorLog errors_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace monsoon::cuda::testing
