// The translation of PTX and the checks of the emulator, by the kernels of
// instructions.ptx. Needs neither a GPU nor the toolkit.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/emulator/launch.h"
#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/streams.h"

namespace monsoon::emulator {
namespace {

using Words = std::vector<uint32_t>;

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

class PtxTest : public ::testing::Test {
 protected:
  ~PtxTest() override {
    DestroyStream(stream_);
    Free(out_);
  }

  void Allocate(size_t words) {
    words_ = words;
    out_ = monsoon::emulator::Allocate(4 * words, 0);
  }

  // As a copy to the device would.
  void Fill(Stream& stream, const Words& values) {
    Enqueue(stream, "fill", [=, this]() -> monsoon::emulator::Run {
      return [=, this](uint32_t operation) {
        NoteWrite(*Find(out_, 4 * values.size()), out_, 4 * values.size(),
                  {operation, kManyThreads, "fill"}, nullptr);
        std::memcpy(ToHost(out_), values.data(), 4 * values.size());
      };
    });
  }

  template <typename... Arguments>
  void Launch(Stream& stream, const char* name, const LaunchConfiguration& configuration,
              Arguments... arguments) {
    const Kernel* const kernel = FindKernel(name);
    ASSERT_NE(kernel, nullptr);
    std::vector<uint8_t> parameters(kernel->parameter_bytes);
    std::memcpy(parameters.data(), &out_, sizeof out_);
    size_t at = sizeof out_;
    (..., (std::memcpy(parameters.data() + at, &arguments, 4), at += 4));
    Enqueue(stream, name, [=]() -> monsoon::emulator::Run {
      return
          [=](uint32_t operation) { RunKernel(*kernel, configuration, 0, parameters, operation); };
    });
  }

  Words Get() {
    Synchronize(*stream_);
    Words values(words_);
    std::memcpy(values.data(), ToHost(out_), 4 * words_);
    return values;
  }

  // What the emulator says of it.
  uint64_t ReportsOf(const std::function<void()>& run) {
    const uint64_t before = ReportCount();
    run();
    Synchronize(*stream_);
    return ReportCount() - before;
  }

  Stream* stream_ = NewStream(0);
  uint64_t out_ = 0;
  size_t words_ = 0;
};

TEST_F(PtxTest, Integers) {
  Allocate(30);
  const uint32_t a = 0xFFFFFEDC;  // -292
  const uint32_t b = 0x00000015;  // 21
  EXPECT_EQ(ReportsOf([&] { Launch(*stream_, "Integers", {{1, 1, 1}, {1, 1, 1}, 0}, a, b); }), 0u);
  const Words got = Get();
  const int64_t product = int64_t{-292} * 21;
  const uint64_t wide = uint64_t{a} * b + 5;
  const Words want = {a + b, static_cast<uint32_t>(uint64_t{a} * b >> 32), 0xFFFFFFFF, got[3],
                      static_cast<uint32_t>(product), static_cast<uint32_t>(product >> 32),
                      static_cast<uint32_t>(wide), static_cast<uint32_t>(wide >> 32),
                      static_cast<uint32_t>(-13), static_cast<uint32_t>(-19), a / b,
                      static_cast<uint32_t>(-19), 0, 0x80000000, 0xED, 0xFFFFFFED, 0xFFFFF5DC,
                      // prmt: bytes 0, 1, 4 and 7 of b:a.
                      0x0015FEDC,
                      // lop3 with 0xCA: a ? b : c.
                      (a & b) | (~a & 0x0F0F0F0F), b << 4 | a >> 28, b, 0xA8000000, 27, 28, 1, 2, a,
                      a,
                      20,  // a is not >= 0; it is below b
                      0xFFFFFFFF};
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i], want[i]) << i;
  }
}

TEST_F(PtxTest, Floats) {
  Allocate(30);
  const float a = 1.1f;
  const float b = 1.3f;
  const float c = 0.7f;
  EXPECT_EQ(ReportsOf([&] { Launch(*stream_, "Floats", {{1, 1, 1}, {1, 1, 1}, 0}, a, b, c); }), 0u);
  const Words got = Get();
  const float nearest = std::fma(a, b, c);
  const double exact = double{a} * b + c;  // 48 bits, and exact
  const float down = nearest > exact ? std::nextafter(nearest, 0.0f) : nearest;
  const float up = nearest < exact ? std::nextafter(nearest, 9.0f) : nearest;
  const float third = a / 3;
  const float third_up = double{third} * 3 < a ? std::nextafter(third, 9.0f) : third;
  const double scaled = double{a} * (1.0 / 3);
  const float scaled_up = static_cast<float>(scaled) < scaled
                              ? std::nextafter(static_cast<float>(scaled), 9.0f)
                              : static_cast<float>(scaled);
  const float infinity = std::numeric_limits<float>::infinity();
  const Words want = {BitsOf(nearest),
                      BitsOf(down),
                      BitsOf(up),
                      BitsOf(down),
                      BitsOf(third),
                      BitsOf(third_up),
                      BitsOf(std::sqrt(a)),
                      BitsOf(1 / a),
                      BitsOf(a),
                      0x7FC00000,
                      0x80000000,
                      0,
                      0,
                      0,
                      BitsOf(8.0f),
                      0,  // 2^-130 is flushed
                      2 + 4 + 16 + 32,
                      static_cast<uint32_t>(-2),
                      static_cast<uint32_t>(-2),
                      0,
                      0x7FFFFFFF,
                      BitsOf(infinity),
                      0x3F820000,  // both are half way: up, and to even
                      0x3C004000,
                      BitsOf(static_cast<float>(scaled)),
                      BitsOf(scaled_up),
                      BitsOf(16777216.0f),
                      BitsOf(16777218.0f),
                      BitsOf(-a),
                      0};
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i], want[i]) << i;
  }
}

