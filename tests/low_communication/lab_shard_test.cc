#include "tests/low_communication/lab_shard.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::google::protobuf::TextFormat;
using ::testing::Each;
using ::testing::HasSubstr;
using Vector = std::vector<float>;

constexpr size_t kFloats = 64;  // four stripes of a line

LabOptions Options(const std::string& downpour, const std::string& local = "") {
  LabOptions options;
  EXPECT_TRUE(TextFormat::ParseFromString(
      "name: \"m\" tensor { name: \"a.0.w\" shape: 32 } tensor { name: \"a.1.w\" shape: 32 }",
      &options.model));
  EXPECT_TRUE(TextFormat::ParseFromString("workers: 2 local { steps: 8 " + local + " } " + downpour,
                                          &options.downpour));
  options.stripe_bytes = 64;
  return options;
}

std::unique_ptr<LabShard> Make(const std::string& downpour, const std::string& local = "") {
  auto lab = LabShard::Create(Options(downpour, local), Vector(kFloats, 1.0f));
  EXPECT_OK(lab.status());
  return *std::move(lab);
}

TEST(LabShardTest, PushesAreAppliedAndTheirStalenessTold) {
  auto lab = Make("optimizer { sgd { rate: 0.5 } }");
  Vector w(kFloats);
  ASSERT_OK_AND_ASSIGN(const bool first, lab->Fetch(0, std::nullopt, w));
  EXPECT_TRUE(first);
  EXPECT_THAT(w, Each(1.0f));
  EXPECT_OK(lab->Fetch(1, std::nullopt, w).status());
  ASSERT_OK_AND_ASSIGN(const auto own, lab->Push(0, Vector(kFloats, 1.0f), 1));
  EXPECT_EQ(own.staleness, 0);
  EXPECT_EQ(own.stripes, 4u);
  EXPECT_EQ(own.bytes, kFloats * sizeof(float));
  ASSERT_OK_AND_ASSIGN(const auto late, lab->Push(1, Vector(kFloats, 0.5f), 1));
  EXPECT_EQ(late.staleness, 4);  // one version on each stripe
  ASSERT_OK(lab->Read(w));
  EXPECT_THAT(w, Each(0.25f));
}

TEST(LabShardTest, ARoundEndsWhenAllAreInOrPass) {
  auto lab = Make("optimizer { sgd { rate: 1 } } rounds {}");
  Vector w(kFloats);
  ASSERT_OK(lab->Push(0, Vector(kFloats, 0.25f), 1).status());
  ASSERT_OK_AND_ASSIGN(const bool open, lab->Fetch(0, std::nullopt, w));
  EXPECT_FALSE(open);
  ASSERT_OK(lab->Push(1, Vector(kFloats, 0.5f), 3).status());
  ASSERT_OK_AND_ASSIGN(const bool over, lab->Fetch(0, std::nullopt, w));
  EXPECT_TRUE(over);
  EXPECT_THAT(w, Each(1.0f - (0.25f + 3 * 0.5f) / 4));
  ASSERT_OK(lab->Push(1, Vector(kFloats, 0.0625f), 1).status());
  ASSERT_OK(lab->Pass(0));
  ASSERT_OK(lab->Read(w));
  EXPECT_THAT(w, Each(0.5f));
}

TEST(LabShardTest, AGraceEndsAtVirtualTime) {
  auto lab = Make("optimizer { sgd { rate: 1 } } rounds { quorum: 1 grace_seconds: 2 }");
  Vector w(kFloats);
  ASSERT_OK(lab->Push(0, Vector(kFloats, 1.0f), 1).status());
  lab->Advance(absl::Seconds(1.5));
  ASSERT_OK_AND_ASSIGN(const bool early, lab->Fetch(0, std::nullopt, w));
  EXPECT_FALSE(early);
  lab->Advance(absl::Seconds(0.5));
  ASSERT_OK_AND_ASSIGN(const bool over, lab->Fetch(0, std::nullopt, w));
  EXPECT_TRUE(over);
  EXPECT_THAT(w, Each(0.0f));
}

TEST(LabShardTest, FragmentsLeaveInTurn) {
  auto lab = Make("optimizer { sgd { rate: 1 } } push_format: INT4", "fragments { count: 2 }");
  Vector w(kFloats, 9.0f);
  ASSERT_OK_AND_ASSIGN(const auto first, lab->Push(0, Vector(kFloats, 0.5f), 1));
  EXPECT_EQ(first.fragment, 0u);
  EXPECT_EQ(first.stripes, 2u);
  EXPECT_EQ(first.bytes, 2 * (16 / 2 + sizeof(float)));
  ASSERT_OK(lab->Fetch(0, 0, w).status());
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(w[i], i < 32 ? 0.5f : 9.0f) << i;
  }
  ASSERT_OK_AND_ASSIGN(const auto second, lab->Push(0, Vector(kFloats, 0.5f), 1));
  EXPECT_EQ(second.fragment, 1u);
  ASSERT_OK(lab->Read(w));
  EXPECT_THAT(w, Each(0.5f));
}

TEST(LabShardTest, SlowWorkersAreToldFewerSteps) {
  auto lab = Make("optimizer { sgd { rate: 1 } }");
  EXPECT_EQ(lab->LocalSteps(0, 250), 8u);
  EXPECT_EQ(lab->LocalSteps(1, 1000), 2u);
}

TEST(LabShardTest, WhatIsWrongIsSaid) {
  EXPECT_THAT(std::string(LabShard::Create(Options(""), Vector(3)).status().message()),
              HasSubstr("initial parameters of 3 floats; the layout has 64"));
  auto lab = Make("optimizer { sgd { rate: 1 } }");
  Vector w(kFloats);
  EXPECT_THAT(std::string(lab->Fetch(2, std::nullopt, w).status().message()),
              HasSubstr("worker/2; there are 2"));
  Vector bad(kFloats);
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(std::string(lab->Push(0, bad, 1).status().message()),
              HasSubstr("REFUSED_INVALID to sequence 1"));
}

}  // namespace
}  // namespace monsoon
