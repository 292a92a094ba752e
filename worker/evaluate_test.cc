// `worker --evaluate` as a process: figures, messages and exit codes.
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "worker/local_run_fixture.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EvaluateTest : public LocalRunTest {
 protected:
  RunOutcome Evaluate(const std::string& model, const std::string& job,
                      std::vector<std::string> more = {}) const {
    return Run("--evaluate", model, job, std::move(more));
  }
};

TEST_F(EvaluateTest, PrintsTheKnownFigures) {
  WriteIdentity("job", "model.npz", 3);
  for (const std::string threads : {"1", "2"}) {
    const RunOutcome outcome = Evaluate("model.npz", "job", {"--threads=" + threads});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    google::protobuf::Struct json;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(outcome.out, &json).ok())
        << outcome.out;
    const auto number = [&](const char* name) { return json.fields().at(name).number_value(); };
    EXPECT_EQ(number("schema_version"), 1);
    EXPECT_EQ(number("examples"), 4);
    EXPECT_EQ(number("test_accuracy"), 0.75);
    // Logits (3, 0): three times log(1 + e^-3), once log(1 + e^3).
    EXPECT_NEAR(number("test_loss"), (3 * std::log1p(std::exp(-3)) + std::log1p(std::exp(3))) / 4,
                1e-6);
  }
}

TEST_F(EvaluateTest, AModelOfAnotherShapeIsRefusedByTensor) {
  WriteJob("wide", Model("3"), "");
  WriteIdentity("wide", "wide.npz", 1);
  const RunOutcome outcome = Evaluate("wide.npz", "job");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("worker: " + Path("wide.npz") + " does not fit the model: "),
                    HasSubstr("out/weight.npy has the shape (3, 2), the model has (2, 2)"),
                    HasSubstr("out/bias.npy has the shape (3), the model has (2)")));
}

TEST_F(EvaluateTest, WhatIsMissingOrBrokenIsNamed) {
  WriteIdentity("job", "model.npz", 1);
  RunOutcome outcome = Evaluate("none.npz", "job");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(Path("none.npz")), HasSubstr("No such file")));

  outcome = Evaluate("labels", "job");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(Path("labels") + " is not a usable .npz file: "));

  outcome = Evaluate("model.npz", "no_job");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(Path("no_job")));

  WriteJob("no_test", Model("2"), "");
  outcome = Evaluate("model.npz", "no_test");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no test set"));

  outcome = Evaluate("model.npz", "job", {"--thread=2"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("unknown flag --thread; did you mean \"--threads\"?"));

  // Found by the job file's check, before anything is computed.
  ASSERT_EQ(std::remove(Path("labels").c_str()), 0);
  outcome = Evaluate("model.npz", "job");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(Path("job") + ":6:"), HasSubstr("test.idx.labels")));
}

}  // namespace
}  // namespace monsoon
