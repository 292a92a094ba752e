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

ParameterLayout WithTables(const std::string& tables) {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: \"m\" tensor { name: \"w\" shape: 3 } " + tables, &model));
  return *ParameterLayout::Create(model);
}

TEST(LayoutDifferenceTest, NamesTheFirstTableThatDiffers) {
  const std::string words = "table { name: \"words\" rows: 50 columns: 4 } ";
  const std::string users = "table { name: \"users\" rows: 9 columns: 3 } ";
  const auto difference = [](const std::string& one, const std::string& other) {
    return FirstTensorDifference(WithTables(one), "A", WithTables(other), "B");
  };
  EXPECT_EQ(difference(words + users, words + users), "");
  EXPECT_EQ(difference(words, words + users), "table users (9, 3) is in B, but not in A");
  EXPECT_EQ(difference(words + users, words), "table users (9, 3) is in A, but not in B");
  EXPECT_EQ(difference(words + users, users + words),
            "where A has table words (50, 4), B has table users (9, 3)");
  EXPECT_EQ(difference(words, "table { name: \"words\" rows: 51 columns: 4 }"),
            "table words is (50, 4) in A, but (51, 4) in B");
  EXPECT_EQ(difference(words, "table { name: \"words\" rows: 50 columns: 5 }"),
            "table words is (50, 4) in A, but (50, 5) in B");
  // How rows begin and move is no difference of the layout.
  EXPECT_EQ(difference(words,
                       "table { name: \"words\" rows: 50 columns: 4 initializer { normal: 1 }"
                       " optimizer { learning_rate: 0.5 } }"),
            "");
}

TEST(LayoutDifferenceTest, LayersWithoutTensorsAreNoDifference) {
  EXPECT_EQ(Difference("layer { name: \"a\" dense { units: 2 } } layer { relu {} }",
                       "layer { name: \"a\" dense { units: 2 } } layer { tanh {} }"),
            "");
}

}  // namespace
}  // namespace monsoon
