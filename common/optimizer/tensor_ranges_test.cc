#include "common/optimizer/tensor_ranges.h"

#include <string>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::pair<uint64_t, uint64_t>> Pairs(const std::vector<Slice>& parts) {
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const Slice& part : parts) {
    pairs.emplace_back(part.begin, part.end);
  }
  return pairs;
}

// Tensors of 20, 3, 40 and 5 floats at 0, 32, 48 and 96; the last is a statistic.
ParameterLayout Layout() {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "tensor { name: 'a.weight' shape: 20 shape: 1 } tensor { name: 'a.bias' shape: 3 } "
      "tensor { name: 'b.weight' shape: 40 shape: 1 } "
      "tensor { name: 'b.mean' shape: 5 kind: STATISTIC }",
      &model));
  return *ParameterLayout::Create(model);
}

Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer));
  return optimizer;
}

TEST(TensorRangesTest, EachTensorIsOfTheFirstGroupThatNamesIt) {
  const ParameterLayout layout = Layout();
  const TensorRanges all =
      TensorRanges::Of(layout,
                       Parse("weight_decay_weights_only: true group { tensors: 'a.*' } group { "
                             "tensors: '*' } group { tensors: '*' }"),
                       {0, layout.size()});
  EXPECT_THAT(Pairs(all.biases), ElementsAre(Pair(32, 35)));
  EXPECT_THAT(Pairs(all.statistics), ElementsAre(Pair(96, 101)));
  ASSERT_EQ(all.groups.size(), 2u);  // the third has none
  EXPECT_THAT(Pairs(all.groups[0]), ElementsAre(Pair(0, 20), Pair(32, 35)));
  EXPECT_THAT(Pairs(all.groups[1]), ElementsAre(Pair(48, 88)));
}

TEST(TensorRangesTest, AStripeHasItsPartsOfThem) {
  const ParameterLayout layout = Layout();
  const TensorRanges all = TensorRanges::Of(
      layout, Parse("group { tensors: 'a.weight' } group { tensors: 'b.*' }"), {0, layout.size()});
  EXPECT_THAT(all.biases, IsEmpty());  // which decay like the rest
  const TensorRanges first = all.Within({0, 16});
  EXPECT_THAT(Pairs(first.groups.at(0)), ElementsAre(Pair(0, 16)));
  EXPECT_EQ(first.groups.size(), 1u);
  EXPECT_THAT(first.statistics, IsEmpty());
  const TensorRanges second = all.Within({16, 64});
  EXPECT_THAT(Pairs(second.groups.at(0)), ElementsAre(Pair(16, 20)));
  EXPECT_THAT(Pairs(second.groups.at(1)), ElementsAre(Pair(48, 64)));
  EXPECT_TRUE(all.Within({20, 48}).empty());
  EXPECT_FALSE(all.Within({64, 112}).empty());
}

}  // namespace
}  // namespace monsoon
