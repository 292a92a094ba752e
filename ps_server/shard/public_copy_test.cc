#include "ps_server/shard/public_copy.h"

#include <cmath>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/codec/wire_formats.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Vector = std::vector<float>;

Vector Followed(const PublicCopy& copy, Vector from, uint64_t known, WireFormat format) {
  const auto steps = copy.StepsFrom(known);
  EXPECT_TRUE(steps.has_value());
  Vector change(from.size());
  for (const auto& step : *steps) {
    EXPECT_OK(TensorCodec::Find(format)->Decode(step, change));
    for (size_t i = 0; i < from.size(); ++i) from[i] += change[i];
  }
  return from;
}

TEST(PublicCopyTest, AStepIsRoundedAndTheRestComesWithTheNext) {
  // bfloat16 has 8 bits: 1 + 2^-8 is between 1 and 1 + 2^-7, and goes to the even one.
  Vector memory(1);
  PublicCopy copy(BFLOAT16, memory);
  copy.Publish(Vector{2.0f}, 5);
  EXPECT_EQ(copy.version(), 5u);
  EXPECT_EQ(memory[0], 2.0f);
  copy.Publish(Vector{3.0f + 0x1p-8f}, 6);
  EXPECT_EQ(memory[0], 3.0f);
  copy.Publish(Vector{3.0f + 0x1p-8f}, 7);  // the parameters stand still
  EXPECT_EQ(memory[0], 3.0f + 0x1p-8f);
  EXPECT_THAT(*copy.StepsFrom(7), IsEmpty());
  // Two steps of two bytes are no fewer than four.
  EXPECT_THAT(*copy.StepsFrom(6), SizeIs(1));
  EXPECT_FALSE(copy.StepsFrom(5).has_value());
  EXPECT_FALSE(copy.StepsFrom(4).has_value());
  EXPECT_FALSE(copy.StepsFrom(8).has_value());
}

TEST(PublicCopyTest, WhoFollowsHasItsBitsFromWhereverItBegan) {
  for (const FormatTraits& traits : WireFormats()) {
    const WireFormat format = traits.format;
    if (traits.no_changes != nullptr) {
      continue;
    }
    SCOPED_TRACE(WireFormat_Name(format));
    constexpr size_t kFloats = 600;
    Vector memory(kFloats), w(kFloats);
    PublicCopy copy(format, memory);
    std::vector<Vector> at;
    for (uint64_t version = 0; version < 12; ++version) {
      for (size_t i = 0; i < kFloats; ++i) {
        w[i] += 0.1f * std::sin(static_cast<float>(i * 7 + version * 13));
      }
      copy.Publish(w, version);
      at.push_back(memory);
    }
    size_t followed = 0;
    for (uint64_t known = 0; known < 12; ++known) {
      const auto steps = copy.StepsFrom(known);
      if (!steps.has_value()) continue;
      ++followed;
      size_t bytes = 0;
      for (const auto& step : *steps) bytes += step.size();
      EXPECT_LT(bytes, kFloats * sizeof(float));
      EXPECT_EQ(Followed(copy, at[known], known, format), memory) << "from " << known;
    }
    // Of fewer bytes than the whole: 2400 / 312, / 612, / 1200 steps.
    EXPECT_EQ(followed, format == INT4 ? 8u : format == INT8 ? 4u : 2u);
  }
}

TEST(PublicCopyTest, ParametersThatStandStillAreReached) {
  Vector memory(256), w(256);
  PublicCopy copy(INT4, memory);
  copy.Publish(w, 0);
  for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(static_cast<float>(i));
  // 4 bits: 7 steps each side of a block's largest, so that a seventh of half is left each time.
  double bound = 1.0;
  for (uint64_t version = 1; version <= 6; ++version) {
    copy.Publish(w, version);
    double off = 0;
    for (size_t i = 0; i < w.size(); ++i) off = std::max(off, std::abs(double{w[i]} - memory[i]));
    bound /= 7;
    EXPECT_LE(off, bound + 1e-6) << version;
  }
}

TEST(PublicCopyTest, ACutBeforeTheFirstPublicationIsTheParameters) {
  Vector memory(2), out(2);
  PublicCopy copy(INT8, memory);
  EXPECT_EQ(copy.Cut(Vector{1, 2}, 7, out), 7u);
  EXPECT_THAT(out, ElementsAre(1, 2));
  copy.Publish(Vector{3, 4}, 8);
  EXPECT_EQ(copy.Cut(Vector{5, 6}, 9, out), 8u);
  EXPECT_THAT(out, ElementsAre(3, 4));
  memory = {9, 10};
  copy.Restore(11);
  EXPECT_EQ(copy.version(), 11u);
  EXPECT_FALSE(copy.StepsFrom(8).has_value());
  copy.Forget();
  EXPECT_FALSE(copy.StepsFrom(11).has_value());
  copy.Publish(Vector{1, 1}, 12);
  EXPECT_THAT(memory, ElementsAre(1, 1));
}

}  // namespace
}  // namespace monsoon
