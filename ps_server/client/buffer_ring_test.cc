#include "ps_server/client/buffer_ring.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/client/kept_bytes.h"

namespace monsoon {
namespace {

std::shared_ptr<KeptBytes> TakeFilled(BufferRing* ring, size_t bytes, uint8_t with) {
  std::shared_ptr<KeptBytes> buffer = ring->Take(bytes);
  std::ranges::fill(buffer->bytes(), std::byte{with});
  return buffer;
}

bool Holds(const KeptBytes& buffer, size_t bytes, uint8_t value) {
  return buffer.size() == bytes &&
         std::ranges::all_of(buffer.bytes(), [&](std::byte b) { return b == std::byte{value}; });
}

TEST(BufferRingTest, BuffersOfAllSizesAreApartAndOutliveTheRing) {
  std::vector<std::shared_ptr<KeptBytes>> held;
  const std::vector<size_t> sizes = {1, 100, 16 << 10, 407'104, (2 << 20) - 4, 2 << 20, 5 << 20};
  {
    BufferRing ring;
    for (int round = 0; round < 8; ++round) {
      for (const size_t size : sizes) {
        held.push_back(TakeFilled(&ring, size, static_cast<uint8_t>(held.size())));
      }
    }
  }
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(Holds(*held[i], sizes[i % sizes.size()], static_cast<uint8_t>(i))) << i;
  }
}

TEST(BufferRingTest, MiddlingBuffersShareHugePages) {
  constexpr size_t kBytes = 407'104;
  BufferRing ring;
  std::vector<std::shared_ptr<KeptBytes>> held;
  for (int i = 0; i < 5; ++i) {
    held.push_back(ring.Take(kBytes));
  }
  const auto address = [&](size_t i) {
    return reinterpret_cast<uintptr_t>(held[i]->bytes().data());
  };
  EXPECT_EQ(address(0) % KeptBytes::kHugePageBytes, 0u);
  EXPECT_LT(address(4) - address(0), KeptBytes::kHugePageBytes);
}

TEST(BufferRingTest, WhatIsLetGoIsGivenOutAgain) {
  BufferRing ring;
  std::vector<std::shared_ptr<KeptBytes>> held;
  for (int i = 0; i < 10; ++i) {
    held.push_back(ring.Take(100'000));
  }
  for (int i = 0; i < 100; ++i) {
    held.erase(held.begin());
    held.push_back(TakeFilled(&ring, i % 2 == 0 ? 100'000 : 50'000, static_cast<uint8_t>(i)));
  }
  EXPECT_LE(ring.size(), 11u);
  for (int i = 90; i < 100; ++i) {
    EXPECT_TRUE(Holds(*held[i - 90], i % 2 == 0 ? 100'000 : 50'000, static_cast<uint8_t>(i)));
  }
}

}  // namespace
}  // namespace monsoon
