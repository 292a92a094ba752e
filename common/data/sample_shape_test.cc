#include "common/data/sample_shape.h"

#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using Stored = std::vector<uint64_t>;
using Input = std::vector<uint32_t>;

struct Fit {
  Stored stored;
  Dataset::Layout layout;
  Input input;
};

TEST(SampleShapeTest, SamplesInTheModelsOrderFit) {
  for (const Fit& fit : std::vector<Fit>{
           {{3, 32, 32}, Dataset::MODEL_ORDER, {3, 32, 32}},
           {{28, 28}, Dataset::MODEL_ORDER, {1, 28, 28}},
           {{28, 28, 1}, Dataset::MODEL_ORDER, {1, 28, 28}},
           {{28, 28}, Dataset::MODEL_ORDER, {784}},
           {{3072}, Dataset::MODEL_ORDER, {3, 32, 32}},
           {{32, 32, 3}, Dataset::NHWC, {3, 32, 32}},
           {{32, 32, 3}, Dataset::NHWC, {3072}},
           {{28, 28, 1}, Dataset::NHWC, {1, 28, 28}},
       }) {
    EXPECT_OK(CheckSampleShape(fit.stored, fit.layout, fit.input)) << SampleShapeText(fit.stored);
  }
}

TEST(SampleShapeTest, ScrambledSamplesAreRefusedWithBothShapesAndTheSetting) {
  const Stored stored = {32, 32, 3};
  const Input input = {3, 32, 32};
  const absl::Status status = CheckSampleShape(stored, Dataset::MODEL_ORDER, input);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "samples are [32, 32, 3], the model's input_shape is [3, 32, 32]: as many values, in "
            "another order");
  EXPECT_THAT(SampleShapeHint(stored, Dataset::MODEL_ORDER, input), HasSubstr("layout: NHWC"));
  // Height and width exchanged: no setting helps.
  EXPECT_FALSE(CheckSampleShape(Stored{3, 20, 30}, Dataset::MODEL_ORDER, Input{3, 30, 20}).ok());
  EXPECT_EQ(SampleShapeHint(Stored{3, 20, 30}, Dataset::MODEL_ORDER, Input{3, 30, 20}), "");
}

TEST(SampleShapeTest, NhwcOfWhatIsNoImageIsRefused) {
  EXPECT_THAT(
      std::string(CheckSampleShape(Stored{3072}, Dataset::NHWC, Input{3, 32, 32}).message()),
      HasSubstr("[3072], and layout: NHWC is for samples of [height, width, channels]"));
  const absl::Status twice = CheckSampleShape(Stored{3, 32, 32}, Dataset::NHWC, Input{3, 32, 32});
  EXPECT_THAT(std::string(twice.message()), HasSubstr("[32, 3, 32] after layout: NHWC"));
  EXPECT_EQ(SampleShapeHint(Stored{3, 32, 32}, Dataset::NHWC, Input{3, 32, 32}),
            "leave layout out: the files hold the model's order");
}

TEST(SampleShapeTest, AnotherNumberOfValuesIsRefusedWithBothNumbers) {
  EXPECT_EQ(CheckSampleShape(Stored{28, 28}, Dataset::MODEL_ORDER, Input{1, 32, 32}).message(),
            "samples are [28, 28] (784 values), the model's input_shape is [1, 32, 32] (1024)");
}

// A flat model takes either order, but not one in training and another in tests.
TEST(SampleShapeTest, TestSamplesMustBeInTheOrderOfTheTrainingSamples) {
  EXPECT_OK(
      CheckSameSamples(Stored{3, 8, 8}, Dataset::MODEL_ORDER, Stored{8, 8, 3}, Dataset::NHWC));
  EXPECT_EQ(
      CheckSameSamples(Stored{3, 8, 8}, Dataset::MODEL_ORDER, Stored{8, 8, 3}, Dataset::MODEL_ORDER)
          .message(),
      "test samples are [8, 8, 3], training samples are [3, 8, 8]");
}

}  // namespace
}  // namespace monsoon
