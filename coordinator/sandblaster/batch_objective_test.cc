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
    if (request.has_open_evaluation()) {
      const OpenEvaluation& open = request.open_evaluation();
      text = absl::StrCat("open ", open.evaluation(), " of ", open.contributions(),
                          open.probe() ? " probe" : "");
    } else if (request.has_close_evaluation()) {
      const CloseEvaluation& close = request.close_evaluation();
      text = absl::StrCat("close ", close.evaluation(), close.abandon() ? " abandon" : "");
      if (!close.out().empty()) {
        absl::StrAppend(&text, " ", close.out(), " = ", close.factor(), " sum + ", close.shift(),
                        " ", close.shift_vector());
        if (shard == 1 && overflows_ > 0) {
          --overflows_;
          reply.set_overflow(true);
        }
      }
    } else if (request.has_dot()) {
      text = "dot";
      reply.add_scalar(2);  // |w|^2 = 4 over both
    } else {
      text = absl::StrCat("free ", request.free(0));
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
    return BatchObjective({l2, 7}, shards_.get(), space_.get(), this);
  }

  uint64_t not_finite_ = 0;
  int overflows_ = 0;
  std::vector<std::string> log_;
  std::unique_ptr<VectorShards> shards_;
  std::unique_ptr<ShardVectorSpace> space_;
};

TEST_F(BatchObjectiveTest, ProbesOnceThenSumsTheBatchWithItsL2Term) {
  BatchObjective objective = Make(0.5);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue first, objective.Evaluate("w1", "g1"));
  EXPECT_TRUE(first.finite);
  EXPECT_EQ(first.f, 5.0 / 10 + 0.5 * 0.5 * 4);
  ASSERT_OK(objective.Evaluate("w2", "g2"));
  EXPECT_THAT(
      log_, ElementsAre("open 1 of 1 probe", "evaluator 1 at w1", "close 1", "open 2 of 7",
                        "evaluator 2 at w1", "close 2 g1 = 0.1 sum + 0.5 w1", "dot", "open 3 of 7",
                        "evaluator 3 at w2", "close 3 g2 = 0.1 sum + 0.5 w2", "dot"));
}

TEST_F(BatchObjectiveTest, RepeatsAnEvaluationThatOverflowed) {
  overflows_ = 1;
  BatchObjective objective = Make(0);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue evaluation, objective.Evaluate("w", "g"));
  EXPECT_EQ(evaluation.f, 0.5);
  EXPECT_EQ(objective.overflows(), 1u);
  EXPECT_THAT(log_, ElementsAre("open 1 of 1 probe", "evaluator 1 at w", "close 1", "open 2 of 7",
                                "evaluator 2 at w", "close 2 g = 0.1 sum + 0 ", "free g",
                                "open 3 of 7", "evaluator 3 at w", "close 3 g = 0.1 sum + 0 "));
}

TEST_F(BatchObjectiveTest, GivesUpWhenOverflowsDoNotEnd) {
  overflows_ = 100;
  BatchObjective objective = Make(0);
  EXPECT_THAT(objective.Evaluate("w", "g").status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("overflowed")));
}

TEST_F(BatchObjectiveTest, ABatchThatIsNotFiniteIsAResult) {
  not_finite_ = 2;
  BatchObjective objective = Make(0.5);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue evaluation, objective.Evaluate("w", "g"));
  EXPECT_FALSE(evaluation.finite);
  EXPECT_EQ(evaluation.f, std::numeric_limits<double>::infinity());
  EXPECT_EQ(log_.back(), "close 2 abandon");
}

TEST_F(BatchObjectiveTest, AProbeThatIsNotFiniteIsMadeAgainLater) {
  not_finite_ = 1;
  BatchObjective objective = Make(0);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue evaluation, objective.Evaluate("w", "g"));
  EXPECT_FALSE(evaluation.finite);
  ASSERT_OK_AND_ASSIGN(const ObjectiveValue next, objective.Evaluate("w", "g"));
  EXPECT_TRUE(next.finite);
  EXPECT_THAT(log_, ElementsAre("open 1 of 1 probe", "evaluator 1 at w", "close 1 abandon",
                                "open 2 of 1 probe", "evaluator 2 at w", "close 2", "open 3 of 7",
                                "evaluator 3 at w", "close 3 g = 0.1 sum + 0 "));
}

}  // namespace
}  // namespace monsoon
