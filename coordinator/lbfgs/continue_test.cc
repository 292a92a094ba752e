// A run that is broken off after any report and goes on in a new space has the same bits
// as one that is not.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "coordinator/lbfgs/algorithm.h"
#include "coordinator/lbfgs/direction.h"
#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/minimizer.h"
#include "coordinator/lbfgs/test_functions.h"
#include "coordinator/lbfgs/vector_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/minimizer.pb.h"

namespace monsoon {
namespace {

using testing::FunctionObjective;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TestFunction;
using Precision = LocalVectorSpace::Precision;

// What a generation holds.
struct Saved {
  MinimizerState state;
  std::vector<double> parameters;
  std::map<std::string, std::vector<double>> vectors;
};

struct Outcome {
  MinimizerResult result;
  std::vector<double> w;
  std::vector<IterationReport> reports;
};

class Minimisation {
 public:
  Minimisation(const Sandblaster& config, const TestFunction& test, Precision precision,
               const std::vector<TensorRange>& tensors = {})
      : space_(test.start.size(), precision),
        objective_(&space_, test.function),
        direction_(MakeDirection(config, &space_)),
        options_(*MakeMinimizerOptions(config)) {
    options_.tensors = tensors;
    options_.may_be_unbounded = false;
  }

  // Ends it after the report of iteration `last`, if it gets there.
  void BreakAfter(uint32_t last) { last_ = last; }
  const std::optional<Saved>& saved() const { return saved_; }

  absl::StatusOr<Outcome> FromStart(const TestFunction& test) {
    OwnedVector start = OwnedVector::New(&space_, "w");
    EXPECT_OK(space_.Write(start.name(), test.start));
    return Take(
        Minimize(&space_, &objective_, direction_.get(), options_, std::move(start), Observer()));
  }

  absl::StatusOr<Outcome> From(const Saved& saved) {
    space_.CountOn(saved.state.names(), saved.state.round_trips());
    for (const auto& [name, values] : saved.vectors) {
      EXPECT_OK(space_.Write(name, values));
    }
    OwnedVector w = OwnedVector::New(&space_, "w");
    EXPECT_OK(space_.Write(w.name(), saved.parameters));
    return Take(Continue(&space_, &objective_, direction_.get(), options_, saved.state,
                         std::move(w), Observer()));
  }

 private:
  IterationObserver Observer() {
    return [this](const IterationReport& report) -> absl::StatusOr<bool> {
      reports_.push_back(report);
      reports_.back().state = nullptr;
      if (last_ != report.iteration) {
        return true;
      }
      saved_ = Saved{.state = report.state(), .parameters = space_.parameters()};
      if (report.iteration == 0) {
        saved_->parameters = Values(report.w);  // not published
      }
      for (const std::string& name : VectorsOf(saved_->state)) {
        saved_->vectors[name] = Values(name);
      }
      return absl::AbortedError("broken off");
    };
  }

  std::vector<double> Values(const std::string& name) {
    const auto values = space_.Read(name);
    EXPECT_OK(values);
    return values.ok() ? std::vector<double>(values->begin(), values->end())
                       : std::vector<double>();
  }

  absl::StatusOr<Outcome> Take(absl::StatusOr<MinimizerResult> result) {
    RETURN_IF_ERROR(result.status());
    std::vector<double> w = Values(result->w.name());
    result->w.Release();  // the space goes first
    return Outcome{*std::move(result), std::move(w), std::move(reports_)};
  }

