#include "common/model/parameter_layout.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kLenet[] = R"pb(
  input_shape: [ 1, 28, 28 ]
  layer { conv2d { filters: 20 kernel: 3 } }
  layer { relu {} }
  layer { average_pool2d { window: 2 } }
  layer { conv2d { filters: 50 kernel: 5 } }
  layer { relu {} }
  layer { average_pool2d { window: 2 } }
  layer { flatten {} }
  layer { dense { units: 128 } }
  layer { relu {} }
  layer { dense { units: 10 } }
)pb";

constexpr char kMlp[] = R"pb(
  input_shape: [ 784 ]
  layer { dense { units: 128 } }
  layer { relu {} }
  layer { dense { units: 10 } }
)pb";

Model Parse(const std::string& text) {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model;
}

absl::StatusOr<ParameterLayout> Layout(const std::string& text) {
  return ParameterLayout::Create(Parse(text));
}

TEST(ParameterLayoutTest, LenetHas129068Parameters) {
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, Layout(kLenet));
  EXPECT_EQ(layout.parameters(), 129068u);
  EXPECT_EQ(layout.output_units(), 10u);
  std::vector<std::string> names;
  for (const TensorInfo& tensor : layout.tensors()) {
    names.push_back(tensor.name);
  }
  EXPECT_THAT(names, ElementsAre("conv1/weight", "conv1/bias", "conv2/weight", "conv2/bias",
                                 "dense1/weight", "dense1/bias", "dense2/weight", "dense2/bias"));
  EXPECT_THAT(layout.tensors()[2].shape, ElementsAre(50, 20, 5, 5));
  EXPECT_THAT(layout.tensors()[4].shape, ElementsAre(128, 800));
  EXPECT_EQ(layout.tensors()[2].fan_in, 500u);
  EXPECT_EQ(layout.tensors()[2].fan_out, 1250u);
  EXPECT_THAT(layout.layers()[2].output_shape, ElementsAre(20, 13, 13));
  EXPECT_THAT(layout.layers()[5].output_shape, ElementsAre(50, 4, 4));
}

TEST(ParameterLayoutTest, MlpHas101770Parameters) {
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, Layout(kMlp));
  EXPECT_EQ(layout.parameters(), 101770u);
  EXPECT_THAT(layout.tensors()[0].shape, ElementsAre(128, 784));
  EXPECT_THAT(layout.layers()[1].tensors, IsEmpty());
  EXPECT_THAT(layout.layers()[2].tensors, ElementsAre(2, 3));
}

TEST(ParameterLayoutTest, TensorsAreAlignedApartAndInOrder) {
  for (const char* text : {kLenet, kMlp}) {
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, Layout(text));
    uint64_t end = 0, counted = 0;
    for (const TensorInfo& tensor : layout.tensors()) {
      EXPECT_EQ(tensor.offset % kAlignmentFloats, 0u) << tensor.name;
      EXPECT_GE(tensor.offset, end) << tensor.name;
      EXPECT_LT(tensor.offset, end + kAlignmentFloats) << tensor.name;
      end = tensor.offset + tensor.size;
      counted += tensor.size;
    }
    EXPECT_EQ(counted, layout.parameters());
    EXPECT_EQ(layout.size() % kAlignmentFloats, 0u);
    EXPECT_GE(layout.size(), end);
    EXPECT_LT(layout.size(), end + kAlignmentFloats);
  }
}

TEST(ParameterLayoutTest, StridePaddingAndDefaultsGiveTheExpectedShapes) {
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, Layout(R"pb(
                         input_shape: [ 3, 11, 8 ]
                         layer {
                           name: "a"
                           conv2d { filters: 4 kernel: 3 stride: 2 padding: 1 no_bias: true }
                         }
                         layer { max_pool2d { window: 3 stride: 1 } }
                         layer { dropout { rate: 0.5 } }
                         layer { flatten {} }
                         layer { tanh {} }
                       )pb"));
  EXPECT_THAT(layout.layers()[0].output_shape, ElementsAre(4, 6, 4));
  EXPECT_THAT(layout.layers()[1].output_shape, ElementsAre(4, 4, 2));
  EXPECT_EQ(layout.output_units(), 32u);
  ASSERT_EQ(layout.tensors().size(), 1u);
  EXPECT_EQ(layout.tensors()[0].name, "a/weight");
  EXPECT_THAT(layout.layers()[0].tensors, ElementsAre(0));
}

