#include "worker/data/synthetic.h"

#include <cmath>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

SyntheticSource Source(uint64_t examples, uint64_t seed) {
  SyntheticSource source;
  source.set_examples(examples);
  source.set_classes(3);
  source.set_seed(seed);
  source.set_center_seed(9);
  source.set_noise(0.5);
  return source;
}

std::vector<float> Values(const DataSource& source, const std::vector<uint32_t>& indices) {
  Batch batch(indices.size(), source.values_per_example());
  EXPECT_OK(source.Gather(indices, &batch));
  return {batch.inputs.data(), batch.inputs.data() + batch.inputs.size()};
}

TEST(SyntheticTest, ASampleIsAFunctionOfSeedAndIndex) {
  ASSERT_OK_AND_ASSIGN(const auto small, MakeSynthetic(Source(10, 1), 7, 0, {}));
  ASSERT_OK_AND_ASSIGN(const auto large, MakeSynthetic(Source(1000, 1), 7, 0, {}));
  ASSERT_OK_AND_ASSIGN(const auto other, MakeSynthetic(Source(10, 2), 7, 0, {}));
  EXPECT_EQ(Values(*small, {4, 9}), Values(*large, {4, 9}));
  EXPECT_NE(Values(*small, {4, 9}), Values(*other, {4, 9}));
  EXPECT_NE(small->Fingerprint(), large->Fingerprint());
  EXPECT_NE(small->Fingerprint(), other->Fingerprint());
}

TEST(SyntheticTest, SetsOfOneCenterSeedShareTheirCentres) {
  // The mean of a class over many samples is its centre, to noise / sqrt(n).
  std::vector<double> means[2];
  for (const uint64_t seed : {1, 2}) {
    ASSERT_OK_AND_ASSIGN(const auto source, MakeSynthetic(Source(3000, seed), 4, 0, {}));
    std::vector<uint32_t> class_one;
    for (uint32_t i = 1; i < 3000; i += 3) {
      class_one.push_back(i);
    }
    Batch batch(class_one.size(), 4);
    EXPECT_OK(source->Gather(class_one, &batch));
    std::vector<double> mean(4);
    for (size_t i = 0; i < class_one.size(); ++i) {
      EXPECT_EQ(batch.labels[i], 1u);
      for (size_t j = 0; j < 4; ++j) {
        mean[j] += batch.inputs.data()[4 * i + j] / 1000.0;
      }
    }
    means[seed - 1] = mean;
  }
  for (size_t j = 0; j < 4; ++j) {
    EXPECT_NEAR(means[0][j], means[1][j], 6 * 0.5 * std::sqrt(2.0 / 1000));
  }
}

TEST(SyntheticTest, KeptInMemoryOrMadeOnDemandTheValuesAreTheSame) {
  // 70,000 x 1024 floats are over the limit, 100 are not.
  const Normalisation normalisation{0.25, 2.0};
  ASSERT_OK_AND_ASSIGN(const auto made, MakeSynthetic(Source(70'000, 1), 1024, 0, normalisation));
  ASSERT_OK_AND_ASSIGN(const auto kept, MakeSynthetic(Source(70'000, 1), 1024, 100, normalisation));
  EXPECT_EQ(kept->examples(), 100u);
  EXPECT_EQ(Values(*made, {0, 99, 50}), Values(*kept, {0, 99, 50}));
}

TEST(SyntheticTest, RefusesNoClasses) {
  SyntheticSource source = Source(10, 1);
  source.set_classes(0);
  EXPECT_THAT(MakeSynthetic(source, 4, 0, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 classes")));
}

}  // namespace
}  // namespace monsoon
