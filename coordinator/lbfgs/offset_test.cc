// A softmax regression of which one feature lies a million deviations from 0, in float32 as a
// network computes it: the feature and the bias are nearly one, and only what tells them apart
// leads to the minimum. That beside it is liblbfgs' in double, with the feature's mean at 0.
#include <lbfgs.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/testing/seeds.h"
#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/algorithm.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/lbfgs/test_functions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using testing::Function;
using testing::FunctionObjective;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kSamples = 400;
constexpr size_t kFeatures = 6;
constexpr size_t kClasses = 3;
constexpr size_t kWeights = kClasses * kFeatures;
constexpr size_t kFloats = kWeights + kClasses;
// Whose gradients are added up in float32 before they are added to the others'.
constexpr size_t kChunk = 20;
constexpr uint64_t kSeeds = testing::kSanitized ? 3 : 12;
constexpr uint64_t kScaledSeeds = testing::kSanitized ? 1 : 3;

// How a network rounds.
enum class Rounding { kNone, kLogits, kLogitsAndSums };

struct Data {
  std::vector<float> x;
  std::vector<double> unit = std::vector<double>(kFeatures, 1.0);  // of each feature
  std::vector<size_t> label;
};

// Around a center for each class; the first feature is `offset` larger.
Data MakeData(uint64_t seed, float offset) {
  const PhiloxStream centers(seed, StreamKind::kTest, 1);
  const PhiloxStream values(seed, StreamKind::kTest, 2);
  Data data;
  for (size_t i = 0; i < kSamples; ++i) {
    data.label.push_back(i * i % 7 % kClasses);
    for (size_t j = 0; j < kFeatures; ++j) {
      const auto center = static_cast<float>(centers.Normal(data.label[i] * kFeatures + j));
      const auto value = static_cast<float>(values.Normal(i * kFeatures + j));
      data.x.push_back(center + value + (j == 0 ? offset : 0.0f));
    }
  }
  return data;
}

Function Softmax(const Data& data, Rounding rounding) {
  return [=](std::span<const double> w, std::span<double> g) {
    std::ranges::fill(g, 0.0);
    std::vector<float> chunk(kFloats, 0.0f);
    double f = 0.0;
    for (size_t i = 0; i < kSamples; ++i) {
      const float* const x = data.x.data() + i * kFeatures;
      double logit[kClasses], sum = 0.0;
      for (size_t c = 0; c < kClasses; ++c) {
        logit[c] = w[kWeights + c];
        for (size_t j = 0; j < kFeatures; ++j) {
          logit[c] += w[c * kFeatures + j] * (x[j] * data.unit[j]);
        }
        logit[c] = rounding == Rounding::kNone ? logit[c] : static_cast<float>(logit[c]);
      }
      const double most = *std::ranges::max_element(logit);
      for (const double value : logit) {
        sum += std::exp(value - most);
      }
      f += std::log(sum) + most - logit[data.label[i]];
      for (size_t c = 0; c < kClasses; ++c) {
        const double slope = std::exp(logit[c] - most) / sum - (data.label[i] == c ? 1.0 : 0.0);
        const auto add = [&](size_t at, double value) {
          if (rounding == Rounding::kLogitsAndSums) {
            chunk[at] += static_cast<float>(value);
          } else {
            g[at] += value;
          }
        };
        for (size_t j = 0; j < kFeatures; ++j) {
          add(c * kFeatures + j, static_cast<float>(slope) * (x[j] * data.unit[j]));
        }
        add(kWeights + c, slope);
      }
      if (i % kChunk == kChunk - 1) {
        std::ranges::transform(g, chunk, g.begin(), std::plus<>());
        std::ranges::fill(chunk, 0.0f);
      }
    }
    std::ranges::transform(g, g.begin(), [](double value) { return value / kSamples; });
    return f / kSamples;
  };
}

lbfgsfloatval_t EvaluateReference(void* function, const lbfgsfloatval_t* x, lbfgsfloatval_t* g,
                                  int n, lbfgsfloatval_t) {
  const auto size = static_cast<size_t>(n);
  return (*static_cast<const Function*>(function))({x, size}, {g, size});
}

