#include "common/model/layout_difference.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

ParameterLayout LayoutOf(const std::string& layers) {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("name: \"m\" input_shape: 3 " + layers,
                                                            &model));
  return *ParameterLayout::Create(model);
}

std::string Difference(const std::string& one, const std::string& other) {
  return FirstTensorDifference(LayoutOf(one), "A", LayoutOf(other), "B");
}

TEST(LayoutDifferenceTest, NamesTheFirstTensorThatDiffers) {
  const std::string first = "layer { name: \"a\" dense { units: 2 } } ";
  const std::string second = "layer { name: \"b\" dense { units: 4 } } ";
  EXPECT_EQ(Difference(first + second, first + second), "");
  // The weights come in the order of the layers: a/weight, a/bias, b/weight, b/bias.
  EXPECT_EQ(Difference(first + second, first + "layer { name: \"b\" dense { units: 5 } }"),
            "b/weight is (4, 2) in A, but (5, 2) in B");
  EXPECT_EQ(Difference(first + second, first + "layer { name: \"c\" dense { units: 4 } }"),
            "where A has b/weight (4, 2), B has c/weight (4, 2)");
  EXPECT_EQ(Difference(first + second, first), "b/weight (4, 2) is in A, but not in B");
  EXPECT_EQ(Difference(first, first + second), "b/weight (4, 2) is in B, but not in A");
}

TEST(LayoutDifferenceTest, LayersWithoutTensorsAreNoDifference) {
  EXPECT_EQ(Difference("layer { name: \"a\" dense { units: 2 } } layer { relu {} }",
                       "layer { name: \"a\" dense { units: 2 } } layer { tanh {} }"),
            "");
}

}  // namespace
}  // namespace monsoon
