#include "common/model/weight_matrices.h"

#include <string>
#include <tuple>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Each as name, rows and columns; they begin and end where their tensors do.
std::vector<std::tuple<std::string, size_t, size_t>> MatricesOf(const std::string& text) {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
  EXPECT_OK(layout.status());
  std::vector<std::tuple<std::string, size_t, size_t>> matrices;
  for (const WeightMatrix& matrix : WeightMatrices(model, *layout)) {
    for (const TensorInfo& tensor : layout->tensors()) {
      if (tensor.name == matrix.tensor) {
        EXPECT_EQ(matrix.begin, tensor.offset) << tensor.name;
        EXPECT_EQ(matrix.end(), tensor.offset + tensor.size) << tensor.name;
      }
    }
    matrices.emplace_back(matrix.tensor, matrix.rows, matrix.columns);
  }
  return matrices;
}

using Matrix = std::tuple<std::string, size_t, size_t>;

TEST(WeightMatricesTest, OfAConvolutionAreItsFiltersByWhatEachReads) {
  EXPECT_THAT(MatricesOf("input_shape: [ 3, 8, 8 ] layer { conv2d { filters: 5 kernel: 3 } } "
                         "layer { batch_norm { } } layer { flatten { } } "
                         "layer { dense { units: 7 } }"),
              ElementsAre(Matrix("conv1/weight", 5, 27), Matrix("dense1/weight", 7, 180)));
}

TEST(WeightMatricesTest, OfPlacesAreTheFiltersOfAll) {
  EXPECT_THAT(MatricesOf("input_shape: [ 2, 6, 5 ] "
                         "layer { locally_connected2d { filters: 4 kernel: 3 } } "
                         "layer { flatten { } } layer { dense { units: 2 no_bias: true } }"),
              ElementsAre(Matrix("local1/weight", 4 * 3 * 4, 18), Matrix("dense1/weight", 2, 48)));
}

TEST(WeightMatricesTest, OfSequencesAreTheirGatesAndHeadsBelowOneAnother) {
  EXPECT_THAT(
      MatricesOf(
          "input_shape: [ 9, 6 ] layer { self_attention { heads: 2 } } "
          "layer { layer_norm { } } layer { lstm { units: 5 } } layer { dense { units: 3 } }"),
      ElementsAre(Matrix("attention1/weight", 18, 6), Matrix("attention1/out_weight", 6, 6),
                  Matrix("lstm1/weight", 20, 6), Matrix("lstm1/recurrent", 20, 5),
                  Matrix("dense1/weight", 3, 5)));
}

// Nor where a dense layer takes the table for its weight; one that takes another's is there once.
TEST(WeightMatricesTest, TablesAreNone) {
  EXPECT_THAT(MatricesOf("input_shape: 6 layer { name: 'rows' embedding { rows: 11 columns: 4 } } "
                         "layer { position_embedding { } } "
                         "layer { name: 'a' dense { units: 4 } } "
                         "layer { dense { tied_to: 'a' } } layer { dense { tied_to: 'rows' } }"),
              ElementsAre(Matrix("a/weight", 4, 4)));
}

TEST(WeightMatricesTest, AModelThatListsItsTensorsHasNone) {
  EXPECT_THAT(MatricesOf("tensor { name: 'w' shape: [ 3, 4 ] }"), IsEmpty());
}

}  // namespace
}  // namespace monsoon
