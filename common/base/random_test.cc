#include "common/base/random.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;

// The three philox4x32, 10 rounds, vectors of Random123's kat_vectors.
TEST(PhiloxTest, MatchesThePublishedVectors) {
  EXPECT_THAT(Philox4x32(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox4x32(~0ull, ~0ull, ~0ull),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0, each
  // least significant word first.
  EXPECT_THAT(Philox4x32(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxStreamTest, BitsAreTheWordsOfTheBlocksInOrder) {
  const PhiloxStream stream(7, StreamKind::kTest, 3);
  const uint64_t high = (uint64_t{static_cast<uint32_t>(StreamKind::kTest)} << 32) | 3;
  for (uint64_t block : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 33}) {
    const std::array<uint32_t, 4> words = Philox4x32(7, high, block);
    for (uint64_t word = 0; word < 4; ++word) {
      EXPECT_EQ(stream.Bits(4 * block + word), words[word]) << block << " " << word;
    }
  }
}

TEST(PhiloxStreamTest, SeedKindAndSubEachMakeAnotherStream) {
  std::set<std::array<uint32_t, 4>> starts;
  int streams = 0;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40}) {
    for (StreamKind kind : {StreamKind::kInitializer, StreamKind::kPermutation,
                            StreamKind::kDropout, StreamKind::kSynthetic, StreamKind::kTest}) {
      for (uint32_t sub : {0u, 1u, 0xffffffffu}) {
        const PhiloxStream stream(seed, kind, sub);
        starts.insert({stream.Bits(0), stream.Bits(1), stream.Bits(2), stream.Bits(3)});
        ++streams;
      }
    }
  }
  EXPECT_EQ(starts.size(), static_cast<size_t>(streams));
}

TEST(PhiloxStreamTest, UniformHasTheMomentsOfTheUnitInterval) {
  const PhiloxStream stream(11, StreamKind::kTest);
  constexpr int kSamples = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kSamples; ++i) {
    const float u = stream.Uniform(i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ASSERT_EQ(u * 0x1p24f, std::floor(u * 0x1p24f));
    sum += u;
    squares += double{u} * u;
  }
  // Five standard errors: sqrt(1/12 / n) and sqrt(4/45 / n).
  EXPECT_NEAR(sum / kSamples, 0.5, 5 * std::sqrt(1.0 / 12 / kSamples));
  EXPECT_NEAR(squares / kSamples, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kSamples));
}

TEST(PhiloxStreamTest, NormalHasTheMomentsOfTheStandardNormal) {
  const PhiloxStream stream(12, StreamKind::kTest);
  constexpr int kSamples = 200000;
  double moments[5] = {};
  int beyond_two = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double z = stream.Normal(i);
    ASSERT_TRUE(std::isfinite(z));
    double power = 1;
    for (double& moment : moments) {
      moment += power / kSamples;
      power *= z;
    }
    beyond_two += std::abs(z) > 2;
  }
  // Five standard errors: variances of z, z^2, z^3, z^4 are 1, 2, 15, 96.
  EXPECT_NEAR(moments[1], 0, 5 * std::sqrt(1.0 / kSamples));
  EXPECT_NEAR(moments[2], 1, 5 * std::sqrt(2.0 / kSamples));
  EXPECT_NEAR(moments[3], 0, 5 * std::sqrt(15.0 / kSamples));
  EXPECT_NEAR(moments[4], 3, 5 * std::sqrt(96.0 / kSamples));
  EXPECT_NEAR(beyond_two / double{kSamples}, 0.0455, 0.003);
}

TEST(PhiloxStreamTest, BelowStaysBelowAndIsEven) {
  const PhiloxStream stream(13, StreamKind::kTest);
  for (uint32_t bound : {1u, 2u, 7u, 0x80000001u, 0xffffffffu}) {
    for (uint64_t i = 0; i < 1000; ++i) {
      ASSERT_LT(stream.Below(i, bound), bound);
    }
  }
  constexpr uint32_t kBound = 7;
  constexpr int kSamples = 70000;
  std::vector<int> counts(kBound);
  for (int i = 0; i < kSamples; ++i) {
    ++counts[stream.Below(i, kBound)];
  }
  double chi_squared = 0;
  for (int count : counts) {
    chi_squared += (count - 10000.0) * (count - 10000.0) / 10000.0;
  }
  EXPECT_LT(chi_squared, 22.5);  // p = 0.001 at 6 degrees of freedom.
}

}  // namespace
}  // namespace monsoon