  LocalVectorSpace space_;
  FunctionObjective objective_;
  std::unique_ptr<Direction> direction_;
  MinimizerOptions options_;
  std::optional<uint32_t> last_;
  std::optional<Saved> saved_;
  std::vector<IterationReport> reports_;
};

Sandblaster Config(Sandblaster::Algorithm algorithm) {
  Sandblaster config;
  config.set_algorithm(algorithm);
  config.set_max_iterations(60);
  config.set_history(4);
  return config;
}

void ExpectSame(const Outcome& whole, const Outcome& continued) {
  EXPECT_EQ(continued.w, whole.w);
  EXPECT_EQ(continued.result.f, whole.result.f);
  EXPECT_EQ(continued.result.gradient_norm, whole.result.gradient_norm);
  EXPECT_EQ(continued.result.reason, whole.result.reason);
  EXPECT_EQ(continued.result.detail, whole.result.detail);
  EXPECT_EQ(continued.result.iterations, whole.result.iterations);
  EXPECT_EQ(continued.result.evaluations, whole.result.evaluations);
  EXPECT_EQ(continued.result.restarts, whole.result.restarts);
  EXPECT_EQ(continued.result.noise_measurements, whole.result.noise_measurements);
  EXPECT_EQ(continued.result.round_trips, whole.result.round_trips);
}

using Case = std::tuple<Sandblaster::Algorithm, Precision>;

class ContinueTest : public ::testing::TestWithParam<Case> {};

TEST_P(ContinueTest, AfterAnyReport) {
  const auto [algorithm, precision] = GetParam();
  for (const TestFunction& test : {testing::Rosenbrock(2), testing::Wood(),
                                   testing::PowellSingular(), testing::Quadratic(20, 1000.0)}) {
    const Sandblaster config = Config(algorithm);
    const absl::StatusOr<Outcome> whole = Minimisation(config, test, precision).FromStart(test);
    ASSERT_OK(whole);
    for (uint32_t last = 0; last < whole->result.iterations; last += 1 + last / 8) {
      SCOPED_TRACE(absl::StrCat(test.name, ", after iteration ", last));
      Minimisation broken(config, test, precision);
      broken.BreakAfter(last);
      EXPECT_THAT(broken.FromStart(test),
                  StatusIs(absl::StatusCode::kAborted, HasSubstr("broken")));
      ASSERT_TRUE(broken.saved().has_value());
      // What is stored is bytes.
      Saved saved = *broken.saved();
      MinimizerState state;
      ASSERT_TRUE(state.ParseFromString(saved.state.SerializeAsString()));
      saved.state = state;
      const absl::StatusOr<Outcome> continued = Minimisation(config, test, precision).From(saved);
      ASSERT_OK(continued);
      ExpectSame(*whole, *continued);
      ASSERT_FALSE(continued->reports.empty());
      EXPECT_EQ(continued->reports.front().iteration, last + 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, ContinueTest,
    ::testing::Combine(::testing::Values(Sandblaster::LBFGS, Sandblaster::NONLINEAR_CG,
                                         Sandblaster::GRADIENT_DESCENT),
                       ::testing::Values(Precision::kDouble, Precision::kFloat32)));

// Near the floor of float32 the noise is measured and searches begin anew: what is known
// of that goes on too.
TEST(ContinueNearTheFloorTest, AfterAnyReport) {
  Sandblaster config = Config(Sandblaster::LBFGS);
  config.set_max_iterations(400);
  const TestFunction test = testing::Noisy(1e4, 1e-6, 0.0);
  const absl::StatusOr<Outcome> whole =
      Minimisation(config, test, Precision::kFloat32).FromStart(test);
  ASSERT_OK(whole);
  EXPECT_GT(whole->result.noise_measurements, 0u);
  for (uint32_t back = 1; back <= std::min(30u, whole->result.iterations); ++back) {
    Minimisation broken(config, test, Precision::kFloat32);
    broken.BreakAfter(whole->result.iterations - back);
    EXPECT_THAT(broken.FromStart(test), StatusIs(absl::StatusCode::kAborted, HasSubstr("broken")));
    const absl::StatusOr<Outcome> continued =
        Minimisation(config, test, Precision::kFloat32).From(*broken.saved());
    ASSERT_OK(continued);
    ExpectSame(*whole, *continued);
  }
}

// Where features are so large that their weights alone move until parts are tried, the run goes on
// in scaled variables.
TEST(ContinueScaledTest, AfterAnyReport) {
  Sandblaster config = Config(Sandblaster::LBFGS);
  config.set_max_iterations(400);
  const TestFunction test{.name = "logistic",
                          .function = testing::Logistic({.scale = 1e6, .mean = 1.0}),
                          .start = std::vector<double>(testing::kFeatures + 1, 0.0)};
  const std::vector<TensorRange> tensors = {{0, testing::kFeatures},
                                            {testing::kFeatures, testing::kFeatures + 1}};
  for (const Precision precision : {Precision::kDouble, Precision::kFloat32}) {
    const absl::StatusOr<Outcome> whole =
        Minimisation(config, test, precision, tensors).FromStart(test);
    ASSERT_OK(whole);
    bool scaled = false;
    for (uint32_t last = 0; last < whole->result.iterations; ++last) {
      SCOPED_TRACE(last);
      Minimisation broken(config, test, precision, tensors);
      broken.BreakAfter(last);
      EXPECT_THAT(broken.FromStart(test),
                  StatusIs(absl::StatusCode::kAborted, HasSubstr("broken")));
      ASSERT_TRUE(broken.saved().has_value());
      scaled |= !broken.saved()->state.scale().empty();
      const absl::StatusOr<Outcome> continued =
          Minimisation(config, test, precision, tensors).From(*broken.saved());
      ASSERT_OK(continued);
      EXPECT_EQ(continued->w, whole->w);
      EXPECT_EQ(continued->result.f, whole->result.f);
      EXPECT_EQ(continued->result.reason, whole->result.reason);
      EXPECT_EQ(continued->result.evaluations, whole->result.evaluations);
      EXPECT_EQ(continued->result.round_trips, whole->result.round_trips);
    }
    EXPECT_TRUE(scaled);
  }
}

TEST(ContinueStateTest, WhatNoRunHadIsRefused) {
  const TestFunction test = testing::Rosenbrock(2);
  Minimisation broken(Config(Sandblaster::LBFGS), test, Precision::kDouble);
  broken.BreakAfter(5);
  EXPECT_THAT(broken.FromStart(test), StatusIs(absl::StatusCode::kAborted, HasSubstr("broken")));
  const Saved good = *broken.saved();
  const auto refused = [&](const Sandblaster& config, auto change) {
    Saved saved = good;
    change(&saved.state);
    return Minimisation(config, test, Precision::kDouble).From(saved).status();
  };
  const Sandblaster lbfgs = Config(Sandblaster::LBFGS);
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(refused(lbfgs, [](MinimizerState* state) { state->Clear(); }),
              StatusIs(kInvalid, HasSubstr("no state")));
  EXPECT_THAT(refused(lbfgs, [](MinimizerState* state) { state->clear_along(); }),
              StatusIs(kInvalid, HasSubstr("no state")));
  EXPECT_THAT(refused(lbfgs,
                      [](MinimizerState* state) {
                        state->mutable_pair(1)->mutable_y_dot_s()->RemoveLast();
                      }),
              StatusIs(kInvalid, HasSubstr("pair 2")));
  Sandblaster shorter = lbfgs;
  shorter.set_history(2);
  EXPECT_THAT(refused(shorter, [](MinimizerState*) {}),
              StatusIs(kInvalid, HasSubstr("2 are kept")));
  EXPECT_THAT(refused(Config(Sandblaster::NONLINEAR_CG), [](MinimizerState*) {}),
              StatusIs(kInvalid, HasSubstr("history")));
}

}  // namespace
}  // namespace monsoon
