// `worker --evaluate` as a process: figures, messages and exit codes.
#include <cmath>
#include <cstdio>
#include <fstream>
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
    // Labels 0, 1, 0, 0 are taken for 0, 1, 0, 1.
    EXPECT_THAT(outcome.out,
                HasSubstr(R"("metrics":{},"classes":[{"name":null,"examples":3,"precision":1,)"));
    EXPECT_THAT(outcome.out, HasSubstr(R"("confusion":[[2,1],[0,1]]})"));
    EXPECT_NEAR(json.fields()
                    .at("classes")
                    .list_value()
                    .values(0)
                    .struct_value()
                    .fields()
                    .at("recall")
                    .number_value(),
                2.0 / 3, 1e-15);
  }
}

TEST_F(EvaluateTest, NamesItsClassesAndRegressionHasNone) {
  WriteJob("named", Model("2"),
           "test { idx { images: \"images\" labels: \"labels\" } class_name: \"no\" "
           "class_name: \"yes\" }\n");
  WriteIdentity("named", "model.npz", 3);
  EXPECT_THAT(Evaluate("model.npz", "named").out,
              AllOf(HasSubstr(R"({"name":"no","examples":3)"), HasSubstr(R"({"name":"yes")")));

  // Else the data's own words.
  std::ofstream(Path("words.csv")) << "a,b,kind\n1,0,cat\n0,1,dog\n1,0,cat\n0,1,dog\n";
  const std::string words = "csv { file: \"words.csv\" label: \"kind\" }";
  WriteJob("words", Model("2"), "test { " + words + " }\n", words);
  EXPECT_THAT(Evaluate("model.npz", "words").out,
              AllOf(HasSubstr(R"({"name":"cat","examples":2)"), HasSubstr(R"({"name":"dog")")));

  // One output that says yes by the difference of its inputs; and the same as a number.
  const std::string model =
      "model { name: \"tiny\" input_shape: 2 layer { name: \"out\" dense { units: 1 } } loss: ";
  const std::string test = "test { idx { images: \"images\" labels: \"labels\" } }\n";
  WriteJob("binary", model + "BINARY_CROSS_ENTROPY }\n", test);
  WriteJob("number", model + "MEAN_SQUARED_ERROR }\n", test);
  ASSERT_OK_AND_ASSIGN(const Job loaded, LoadJob(Path("binary")));
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(loaded.model()));
  std::vector<float> parameters(layout.size());
  parameters[layout.tensors()[0].offset] = -1;
  parameters[layout.tensors()[0].offset + 1] = 1;
  ASSERT_OK(WriteModelFile(layout, parameters, Path("one.npz")));
  // Outputs -1, 1, -1, 1 for no, yes, no, no: of 3 pairs 2 are won and 1 is equal.
  const std::string binary = Evaluate("one.npz", "binary").out;
  EXPECT_THAT(binary, AllOf(HasSubstr(R"("test_accuracy":0.75)"), HasSubstr(R"("auc":0.8333)"),
                            HasSubstr(R"("confusion":[[2,1],[0,1]])")));
  // (1 + 0 + 1 + 1) / 4.
  const std::string number = Evaluate("one.npz", "number").out;
  EXPECT_THAT(number, AllOf(HasSubstr(R"("test_accuracy":null,"test_loss":0.75)"),
                            HasSubstr(R"("mse":0.75)"), HasSubstr(R"("confusion":null)")));
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
