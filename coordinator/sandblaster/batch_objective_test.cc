#include "coordinator/sandblaster/batch_objective.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "coordinator/sandblaster/shard_vector_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two shards that note the commands as short texts; the second one's sums
// overflow as often as a test says. The batch has 10 samples of loss 0.5.
class BatchObjectiveTest : public ::testing::Test, public BatchEvaluator {
 protected:
  BatchObjectiveTest() {
    VectorShards::Options options;
    options.job = "j-1";
    options.shard_epochs = {1, 1};
    options.calls = {[this](const VectorRequest& request) { return Serve(0, request); },
                     [this](const VectorRequest& request) { return Serve(1, request); }};
    options.stopped = [] { return false; };
    shards_ = std::make_unique<VectorShards>(std::move(options));
    space_ = std::make_unique<ShardVectorSpace>(shards_.get());
  }

  absl::StatusOr<VectorReply> Serve(int shard, const VectorRequest& request) {
    VectorReply reply;
    std::string text;
    for (const VectorRequest& first : request.before()) {
      if (first.has_multiply()) {
        absl::StrAppend(&text, first.multiply().out(), " = ", first.multiply().x(), " ",
                        first.multiply().y(), ", ");
      } else if (first.fill().weights_only()) {
        absl::StrAppend(&text, "weights ", first.fill().out(), ", ");
      } else {
        absl::StrAppend(&text, first.has_axpy() ? "axpy, " : "?, ");
      }
    }
    if (request.has_open_evaluation()) {
      const OpenEvaluation& open = request.open_evaluation();
      absl::StrAppend(&text, "open ", open.evaluation(), " of ", open.contributions(),
                      open.probe() ? " probe" : "");
    } else if (request.has_close_evaluation()) {
      const CloseEvaluation& close = request.close_evaluation();
      text = absl::StrCat("close ", close.evaluation(), close.abandon() ? " abandon" : "");
      if (!close.out().empty()) {
        absl::StrAppend(&text, " ", close.out(), " = ", close.factor(), " sum + ", close.shift(),
                        " ", close.shift_vector());
        for (const std::string& column : close.gram().column()) {
          absl::StrAppend(&text, " .", column);
        }
        if (shard == 1 && overflows_ > 0) {
          --overflows_;
          reply.set_evaluate_again(true);
        } else {
          // Rows g and w: 1 2 3, 4 2 6, of which |w|^2 = 4 over both.
          for (const double scalar : {1.0, 2.0, 3.0, 4.0, 2.0, 6.0}) {
            reply.add_scalar(scalar);
          }
        }
      }
    } else {
      text = "?";
    }
    for (const std::string& name : request.free()) {
      absl::StrAppend(&text, ", free ", name);
    }
    if (shard == 1) {
      log_.push_back(text);
    }
    return reply;
  }
  absl::StatusOr<BatchResult> Evaluate(uint64_t evaluation, const std::string& w,
                                       bool probe) override {
    log_.push_back(absl::StrCat("evaluator ", evaluation, " at ", w));
    BatchResult result;
    result.examples = 10;
    result.loss_sum = 5;
    result.finite = not_finite_ != evaluation;
    return result;
  }
  BatchObjective Make(double l2) {
    return BatchObjective({l2, /*l2_weights_only=*/false, 7}, space_.get(), this);
  }

  uint64_t not_finite_ = 0;
  int overflows_ = 0;
  std::vector<std::string> log_;
  std::unique_ptr<VectorShards> shards_;
  std::unique_ptr<ShardVectorSpace> space_;
};

