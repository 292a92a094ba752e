#include "common/model/tensor_slices.h"

#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

// Of 10, 40 and 3 floats, from 0, 16 and 64 on.
ParameterLayout Layout() {
  Model model;
  for (const uint32_t size : {10u, 40u, 3u}) {
    ModelTensor* const tensor = model.add_tensor();
    tensor->set_name(std::string(size, 't'));
    tensor->add_shape(size);
  }
  return *ParameterLayout::Create(model);
}

TEST(TensorSlicesTest, APartHasWhatLiesInIt) {
  const ParameterLayout layout = Layout();
  const std::vector<TensorSlice> all = TensorSlices(layout, {0, layout.size()});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].floats.begin, 16u);
  EXPECT_EQ(all[1].floats.end, 56u);

  const std::vector<TensorSlice> part = TensorSlices(layout, {32, 80});
  ASSERT_EQ(part.size(), 2u);
  EXPECT_EQ(part[0].number, 1u);
  EXPECT_EQ(part[0].floats.begin, 0u);
  EXPECT_EQ(part[0].floats.end, 24u);
  EXPECT_EQ(part[1].number, 2u);
  EXPECT_EQ(part[1].floats.begin, 32u);
  EXPECT_EQ(part[1].floats.end, 35u);
  EXPECT_TRUE(TensorSlices(layout, {10, 16}).empty()) << "padding alone";
}

TEST(TensorSlicesTest, WhatIsCommonIsKept) {
  std::vector<TensorSlice> kept = {{1, {0, 4}}, {3, {16, 20}}, {7, {32, 40}}};
  KeepCommon(std::vector<TensorSlice>{{1, {0, 4}}, {2, {8, 9}}, {7, {32, 40}}}, &kept);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].number, 1u);
  EXPECT_EQ(kept[1].number, 7u);
  KeepCommon({}, &kept);
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace monsoon