double MinimumOf(Data data, float offset) {
  for (size_t i = 0; i < kSamples; ++i) {
    data.x[i * kFeatures] -= offset;  // which rounds nothing
  }
  Function function = Softmax(data, Rounding::kNone);
  std::unique_ptr<lbfgsfloatval_t, decltype(&lbfgs_free)> x(lbfgs_malloc(kFloats), &lbfgs_free);
  std::fill_n(x.get(), kFloats, 0.0);
  lbfgs_parameter_t parameters;
  lbfgs_parameter_init(&parameters);
  parameters.epsilon = 1e-10;
  lbfgsfloatval_t f = 0.0;
  lbfgs(kFloats, x.get(), &f, &EvaluateReference, nullptr, &function, &parameters);
  return f;
}

absl::StatusOr<std::string> EndOf(const Data& data, Rounding rounding, double* f) {
  LocalVectorSpace space(kFloats, LocalVectorSpace::Precision::kFloat32);
  FunctionObjective objective(&space, Softmax(data, rounding));
  OwnedVector start = OwnedVector::New(&space, "w");
  RETURN_IF_ERROR(space.Fill(start.name(), 0.0));
  const Sandblaster config;
  const std::unique_ptr<Direction> direction = MakeDirection(config, &space);
  ASSIGN_OR_RETURN(MinimizerOptions options, MakeMinimizerOptions(config));
  options.max_iterations = 1500;
  options.tensors = {{0, kWeights}, {kWeights, kFloats}};
  options.may_be_unbounded = true;
  ASSIGN_OR_RETURN(MinimizerResult result, Minimize(&space, &objective, direction.get(), options,
                                                    std::move(start), nullptr));
  result.w.Release();  // the space goes first
  *f = result.f;
  return absl::StrCat(EndReasonName(result.reason), ": ", result.detail);
}

class OffsetTest : public ::testing::TestWithParam<Rounding> {};

TEST_P(OffsetTest, AMinimumThatIsNotReachedIsNotClaimed) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const float offset : {0.0f, 1e4f, 1e5f, 1e6f}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", offset ", offset));
      const Data data = MakeData(seed, offset);
      const double minimum = MinimumOf(data, offset);
      double f = 0.0;
      ASSERT_OK_AND_ASSIGN(const std::string end, EndOf(data, GetParam(), &f));
      SCOPED_TRACE(end);
      if (end.starts_with("converged") || end.starts_with("float32_precision")) {
        EXPECT_LE(f / minimum - 1.0, 1e-6);
      } else {
        EXPECT_NE(offset, 0.0f);
        EXPECT_THAT(end, ::testing::AnyOf(HasSubstr("standardise the features"),
                                          HasSubstr("raise max_iterations")));
      }
    }
  }
}

// Of six features two each are in three units.
TEST_P(OffsetTest, NorIsOneOfFeaturesOfThreeScales) {
  constexpr float kScales[] = {1e6f, 1.0f, 1e-4f};
  for (uint64_t seed = 1; seed <= kScaledSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Data data = MakeData(seed, 0.0f);
    for (size_t i = 0; i < data.x.size(); ++i) {
      data.x[i] *= kScales[i % std::size(kScales)];
    }
    Data in_one_unit = data;
    for (size_t j = 0; j < kFeatures; ++j) {
      in_one_unit.unit[j] = 1.0 / kScales[j % std::size(kScales)];
    }
    const double minimum = MinimumOf(in_one_unit, 0.0f);
    double f = 0.0;
    ASSERT_OK_AND_ASSIGN(const std::string end, EndOf(data, GetParam(), &f));
    RecordProperty(absl::StrCat("above_", seed), absl::StrCat(f / minimum - 1.0));
    SCOPED_TRACE(end);
    if (end.starts_with("converged") || end.starts_with("float32_precision")) {
      EXPECT_LE(f / minimum - 1.0, 1e-6);
    } else {
      EXPECT_THAT(end, HasSubstr("standardise: true"));
    }
  }
}

// Nothing but the bias again: whatever one takes of the other, F stays as it is.
TEST_P(OffsetTest, AFeatureThatIsTheSameForAllDoesNoHarm) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Data data = MakeData(seed, 0.0f);
    for (size_t i = 0; i < kSamples; ++i) {
      data.x[i * kFeatures] = 1.0f;
    }
    double f = 0.0;
    ASSERT_OK_AND_ASSIGN(const std::string end, EndOf(data, GetParam(), &f));
    EXPECT_THAT(end, ::testing::AnyOf(StartsWith("converged"), StartsWith("float32_precision")))
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Roundings, OffsetTest,
                         ::testing::Values(Rounding::kLogits, Rounding::kLogitsAndSums));

}  // namespace
}  // namespace monsoon
