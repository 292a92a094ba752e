#include "common/memory/aligned_floats.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/memory/float_arena.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

uintptr_t Address(const AlignedFloats& floats) {
  return reinterpret_cast<uintptr_t>(floats.data());
}

TEST(AlignedFloatsTest, ABlockOfItsOwnIsAlignedAndZero) {
  AlignedFloats floats(33);
  EXPECT_EQ(floats.size(), 33u);
  EXPECT_EQ(Address(floats) % 64, 0u);
  for (const float value : floats.span()) {
    EXPECT_EQ(value, 0.0f);
  }
  floats.span()[32] = 1.0f;
  const AlignedFloats moved = std::move(floats);
  EXPECT_EQ(moved.span()[32], 1.0f);
  EXPECT_EQ(Address(AlignedFloats::Uninitialized(5)) % 64, 0u);
  EXPECT_EQ(AlignedFloats().size(), 0u);
}

TEST(AlignedFloatsTest, ANanFilledBlockShowsWhatNothingWrote) {
  AlignedFloats floats = AlignedFloats::NanFilled(17);
  EXPECT_EQ(floats.size(), 17u);
  EXPECT_EQ(Address(floats) % 64, 0u);
  for (const float value : floats.span()) {
    EXPECT_TRUE(std::isnan(value));
  }
  floats.Fill(2.0f);
  for (const float value : floats.span()) {
    EXPECT_EQ(value, 2.0f);
  }
  const AlignedFloats moved = std::move(floats);
  EXPECT_EQ(moved.span()[16], 2.0f);
  EXPECT_EQ(floats.data(), nullptr);
}

TEST(AlignedFloatsTest, ALargeBlockHasItsPagesToItself) {
  constexpr size_t kFloats = 16 * 1024 + 1;
  AlignedFloats first = AlignedFloats::Uninitialized(kFloats);
  AlignedFloats second = AlignedFloats::Uninitialized(kFloats);
  EXPECT_EQ(first.size(), kFloats);
  EXPECT_EQ(Address(first) % 4096, 0u);
  EXPECT_EQ(Address(second) % 4096, 0u);
  first.Fill(1.0f);
}

// A device that still has the pages must let go of them before they are freed, also
// where another block takes the place.
TEST(AlignedFloatsTest, ALockGoesBeforeItsMemory) {
  std::vector<float> seen;
  const auto lock = [&seen](AlignedFloats* floats) {
    return std::shared_ptr<void>(nullptr, [&seen, data = floats->data()](void*) {
      seen.push_back(data[0]);  // AddressSanitizer: not freed yet
    });
  };
  AlignedFloats floats = AlignedFloats::NanFilled(17);
  floats.Fill(1.0f);
  floats.Keep(lock(&floats));
  AlignedFloats moved = std::move(floats);
  EXPECT_THAT(seen, IsEmpty());
  moved = AlignedFloats(3);
  EXPECT_THAT(seen, ElementsAre(1.0f));
  moved.Keep(lock(&moved));
  moved = AlignedFloats();
  EXPECT_THAT(seen, ElementsAre(1.0f, 0.0f));
}

TEST(AlignedFloatsTest, ABlockOfAnArenaKeepsTheArena) {
  constexpr size_t kFloats = 1024;
  auto arena = FloatArena::Create(FloatArena::BytesFor(2, kFloats));
  ASSERT_OK(arena);
  AlignedFloats w(*arena, kFloats), h(*arena, kFloats);
  const std::weak_ptr<FloatArena> watched = *arena;
  arena->reset();
  EXPECT_NE(Address(w) % 4096, Address(h) % 4096);
  EXPECT_EQ(Address(w) % 64, 0u);
  EXPECT_EQ(Address(h) % 64, 0u);
  w.span()[kFloats - 1] = 1.0f;
  EXPECT_EQ(h.span()[0], 0.0f);
  w = AlignedFloats();
  EXPECT_FALSE(watched.expired());
  h.span()[kFloats - 1] = 1.0f;
  h = AlignedFloats();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace monsoon
