#include "common/memory/float_arena.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;

uintptr_t Address(std::span<float> array) { return reinterpret_cast<uintptr_t>(array.data()); }

TEST(FloatArenaTest, ArraysAreZeroAlignedApartAndStaggered) {
  constexpr size_t kArrays = 9, kFloats = 1 << 18;
  auto arena = FloatArena::Create(FloatArena::BytesFor(kArrays, kFloats));
  ASSERT_OK(arena);
  std::vector<std::span<float>> arrays;
  for (size_t i = 0; i < kArrays; ++i) {
    arrays.push_back((*arena)->Take(kFloats));
    ASSERT_EQ(arrays[i].size(), kFloats);
    EXPECT_EQ(Address(arrays[i]) % 64, 0u);
    EXPECT_TRUE(std::ranges::all_of(arrays[i], [](float value) { return value == 0.0f; }));
    std::ranges::fill(arrays[i], static_cast<float>(i + 1));
    for (size_t j = i < 2 ? 0 : i - 2; j < i; ++j) {
      EXPECT_NE(Address(arrays[i]) % 4096, Address(arrays[j]) % 4096) << i << " " << j;
    }
  }
  for (size_t i = 0; i < kArrays; ++i) {
    EXPECT_EQ(static_cast<size_t>(std::ranges::count(arrays[i], static_cast<float>(i + 1))),
              kFloats);
  }
}

TEST(FloatArenaTest, AnyLengthFits) {
  constexpr size_t kFloats = 17;
  EXPECT_EQ(FloatArena::BytesFor(3, kFloats), 3u * 128);  // small: no gap
  auto arena = FloatArena::Create(FloatArena::BytesFor(3, kFloats));
  ASSERT_OK(arena);
  for (int i = 0; i < 3; ++i) {
    const std::span<float> array = (*arena)->Take(kFloats);
    EXPECT_EQ(Address(array) % 64, 0u);
    std::ranges::fill(array, 1.0f);
  }
}

TEST(FloatArenaDeathTest, TakesNoMoreThanItHas) {
  auto arena = FloatArena::Create(FloatArena::BytesFor(1, 16));
  ASSERT_OK(arena);
  (*arena)->Take(16);
  EXPECT_DEATH((*arena)->Take(1), "bytes");
}

TEST(FloatArenaTest, TellsWhenThereIsNoMemory) {
  EXPECT_THAT(FloatArena::Create(size_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("no memory")));
}

}  // namespace
}  // namespace monsoon
