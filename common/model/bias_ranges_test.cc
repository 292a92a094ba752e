#include "common/model/bias_ranges.h"

#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

// fc1/weight [20, 4] at 0, fc1/bias at 80, fc2/weight [3, 20] at 112, no bias,
// fc3/weight [2, 3] at 176, fc3/bias at 192.
ParameterLayout Layout() {
  Model model;
  model.add_input_shape(4);
  for (const uint32_t units : {20u, 3u, 2u}) {
    Dense* const dense = model.add_layer()->mutable_dense();
    dense->set_units(units);
    dense->set_no_bias(units == 3);
  }
  return *ParameterLayout::Create(model);
}

TEST(BiasRangesTest, AreTheBiasesWithinTheRange) {
  const ParameterLayout layout = Layout();
  const std::vector<Slice> all = BiasRanges(layout, {0, layout.size()});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].begin, 80u);
  EXPECT_EQ(all[0].end, 100u);
  EXPECT_EQ(all[1].begin, 192u);
  EXPECT_EQ(all[1].end, 194u);
  const std::vector<Slice> cut = BiasRanges(layout, {96, 192});
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].begin, 96u);
  EXPECT_EQ(cut[0].end, 100u);
  EXPECT_TRUE(BiasRanges(layout, {0, 80}).empty());
}

// What weight_decay_weights_only spares: a norm's scale and shift, which are no weights either,
// and not its running statistics, which no optimizer moves.
TEST(BiasRangesTest, ScalesAndShiftsOfNormalisationsToo) {
  Model model;
  model.add_input_shape(20);
  model.add_layer()->mutable_dense()->set_units(16);
  model.add_layer()->mutable_layer_norm();
  model.add_layer()->mutable_batch_norm();
  const absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
  ASSERT_OK(layout.status());
  const std::vector<Slice> spared = BiasRanges(*layout, {0, layout->size()});
  const auto holds = [&spared](const TensorInfo& tensor) {
    for (const Slice& slice : spared) {
      if (slice.begin <= tensor.offset && tensor.offset + tensor.size <= slice.end) {
        return true;
      }
    }
    return false;
  };
  size_t norms = 0;
  for (const TensorInfo& tensor : layout->tensors()) {
    const bool weight = tensor.name == "dense1/weight";
    EXPECT_EQ(holds(tensor), !weight && !tensor.is_statistic) << tensor.name;
    norms += tensor.name.find("norm") != std::string::npos && !tensor.is_statistic ? 1 : 0;
  }
  EXPECT_EQ(norms, 4u);
}

}  // namespace
}  // namespace monsoon
