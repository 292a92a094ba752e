#include "common/model/initializer.h"

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/model/shard_map.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

// All initialisers, with padding after most tensors.
constexpr char kModel[] = R"pb(
  input_shape: [ 2, 9, 9 ]
  layer {
    conv2d {
      filters: 5
      kernel: 3
      weight_initializer { normal: 0.5 }
      bias_initializer { constant: 0.25 }
    }
  }
  layer { relu {} }
  layer { flatten {} }
  layer {
    dense {
      units: 37
      weight_initializer { glorot_uniform {} }
      bias_initializer { uniform: 3 }
    }
  }
  layer {
    dense {
      units: 41
      weight_initializer { he_normal {} }
    }
  }
  layer {
    dense {
      units: 7
      weight_initializer { fan_in_uniform {} }
      no_bias: true
    }
  }
)pb";

ParameterLayout MakeLayout() {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kModel, &model));
  absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
  EXPECT_OK(layout);
  return *std::move(layout);
}

std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (float value : values) {
    bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

std::vector<float> Whole(const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> values(layout.size(), NAN);
  Initialize(layout, seed, 0, values);
  return values;
}

TEST(InitializeTest, AnyShardCountGivesTheSameBits) {
  const ParameterLayout layout = MakeLayout();
  const std::vector<uint32_t> whole = BitsOf(Whole(layout, 5));
  for (uint32_t shards : {1u, 2u, 3u, 7u, 16u, 64u}) {
    ASSERT_OK_AND_ASSIGN(const ShardMap map, ShardMap::Create(layout.size(), shards, 256));
    std::vector<float> joined;
    for (uint32_t shard = 0; shard < shards; ++shard) {
      std::vector<float> slice(map.shard(shard).size(), NAN);
      Initialize(layout, 5, map.shard(shard).begin, slice);
      joined.insert(joined.end(), slice.begin(), slice.end());
    }
    EXPECT_EQ(BitsOf(joined), whole) << shards << " shards";
  }
}

TEST(InitializeTest, AnySliceGivesTheSameBits) {
  const ParameterLayout layout = MakeLayout();
  const std::vector<uint32_t> whole = BitsOf(Whole(layout, 5));
  const PhiloxStream random(1, StreamKind::kTest);
  for (uint64_t round = 0; round < 300; ++round) {
    const uint64_t begin = random.Below(2 * round, static_cast<uint32_t>(layout.size()));
    const uint64_t size =
        random.Below(2 * round + 1, static_cast<uint32_t>(layout.size() - begin + 1));
    std::vector<float> slice(size, NAN);
    Initialize(layout, 5, begin, slice);
    ASSERT_EQ(BitsOf(slice),
              std::vector<uint32_t>(whole.begin() + begin, whole.begin() + begin + size))
        << begin << " + " << size;
  }
}

TEST(InitializeTest, PaddingIsZeroAndTensorsAreNot) {
  const ParameterLayout layout = MakeLayout();
  const std::vector<float> values = Whole(layout, 5);
  uint64_t index = 0;
  uint64_t padding = 0;
  for (const TensorInfo& tensor : layout.tensors()) {
    for (; index < tensor.offset; ++index, ++padding) {
      EXPECT_EQ(std::bit_cast<uint32_t>(values[index]), 0u) << index;
    }
    uint64_t zeros = 0;
    for (; index < tensor.offset + tensor.size; ++index) {
      ASSERT_TRUE(std::isfinite(values[index])) << tensor.name;
      zeros += values[index] == 0.0f;
    }
    EXPECT_LE(zeros, 1u) << tensor.name;
  }
  for (; index < layout.size(); ++index, ++padding) {
    EXPECT_EQ(std::bit_cast<uint32_t>(values[index]), 0u) << index;
  }
  EXPECT_EQ(padding, layout.size() - layout.parameters());
  EXPECT_GT(padding, 0u);
}

TEST(InitializeTest, SeedsDiffer) {
  const ParameterLayout layout = MakeLayout();
  EXPECT_NE(BitsOf(Whole(layout, 5)), BitsOf(Whole(layout, 6)));
  EXPECT_EQ(BitsOf(Whole(layout, 5)), BitsOf(Whole(layout, 5)));
}

// Mean, standard deviation and largest magnitude of each tensor against its
// distribution.
TEST(InitializeTest, EachTensorHasItsDistribution) {
  struct Expected {
    const char* name;
    double mean;
    double stddev;
    double limit;  // 0: unbounded.
  };
  auto uniform = [](const char* name, double limit) {
    return Expected{name, 0, limit / std::sqrt(3.0), limit};
  };
  const Expected expected[] = {
      {"conv1/weight", 0, 0.5, 0},
      {"conv1/bias", 0.25, 0, 0.25},
      uniform("dense1/weight", std::sqrt(6.0 / (245 + 37))),
      uniform("dense1/bias", 3),
      {"dense2/weight", 0, std::sqrt(2.0 / 37), 0},
      uniform("dense2/bias", 1 / std::sqrt(37.0)),
      uniform("dense3/weight", 1 / std::sqrt(41.0)),
  };
  const ParameterLayout layout = MakeLayout();
  ASSERT_EQ(layout.tensors().size(), std::size(expected));
  const std::vector<float> values = Whole(layout, 21);
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorInfo& tensor = layout.tensors()[i];
    EXPECT_EQ(tensor.name, expected[i].name);
    const double n = static_cast<double>(tensor.size);
    double mean = 0, largest = 0, variance = 0;
    for (uint64_t j = tensor.offset; j < tensor.offset + tensor.size; ++j) {
      mean += values[j] / n;
      largest = std::max(largest, std::abs(double{values[j]}));
      variance += (values[j] - expected[i].mean) * (values[j] - expected[i].mean) / n;
    }
    // Five standard errors of the mean; of the variance at most sqrt(2 / n).
    EXPECT_NEAR(mean, expected[i].mean, 5 * expected[i].stddev / std::sqrt(n) + 1e-12)
        << tensor.name;
    EXPECT_NEAR(variance, expected[i].stddev * expected[i].stddev,
                5 * expected[i].stddev * expected[i].stddev * std::sqrt(2 / n))
        << tensor.name;
    if (expected[i].limit > 0) {
      EXPECT_LE(largest, expected[i].limit * (1 + 1e-6)) << tensor.name;
    }
  }
}

}  // namespace
}  // namespace monsoon
