#include "worker/confusion.h"

#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(ConfusionMatrixTest, EqualsWhatIsCountedByHand) {
  const std::vector<Prediction> predictions = {{0, 0, 0}, {0, 1, 0}, {0, 1, 0}, {1, 1, 0}};
  const ConfusionMatrix matrix(predictions, 3);
  EXPECT_EQ(matrix.count(0, 0), 1u);
  EXPECT_EQ(matrix.count(0, 1), 2u);
  EXPECT_EQ(matrix.count(1, 0), 0u);
  EXPECT_EQ(matrix.count(1, 1), 1u);
  EXPECT_EQ(matrix.samples(0), 3u);
  EXPECT_EQ(matrix.precision(0), 1.0);
  EXPECT_EQ(matrix.precision(1), 1.0 / 3);
  EXPECT_EQ(matrix.recall(0), 1.0 / 3);
  EXPECT_EQ(matrix.recall(1), 1.0);
  EXPECT_EQ(matrix.precision(2), std::nullopt);
  EXPECT_EQ(matrix.recall(2), std::nullopt);
}

}  // namespace
}  // namespace monsoon
