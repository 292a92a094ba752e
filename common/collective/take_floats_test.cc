#include "common/collective/take_floats.h"

#include <algorithm>
#include <span>
#include <vector>

#include "common/simd/simd_level.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

std::vector<float> Values(size_t size, float scale) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = scale * static_cast<float>(i % 1013) / 3.0f;
  }
  return values;
}

// As gRPC may give a payload: cut anywhere, or at an odd address.
std::vector<std::vector<ByteChunk>> Cuts(std::span<const std::byte> bytes) {
  std::vector<std::vector<ByteChunk>> cuts = {{bytes}};
  for (const size_t piece : {1, 3, 4, 1000, 16384}) {
    std::vector<ByteChunk>& chunks = cuts.emplace_back();
    for (size_t at = 0; at < bytes.size(); at += piece) {
      chunks.push_back(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    }
  }
  return cuts;
}

TEST(TakeFloatsTest, AddsAndCopiesHoweverThePayloadIsCutAtEachLevel) {
  for (const SimdLevel level : SupportedSimdLevels()) {
    const ScopedSimdLevel scoped(level);
    for (const size_t size : {0, 1, 7, 16, 1000, 5000}) {
      const std::vector<float> came = Values(size, 1.0f), own = Values(size, -0.7f);
      std::vector<float> sum = own;
      for (size_t i = 0; i < size; ++i) {
        sum[i] = came[i] + own[i];
      }
      std::vector<std::byte> odd(size * sizeof(float) + 1);
      std::ranges::copy(std::as_bytes(std::span(came)), odd.begin() + 1);
      std::vector<std::vector<ByteChunk>> all = Cuts(std::as_bytes(std::span(came)));
      all.push_back({std::span(odd).subspan(1)});
      for (const std::vector<ByteChunk>& chunks : all) {
        std::vector<float> to = own;
        ChunkCursor adds(chunks), copies(chunks);
        AddFloats(&adds, to);
        EXPECT_EQ(to, sum);
        EXPECT_EQ(adds.remaining(), 0u);
        CopyFloats(&copies, to);
        EXPECT_EQ(to, came);
      }
    }
  }
}

TEST(TakeFloatsTest, SumsFromTheFirstToTheLastAndMayWriteOverAny) {
  const std::vector<float> a(3000, 1e8f), b(3000, 1.0f), c(3000, -1e8f);
  for (int over = 0; over < 4; ++over) {
    std::vector<std::vector<float>> operands = {a, b, c, std::vector<float>(3000)};
    SumFloats(std::vector<std::span<const float>>{operands[0], operands[1], operands[2]},
              operands[over]);
    EXPECT_EQ(operands[over], std::vector<float>(3000, 0.0f)) << over;  // (1e8 + 1) - 1e8
  }
  std::vector<float> copy(3000);
  SumFloats(std::vector<std::span<const float>>{b}, copy);
  EXPECT_EQ(copy, b);
}

}  // namespace
}  // namespace monsoon
