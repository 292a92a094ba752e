#include "common/npz/model_file.h"

#include <vector>

#include "common/npz/npz_reader.h"
#include "common/npz/npz_writer.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParameterLayout TinyLayout() {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(name: "tiny"
           input_shape: 3
           layer {
             name: "a"
             dense { units: 2 }
           }
           layer {
             name: "b"
             dense { units: 4 }
           })pb",
      &model));
  return *ParameterLayout::Create(model);
}

// Padding is made visible, so that a test sees where it goes.
std::vector<float> Flat(const ParameterLayout& layout) {
  std::vector<float> flat(layout.size(), -1.0f);
  float next = 1.0f;
  for (const TensorInfo& tensor : layout.tensors()) {
    for (uint64_t i = 0; i < tensor.size; ++i) {
      flat[tensor.offset + i] = next++;
    }
  }
  return flat;
}

TEST(ModelFileTest, RoundTripLeavesPaddingOut) {
  const ParameterLayout layout = TinyLayout();
  const std::string path = ::testing::TempDir() + "/round.npz";
  std::vector<float> flat = Flat(layout);
  ASSERT_OK(WriteModelFile(layout, flat, path));

  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
  EXPECT_THAT(reader.Names(), ElementsAre("a/bias", "a/weight", "b/bias", "b/weight"));
  ASSERT_OK_AND_ASSIGN(const NpzReader::Array weight, reader.Read("b/weight"));
  EXPECT_THAT(weight.shape, ElementsAre(4, 2));
  EXPECT_THAT(weight.values, ElementsAre(9, 10, 11, 12, 13, 14, 15, 16));

  for (float& value : flat) {
    value = value < 0 ? 0.0f : value;
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<float> read, ReadModelFile(layout, path));
  EXPECT_EQ(read, flat);
}

TEST(ModelFileTest, NamesEveryMemberThatDoesNotFit) {
  const std::string path = ::testing::TempDir() + "/other.npz";
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(path));
  const std::vector<uint32_t> turned = {3, 2};
  const std::vector<uint32_t> two = {2};
  ASSERT_OK(writer.Add("a/weight", turned, std::vector<float>(6)));
  ASSERT_OK(writer.Add("a/bias", two, std::vector<float>(2)));
  ASSERT_OK(writer.Add("c/bias", two, std::vector<float>(2)));
  ASSERT_OK(writer.Finish());
  EXPECT_THAT(
      ReadModelFile(TinyLayout(), path).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(path), HasSubstr("a/weight.npy has the shape (3, 2)"),
                     HasSubstr("the model has (2, 3)"), HasSubstr("b/weight.npy is missing"),
                     HasSubstr("b/bias.npy is missing"),
                     HasSubstr("c/bias.npy is no tensor of the model"))));
}

}  // namespace
}  // namespace monsoon