TEST_F(PtxTest, ABarrierOrdersSharedMemory) {
  Allocate(64);
  EXPECT_EQ(ReportsOf([&] { Launch(*stream_, "Reverse", {{1, 1, 1}, {64, 1, 1}, 0}); }), 0u);
  const Words got = Get();
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i], 63 - i);
  }
  EXPECT_GT(ReportsOf([&] { Launch(*stream_, "ReverseRaces", {{1, 1, 1}, {64, 1, 1}, 0}); }), 0u);
}

TEST_F(PtxTest, Warps) {
  Allocate(64 * 8);
  EXPECT_EQ(ReportsOf([&] { Launch(*stream_, "Warps", {{1, 1, 1}, {64, 1, 1}, 0}); }), 0u);
  const Words got = Get();
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t base = i / 32 * 32;
    const uint32_t lane = i % 32;
    const Words want = {32 * base + 496,
                        lane == 0 ? i : i - 1,
                        lane == 0 ? 0u : 1u,
                        lane + 3 < 32 ? i + 3 : i,
                        base + 5,
                        0xAAAAAAAA,
                        base + 31,
                        i};
    EXPECT_EQ(Words(got.begin() + 8 * i, got.begin() + 8 * i + 8), want) << i;
  }
}

TEST_F(PtxTest, GridsOfThreeDimensionsLocalMemoryAndJumpTables) {
  Allocate(2 * 3 * 4);
  EXPECT_EQ(ReportsOf([&] { Launch(*stream_, "Places", {{1, 3, 2}, {1, 4, 1}, 0}); }), 0u);
  const Words got = Get();
  for (uint32_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], i + 2 + (i % 4 == 0 ? 100 : i % 4 == 1 ? 200 : 300)) << i;
  }
}

TEST_F(PtxTest, ChecksGlobalMemory) {
  Allocate(64);
  const LaunchConfiguration one{{1, 1, 1}, {32, 1, 1}, 0};
  EXPECT_GT(ReportsOf([&] { Launch(*stream_, "Shift", one, 32u); }), 0u) << "not written";
  Fill(*stream_, Words(64, 7));
  EXPECT_EQ(ReportsOf([&] { Launch(*stream_, "Shift", one, 32u); }), 0u);
  EXPECT_GT(ReportsOf([&] { Launch(*stream_, "Shift", one, 1u); }), 0u) << "threads race";
}

TEST_F(PtxTest, ChecksTheOrderOfStreams) {
  Allocate(64);
  Stream* const other = NewStream(0);
  Event* const filled = NewEvent(0);
  const LaunchConfiguration one{{1, 1, 1}, {32, 1, 1}, 0};
  EXPECT_EQ(ReportsOf([&] {
              Fill(*other, Words(64, 7));
              RecordEvent(*other, *filled);
              WaitForEvent(*stream_, *filled);
              Launch(*stream_, "Shift", one, 32u);
            }),
            0u);
  EXPECT_GT(ReportsOf([&] {
              Launch(*stream_, "Shift", one, 32u);
              Fill(*other, Words(64, 8));
              Synchronize(*other);
            }),
            0u);
  DestroyEvent(filled);
  DestroyStream(other);
}

TEST_F(PtxTest, ChecksBarriers) {
  Allocate(1);
  EXPECT_GT(ReportsOf([&] { Launch(*stream_, "HalfAtBarrier", {{1, 1, 1}, {64, 1, 1}, 0}); }), 0u);
}

// Loses the device, and so comes last.
TEST_F(PtxTest, ZLosesTheDeviceByAMisalignedAccess) {
  Allocate(64);
  Fill(*stream_, Words(64, 7));
  EXPECT_GT(ReportsOf([&] {
              Launch(*stream_, "MisalignedVector", {{1, 1, 1}, {1, 1, 1}, 0});
            }),
            0u);
  EXPECT_EQ(DeviceError(0), 716);
}

}  // namespace
}  // namespace monsoon::emulator
