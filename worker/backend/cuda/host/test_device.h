// Device memory for tests: arrays that start as NaN, with a guard behind them
// that shows a write past the end.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/runtime/error_log.h"
#include "worker/backend/cuda/runtime/runtime.h"

namespace monsoon::cuda::testing {

// Empty where there is a GPU (the stand-in counts as one), else why not.
inline std::string WhyNoGpu() {
  ErrorLog errors;
  SelectDevice(0, errors);
  return errors.message();
}

// Skips each test, counted, on a machine without a GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoGpu(); !why.empty()) {
      GTEST_SKIP() << "needs a GPU: " << why;
    }
  }
};

// Floats in pages of their own that the device reads and writes by itself.
class LockedFloats {
 public:
  explicit LockedFloats(size_t count)
      : count_(count),
        bytes_((count * sizeof(float) + kPage - 1) / kPage * kPage),
        floats_(static_cast<float*>(std::aligned_alloc(kPage, bytes_))),
        lock_(std::make_unique<PageLock>(floats_.get(), bytes_)) {}

  bool held() const { return lock_->held(); }
  std::span<float> span() { return {floats_.get(), count_}; }

 private:
  static constexpr size_t kPage = 4096;
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };

  size_t count_;
  size_t bytes_;
  std::unique_ptr<float, Free> floats_;
  std::unique_ptr<PageLock> lock_;
};

template <typename T>
class DeviceArray {
 public:
  DeviceArray(Stream& stream, size_t count)
      : stream_(&stream),
        count_(count),
        device_(Buffer::Place::kDevice, bytes(), stream.errors()),
        pinned_(Buffer::Place::kPinned, bytes(), stream.errors()) {
    std::memset(pinned_.as<void>(), 0xFF, bytes());
    stream.CopyToDevice(device_.as<void>(), pinned_.as<void>(), bytes());
    stream.Synchronize();
  }
  DeviceArray(Stream& stream, const std::vector<T>& values) : DeviceArray(stream, values.size()) {
    std::memcpy(pinned_.as<void>(), values.data(), count_ * sizeof(T));
    stream.CopyToDevice(device_.as<void>(), pinned_.as<void>(), bytes());
    stream.Synchronize();
  }

  T* data() const { return device_.as<T>(); }

  std::vector<T> Get() const {
    stream_->CopyToHost(pinned_.as<void>(), device_.as<void>(), bytes());
    stream_->Synchronize();
    EXPECT_TRUE(stream_->errors().ok()) << stream_->errors().message();
    for (size_t i = count_ * sizeof(T); i < bytes(); ++i) {
      if (pinned_.as<unsigned char>()[i] != 0xFF) {
        ADD_FAILURE() << "written past the end, at byte " << i - count_ * sizeof(T);
        break;
      }
    }
    return std::vector<T>(pinned_.as<T>(), pinned_.as<T>() + count_);
  }

 private:
  static constexpr size_t kGuardBytes = 1024;
  size_t bytes() const { return count_ * sizeof(T) + kGuardBytes; }

  Stream* stream_;
  size_t count_;
  Buffer device_;
  Buffer pinned_;
};

}  // namespace monsoon::cuda::testing