TEST(ParameterLayoutTest, HashTellsModelsApart) {
  const std::vector<std::string> models = {
      kLenet,
      kMlp,
      "input_shape: [16] layer { dense { units: 4 } }",
      "input_shape: [16] layer { name: 'other' dense { units: 4 } }",
      "input_shape: [16] layer { dense { units: 4 no_bias: true } }",
      "input_shape: [16] layer { dense { units: 4 } } layer { relu {} }",
      "input_shape: [16] layer { dense { units: 4 } } layer { tanh {} }",
      "input_shape: [16] layer { dense { units: 4 } } layer { dropout { rate: 0.5 } }",
      "input_shape: [16] layer { dense { units: 4 } } layer { dropout { rate: 0.25 } }",
      "input_shape: [1,6,6] layer { conv2d { filters: 1 kernel: 2 } } layer { flatten {} }",
      "input_shape: [1,4,9] layer { conv2d { filters: 1 kernel: 2 } } layer { flatten {} }",
      "input_shape: [1,6,6] layer { conv2d { filters: 1 kernel: 2 stride: 2 } }"
      "layer { flatten {} }",
      "input_shape: [1,6,6] layer { conv2d { filters: 1 kernel: 2 padding: 1 } }"
      "layer { flatten {} }",
  };
  std::set<uint64_t> hashes;
  for (const std::string& text : models) {
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, Layout(text));
    hashes.insert(layout.Hash());
    ASSERT_OK_AND_ASSIGN(const ParameterLayout again, Layout(text));
    EXPECT_EQ(again.Hash(), layout.Hash());
  }
  EXPECT_EQ(hashes.size(), models.size());
}

TEST(ParameterLayoutTest, InitialisersDoNotChangeTheHash) {
  ASSERT_OK_AND_ASSIGN(const ParameterLayout one,
                       Layout("input_shape: [16] layer { dense { units: 4 } }"));
  ASSERT_OK_AND_ASSIGN(const ParameterLayout two,
                       Layout("input_shape: [16] layer { dense { units: 4 weight_initializer { "
                              "normal: 0.01 } } }"));
  EXPECT_EQ(one.Hash(), two.Hash());
}

struct BadModel {
  const char* text;
  std::vector<std::string> says;
};

TEST(ParameterLayoutTest, ErrorsNameTheLayerAndWhatToDo) {
  const std::vector<BadModel> cases = {
      {"layer { dense { units: 4 } }", {"input_shape"}},
      {"input_shape: [1,1,1,1] layer { flatten {} }", {"input_shape", "1 to 3"}},
      {"input_shape: [1,0] layer { flatten {} }", {"input_shape", "1 .. "}},
      {"input_shape: [16777217] layer { dense { units: 4 } }", {"input_shape"}},
      {"input_shape: [16777216, 16777216] layer { flatten {} }", {"more than 16777216"}},
      {"input_shape: [4]", {"at least one layer"}},
      {"input_shape: [4] layer {}", {"no kind"}},
      {"input_shape: [4] layer { relu {} }", {"no layer with parameters"}},
      {"input_shape: [1,4,4] layer { dense { units: 4 } }", {"\"dense1\"", "[1, 4, 4]", "flatten"}},
      {"input_shape: [3] layer { relu {} } layer { name: 'table' embedding { rows: 9 columns: 2 } "
       "}",
       {"\"table\"", "the sample's ids", "\"input\""}},
      {"input_shape: [4] layer { name: 'head' dense {} }", {"\"head\"", "units"}},
      {"input_shape: [4] layer { conv2d { filters: 1 kernel: 1 } }",
       {"\"conv1\"", "[channels, height, width]", "[4]"}},
      {"input_shape: [1,4,4] layer { conv2d { kernel: 1 } }", {"\"conv1\"", "filters"}},
      {"input_shape: [1,4,4] layer { conv2d { filters: 1 } }", {"\"conv1\"", "window"}},
      {"input_shape: [1,4,4] layer { conv2d { filters: 1 kernel: 7 padding: 1 } }",
       {"\"conv1\"", "7", "6 (padding included)"}},
      {"input_shape: [1,4,4] layer { conv2d { filters: 1 kernel: 2 stride: 16777217 } }",
       {"\"conv1\"", "a stride of 16777217 is over 2^24"}},
      {"input_shape: [1,4,9] layer { max_pool2d { window: 5 } }", {"5", "4"}},
      {"input_shape: [4] layer { average_pool2d { window: 2 } }", {"[4]"}},
      {"input_shape: [1,4,4] layer { average_pool2d {} }", {"at least 1"}},
      {"input_shape: [4] layer { dense { units: 4 } } layer { dropout { rate: 1 } }",
       {"dropout", "[0, 1)"}},
      {"input_shape: [4] layer { dense { units: 4 } } layer { dropout { rate: nan } }",
       {"dropout", "[0, 1)"}},
      {"input_shape: [1,4,4] layer { conv2d { filters: 2 kernel: 1 } }",
       {"\"conv1\"", "[2, 4, 4]", "flatten"}},
      {"input_shape: [4] layer { name: 'a' dense { units: 4 } } layer { name: 'a' relu {} }",
       {"\"a\"", "twice"}},
      {"input_shape: [1,4096,4096] layer { conv2d { filters: 2 kernel: 1 } }",
       {"\"conv1\"", "more than 16777216"}},
  };
  for (const BadModel& bad : cases) {
    const absl::Status status = Layout(bad.text).status();
    for (const std::string& part : bad.says) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
          << bad.text;
    }
  }
}

}  // namespace

