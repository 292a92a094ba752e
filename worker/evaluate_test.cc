// `worker --evaluate` as a process: figures, messages and exit codes.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/job.h"
#include "common/model/parameter_layout.h"
#include "common/npz/model_file.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Two inputs are the two logits.
constexpr char kModel[] = R"(model {
  name: "tiny"
  input_shape: 2
  layer { name: "out" dense { units: UNITS } }
}
)";

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class EvaluateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/evaluate-XXXXXX");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    // Pixels of 0 and 255 are 0 and 1: the larger one is the class, but the
    // last label says otherwise.
    Write("images", {0,  0, 8, 3,  0,  0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2,  //
                     -1, 0, 0, -1, -1, 0, 0, -1});
    Write("labels", {0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 0, 0});
    WriteJob("job", Model("2"), "test { idx { images: \"images\" labels: \"labels\" } }\n");
  }

  static std::string Model(const std::string& units) {
    std::string text = kModel;
    return text.replace(text.find("UNITS"), 5, units);
  }

  void Write(const std::string& name, const std::vector<char>& bytes) {
    std::ofstream(Path(name), std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }
  void WriteJob(const std::string& name, const std::string& model, const std::string& test) {
    std::ofstream(Path(name))
        << model << test
        << "train { synthetic { examples: 8 classes: 2 } }\nbatch_size: 4\n"
           "downpour { optimizer { sgd { rate: 0.1 } } }\nstop { epochs: 1 }\n";
  }
  // A model file for `job`: `scale` times the identity, [out, in], no bias.
  void WriteIdentity(const std::string& job, const std::string& file, float scale) {
    ASSERT_OK_AND_ASSIGN(const Job loaded, LoadJob(Path(job)));
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(loaded.model()));
    std::vector<float> parameters(layout.size());
    const uint64_t weight = layout.tensors()[0].offset;
    for (uint64_t i = 0; i < 2; ++i) {
      parameters[weight + i * 2 + i] = scale;
    }
    ASSERT_OK(WriteModelFile(layout, parameters, Path(file)));
  }
  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  Outcome Evaluate(const std::string& model, const std::string& job,
                   std::vector<std::string> more = {}) const {
    std::vector<std::string> argv = {"worker/worker", "--evaluate", "--model=" + Path(model),
                                     "--job=" + Path(job)};
    argv.insert(argv.end(), more.begin(), more.end());
    absl::StatusOr<Subprocess> worker = Subprocess::Start(argv, {});
    EXPECT_OK(worker.status());
    Outcome outcome;
    // All fits into a pipe: nothing blocks the process before its end.
    const ProcessEnd end = worker->Wait();
    outcome.code = end.signaled ? -end.code : end.code;
    ReadAvailable(worker->stdout_fd(), &outcome.out);
    ReadAvailable(worker->stderr_fd(), &outcome.err);
    return outcome;
  }

  std::string folder_;
};

TEST_F(EvaluateTest, PrintsTheKnownFigures) {
  WriteIdentity("job", "model.npz", 3);
  for (const std::string threads : {"1", "2"}) {
    const Outcome outcome = Evaluate("model.npz", "job", {"--threads=" + threads});
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
  const Outcome outcome = Evaluate("wide.npz", "job");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("worker: " + Path("wide.npz") + " does not fit the model: "),
                    HasSubstr("out/weight.npy has the shape (3, 2), the model has (2, 2)"),
                    HasSubstr("out/bias.npy has the shape (3), the model has (2)")));
}

TEST_F(EvaluateTest, WhatIsMissingOrBrokenIsNamed) {
  WriteIdentity("job", "model.npz", 1);
  Outcome outcome = Evaluate("none.npz", "job");
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
