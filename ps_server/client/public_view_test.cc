#include "ps_server/client/public_view.h"

#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kFloats = 16;  // of each of two stripes

class PublicViewTest : public ::testing::Test {
 protected:
  absl::StatusOr<bool> Take(uint32_t stripe, uint64_t epoch, uint64_t version, bool changed,
                            const std::vector<std::byte>& bytes) {
    FetchRecord record;
    record.set_stripe(stripe);
    record.set_version(version);
    record.set_changed(changed);
    record.set_length(static_cast<uint32_t>(bytes.size()));
    const ByteChunk chunk = {bytes.data(), bytes.size()};
    ChunkCursor payload(std::span(&chunk, 1));
    return view_.Take(0, record, epoch, &payload, out_);
  }
  absl::StatusOr<bool> TakeWhole(uint32_t stripe, uint64_t epoch, uint64_t version, float value) {
    const std::vector<float> floats(kFloats, value);
    std::vector<std::byte> bytes(kFloats * sizeof(float));
    std::memcpy(bytes.data(), floats.data(), bytes.size());
    return Take(stripe, epoch, version, false, bytes);
  }
  // So many steps of 1.
  static std::vector<std::byte> Steps(int count) {
    std::vector<std::byte> step(2 * kFloats), all;
    TensorCodec::Find(BFLOAT16)->Encode(std::vector<float>(kFloats, 1.0f), step);
    for (int i = 0; i < count; ++i) all.insert(all.end(), step.begin(), step.end());
    return all;
  }
  FetchRequest Known(uint32_t stripes = 2) {
    FetchRequest request;
    request.set_stripe_count(stripes);
    view_.AddKnown(0, &request);
    return request;
  }

  PublicView view_{*ShardMap::Create(2 * kFloats, 1, 64), BFLOAT16};
  std::vector<float> out_ = std::vector<float>(kFloats);
};

TEST_F(PublicViewTest, ItFollowsTheShardsSteps) {
  EXPECT_EQ(Known().known_epoch(), 0u);
  EXPECT_TRUE(Known().changes());
  view_.BeginExchange();
  EXPECT_TRUE(*TakeWhole(0, 7, 3, 0.5f));
  EXPECT_EQ(out_[5], 0.5f);
  EXPECT_EQ(Known().known_epoch(), 0u) << "of stripe 1 nothing is known";
  EXPECT_THAT(Known(1).known_version(), ElementsAre(3));
  EXPECT_TRUE(*TakeWhole(1, 7, 9, 2));
  EXPECT_EQ(Known().known_epoch(), 7u);
  EXPECT_THAT(Known().known_version(), ElementsAre(3, 9));
  view_.BeginExchange();
  EXPECT_TRUE(*Take(0, 7, 5, true, Steps(2)));
  EXPECT_EQ(out_[15], 2.5f);
  EXPECT_TRUE(*Take(1, 7, 9, true, {}));
  EXPECT_EQ(out_[0], 2.0f);
  EXPECT_THAT(Known().known_version(), ElementsAre(5, 9));
}

// The stream was cut, and the request sent again.
TEST_F(PublicViewTest, StepsThatComeTwiceInOneExchangeCountOnce) {
  view_.BeginExchange();
  ASSERT_OK(TakeWhole(0, 7, 3, 0));
  view_.BeginExchange();
  EXPECT_TRUE(*Take(0, 7, 4, true, Steps(1)));
  EXPECT_FALSE(*Take(0, 7, 5, true, Steps(2)));
  EXPECT_EQ(out_[0], 1.0f);
  EXPECT_THAT(Known(1).known_version(), ElementsAre(4));
}

TEST_F(PublicViewTest, StripesOfTwoLivesComeWhole) {
  view_.BeginExchange();
  ASSERT_OK(TakeWhole(0, 7, 3, 0));
  ASSERT_OK(TakeWhole(1, 8, 3, 0));
  EXPECT_EQ(Known().known_epoch(), 0u);
  EXPECT_THAT(Known().known_version(), IsEmpty());
}

TEST_F(PublicViewTest, WhatCannotBeIsSaid) {
  view_.BeginExchange();
  const auto broken = [](const char* text) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(text));
  };
  EXPECT_THAT(Take(0, 7, 4, true, Steps(1)), broken("stripe 0 of shard 0 came with 32 bytes"));
  ASSERT_OK(TakeWhole(0, 7, 3, 0));
  view_.BeginExchange();
  EXPECT_THAT(Take(0, 8, 4, true, Steps(1)), broken("of changes")) << "of another life";
  std::vector<std::byte> torn = Steps(1);
  torn.pop_back();
  EXPECT_THAT(Take(0, 7, 4, true, torn), broken("31 bytes of changes"));
  EXPECT_THAT(Take(0, 7, 4, false, torn), broken("31 bytes of its public copy"));
  EXPECT_THAT(Known(1).known_version(), ElementsAre(3)) << "nothing was taken";
}

}  // namespace
}  // namespace monsoon