TEST_F(BatchObjectiveTest, ProbesOnceThenSumsTheBatchWithItsL2Term) {
  BatchObjective objective = Make(0.5);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue first, objective.Evaluate("w1", "g1", "d"));
  EXPECT_TRUE(first.finite);
  EXPECT_EQ(first.f, 5.0 / 10 + 0.5 * 0.5 * 4);
  EXPECT_EQ(first.g_dot_g, 2);
  EXPECT_EQ(first.w_dot_w, 4);
  EXPECT_EQ(first.g_dot_d, 6);
  ASSERT_OK(space_->Axpy("w2", 1.0, "d", "w1"));
  ASSERT_OK(objective.Evaluate("w2", "g2", "d"));
  // Two messages to an evaluation, however many operations.
  EXPECT_THAT(log_, ElementsAre("open 1 of 1 probe", "evaluator 1 at w1", "close 1", "open 2 of 7",
                                "evaluator 2 at w1", "close 2 g1 = 0.1 sum + 0.5 w1 .g1 .w1 .d",
                                "axpy, open 3 of 7", "evaluator 3 at w2",
                                "close 3 g2 = 0.1 sum + 0.5 w2 .g2 .w2 .d"));
}

TEST_F(BatchObjectiveTest, LeavesBiasesOutOfTheL2TermOnRequest) {
  BatchObjective objective({0.5, /*l2_weights_only=*/true, 7}, space_.get(), this);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue value, objective.Evaluate("w", "g", ""));
  // Rows g, w and the weights; columns g and w.
  EXPECT_EQ(value.f, 5.0 / 10 + 0.5 * 0.5 * 12);
  EXPECT_EQ(value.w_dot_w, 8);
  EXPECT_THAT(log_, ElementsAre("open 1 of 1 probe", "evaluator 1 at w", "close 1",
                                "weights m1, r2 = m1 w, open 2 of 7", "evaluator 2 at w",
                                "close 2 g = 0.1 sum + 0.5 r2 .g .w"));
}

TEST_F(BatchObjectiveTest, RepeatsAnEvaluationThatDidNotFitItsRange) {
  overflows_ = 1;
  BatchObjective objective = Make(0);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue evaluation, objective.Evaluate("w", "g", "d"));
  EXPECT_EQ(evaluation.f, 0.5);
  EXPECT_EQ(objective.overflows(), 1u);
  EXPECT_THAT(log_, ElementsAre("open 1 of 1 probe", "evaluator 1 at w", "close 1", "open 2 of 7",
                                "evaluator 2 at w", "close 2 g = 0.1 sum + 0  .g .w .d",
                                "open 3 of 7, free g", "evaluator 3 at w",
                                "close 3 g = 0.1 sum + 0  .g .w .d"));
}

TEST_F(BatchObjectiveTest, GivesUpWhenRepetitionsDoNotEnd) {
  overflows_ = 100;
  BatchObjective objective = Make(0);
  EXPECT_THAT(objective.Evaluate("w", "g", "d").status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("did not fit")));
}

TEST_F(BatchObjectiveTest, ABatchThatIsNotFiniteIsAResult) {
  not_finite_ = 2;
  BatchObjective objective = Make(0.5);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue evaluation, objective.Evaluate("w", "g", "d"));
  EXPECT_FALSE(evaluation.finite);
  EXPECT_EQ(evaluation.f, std::numeric_limits<double>::infinity());
  EXPECT_EQ(log_.back(), "close 2 abandon");
}

TEST_F(BatchObjectiveTest, AProbeThatIsNotFiniteIsMadeAgainLater) {
  not_finite_ = 1;
  BatchObjective objective = Make(0);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue evaluation, objective.Evaluate("w", "g", "d"));
  EXPECT_FALSE(evaluation.finite);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue next, objective.Evaluate("w", "g", "d"));
  EXPECT_TRUE(next.finite);
  EXPECT_THAT(log_, ElementsAre("open 1 of 1 probe", "evaluator 1 at w", "close 1 abandon",
                                "open 2 of 1 probe", "evaluator 2 at w", "close 2", "open 3 of 7",
                                "evaluator 3 at w", "close 3 g = 0.1 sum + 0  .g .w .d"));
}

}  // namespace
}  // namespace monsoon