Model Listed(std::vector<std::pair<std::string, std::vector<uint32_t>>> tensors) {
  Model model;
  for (const auto& [name, shape] : tensors) {
    ModelTensor* const tensor = model.add_tensor();
    tensor->set_name(name);
    tensor->mutable_shape()->Add(shape.begin(), shape.end());
  }
  return model;
}

TEST(ParameterLayoutTest, ListedTensorsLieInTheirOrderAligned) {
  Model model = Listed({{"wte.weight", {3, 5}}, {"ln.bias", {7}}, {"scale", {}}});
  model.mutable_tensor(0)->add_alias("head.weight");
  model.mutable_tensor(1)->set_kind(ModelTensor::STATISTIC);
  const auto layout = ParameterLayout::Create(model);
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->tensors().size(), 3u);
  EXPECT_EQ(layout->tensors()[1].offset, 16u);
  EXPECT_TRUE(layout->tensors()[1].is_statistic);
  EXPECT_EQ(layout->tensors()[2].offset, 32u);
  EXPECT_EQ(layout->tensors()[2].size, 1u);
  EXPECT_EQ(layout->parameters(), 23u);
  EXPECT_EQ(layout->size(), 48u);
  EXPECT_TRUE(layout->layers().empty());
  EXPECT_EQ(layout->output_units(), 0u);
}

TEST(ParameterLayoutTest, HashOfListedTensorsTellsNamesShapesKindsAndAliasesApart) {
  const Model model = Listed({{"a", {2, 3}}, {"b", {4}}});
  std::set<uint64_t> hashes = {ParameterLayout::Create(model)->Hash()};
  hashes.insert(ParameterLayout::Create(Listed({{"a", {3, 2}}, {"b", {4}}}))->Hash());
  hashes.insert(ParameterLayout::Create(Listed({{"a", {2, 3}}, {"c", {4}}}))->Hash());
  hashes.insert(ParameterLayout::Create(Listed({{"b", {4}}, {"a", {2, 3}}}))->Hash());
  Model other = model;
  other.mutable_tensor(1)->set_kind(ModelTensor::STATISTIC);
  hashes.insert(ParameterLayout::Create(other)->Hash());
  other = model;
  other.mutable_tensor(1)->add_alias("c");
  hashes.insert(ParameterLayout::Create(other)->Hash());
  EXPECT_EQ(hashes.size(), 6u);
}

TEST(ParameterLayoutTest, ErrorsNameTheListedTensor) {
  const auto message = [](const Model& model) {
    return std::string(ParameterLayout::Create(model).status().message());
  };
  EXPECT_THAT(message(Listed({{"a", {2}}, {"a", {2}}})),
              HasSubstr("\"a\": the name is used twice"));
  EXPECT_THAT(message(Listed({{"a b", {2}}})), HasSubstr("printable"));
  EXPECT_THAT(message(Listed({{"../a", {2}}})), HasSubstr("no path that leaves its folder"));
  EXPECT_THAT(message(Listed({{"a", {2, 0}}})), HasSubstr("[2, 0] has no elements"));
  EXPECT_THAT(message(Listed({{"a", {1u << 31, 1u << 31}}})), HasSubstr("or too many"));
  Model both = Listed({{"a", {2}}});
  both.add_input_shape(3);
  EXPECT_THAT(message(both), HasSubstr("not both"));
}

}  // namespace monsoon
