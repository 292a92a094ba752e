// `worker --predict` as a process: files, messages and exit codes.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "absl/strings/str_split.h"
#include "common/data/access/data_access.h"
#include "common/data/npy_file.h"
#include "common/npz/npz_writer.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/local_run_fixture.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of the larger one of the logits 3 and 0.
const double kSure = 1 / (1 + std::exp(-3.0));

class PredictTest : public LocalRunTest {
 protected:
  RunOutcome Predict(const std::string& out, std::vector<std::string> more = {},
                     const std::string& job = "job") const {
    more.push_back("--out=" + Path(out));
    return Run("--predict", "model.npz", job, std::move(more));
  }
  std::string Content(const std::string& name) const {
    std::ifstream in(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // The values of a .npy file of that shape.
  std::vector<float> Npy(const std::string& name, std::vector<uint64_t> shape) const {
    const absl::StatusOr<NpyHeader> header = ReadNpyHeader(Path(name), DataAccess::Own());
    EXPECT_OK(header.status());
    if (!header.ok()) {
      return {};
    }
    EXPECT_EQ(header->type, NpyType::kFloat32);
    EXPECT_EQ(header->shape, shape);
    EXPECT_EQ(header->data_offset % 64, 0u);
    std::vector<float> values(header->data_bytes / sizeof(float));
    std::memcpy(values.data(), Content(name).data() + header->data_offset, header->data_bytes);
    return values;
  }
  void ExpectFirstClass(const std::vector<float>& values, const std::vector<bool>& first) {
    ASSERT_EQ(values.size(), 2 * first.size());
    for (size_t n = 0; n < first.size(); ++n) {
      EXPECT_NEAR(values[2 * n], first[n] ? kSure : 1 - kSure, 1e-7) << n;
      EXPECT_NEAR(values[2 * n + 1], first[n] ? 1 - kSure : kSure, 1e-7) << n;
    }
  }
};

TEST_F(PredictTest, WritesTheProbabilitiesOfTheTestSet) {
  WriteIdentity("job", "model.npz", 3);
  const RunOutcome outcome = Predict("p.npy");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            absl::StrCat(R"({"schema_version":1,"out":")", Path("p.npy"),
                         R"(","samples":4,"classes":2,"holds":"probabilities"})", "\n"));
  ExpectFirstClass(Npy("p.npy", {4, 2}), {true, false, true, false});
  // The same, in batches that leave a rest, and by two threads.
  ASSERT_EQ(Predict("q.npy", {"--data=test", "--threads=2"}).code, 0);
  EXPECT_EQ(Content("q.npy"), Content("p.npy"));
  WriteJob(
      "small", Model("2"),
      "test { idx { images: \"images\" labels: \"labels\" } }\nevaluation { batch_size: 3 }\n");
  ASSERT_EQ(Predict("r.npy", {}, "small").code, 0);
  EXPECT_EQ(Content("r.npy"), Content("p.npy"));
}

TEST_F(PredictTest, WritesLabelsAndNumbersThatReadBackAsTheSameFloats) {
  WriteIdentity("job", "model.npz", 3);
  ASSERT_EQ(Predict("p.npy").code, 0);
  const std::vector<float> values = Npy("p.npy", {4, 2});
  ASSERT_EQ(Predict("p.csv").code, 0);
  const std::vector<std::string> lines = absl::StrSplit(Content("p.csv"), '\n');
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "index,label_predicted,p_0,p_1");
  EXPECT_EQ(lines[5], "");
  for (size_t n = 0; n < 4; ++n) {
    const std::vector<std::string> fields = absl::StrSplit(lines[n + 1], ',');
    ASSERT_EQ(fields.size(), 4u);
    EXPECT_EQ(fields[0], std::to_string(n));
    EXPECT_EQ(fields[1], n % 2 == 0 ? "0" : "1");
    EXPECT_EQ(std::strtof(fields[2].c_str(), nullptr), values[2 * n]);
    EXPECT_EQ(std::strtof(fields[3].c_str(), nullptr), values[2 * n + 1]);
  }
}

// What the outputs mean is the loss's to say.
TEST_F(PredictTest, WritesWhatTheLossSays) {
  const std::string test = "test { idx { images: \"images\" labels: \"labels\" } }\n";
  const auto of = [](int units, const std::string& loss) {
    return "model { name: \"tiny\" input_shape: 2 layer { name: \"out\" dense { units: " +
           std::to_string(units) + " } } loss: " + loss + " }\n";
  };
  WriteIdentity("job", "model.npz", 3);
  WriteJob("all", of(2, "ONE_VERSUS_ALL_LOGISTIC"), test);
  RunOutcome outcome = Predict("p.csv", {}, "all");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(R"("classes":2,"holds":"independent_probabilities"})"));
  EXPECT_THAT(Content("p.csv"), StartsWith("index,label_predicted,p_0,p_1\n0,0,0.952574134,0.5\n"));

  WriteJob("values", of(2, "MEAN_SQUARED_ERROR"), "");
  outcome = Predict("p.csv", {"--data=" + Path("images")}, "values");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(R"("holds":"values"})"));
  EXPECT_THAT(Content("p.csv"), StartsWith("index,value_0,value_1\n0,3,0\n1,0,3\n"));

  WriteJob("several", of(2, "BINARY_CROSS_ENTROPY"), test);
  ASSERT_EQ(Predict("p.csv", {}, "several").code, 0);
  EXPECT_THAT(Content("p.csv"), StartsWith("index,p_0,p_1\n0,0.952574134,0.5\n"));

  WriteJob("yes", of(1, "BINARY_CROSS_ENTROPY"), test);
  ASSERT_OK_AND_ASSIGN(const Job loaded, LoadJob(Path("yes")));
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(loaded.model()));
  std::vector<float> parameters(layout.size());
  parameters[layout.tensors()[0].offset] = -3;
  parameters[layout.tensors()[0].offset + 1] = 3;
  ASSERT_OK(WriteModelFile(layout, parameters, Path("model.npz")));
  ASSERT_EQ(Predict("p.csv", {}, "yes").code, 0);
  EXPECT_THAT(Content("p.csv"),
              StartsWith("index,label_predicted,p_1\n0,0,0.0474258736\n1,1,0.952574134\n"));
}

// Of probabilities that are rounded to the same number too.
TEST_F(PredictTest, SaysTheLabelThatAnEvaluationCounts) {
  Write("images", {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 20, 30});
  Write("labels", {0, 0, 8, 1, 0, 0, 0, 1, 1});
  WriteJob("sure",
           "model { name: \"tiny\" input_shape: 2 layer { name: \"out\" dense { units: 2 } } loss: "
           "ONE_VERSUS_ALL_LOGISTIC }\n",
           "test { idx { images: \"images\" labels: \"labels\" } }\n");
  WriteIdentity("sure", "model.npz", 255);
  ASSERT_EQ(Predict("p.csv", {}, "sure").code, 0);
  EXPECT_EQ(Content("p.csv"), "index,label_predicted,p_0,p_1\n0,1,1,1\n");
  EXPECT_THAT(Run("--evaluate", "model.npz", "sure").out, HasSubstr("\"test_accuracy\":1,"));
}

// A dense layer at each of two steps; a byte each: 0, 0; 8, 3; and so on.
TEST_F(PredictTest, SequencesHaveALineAStep) {
  const std::string model =
      "model { name: \"tiny\" input_shape: [ 2, 1 ] layer { name: \"out\" dense { units: 256 } } "
      "}\n";
  WriteJob("steps", model, "test { text { file: \"images\" } limit: 3 }\n",
           "text { file: \"images\" }");
  ASSERT_OK_AND_ASSIGN(const Job loaded, LoadJob(Path("steps")));
  ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(loaded.model()));
  std::vector<float> parameters(layout.size());
  parameters[layout.tensors()[0].offset] = 3;
  ASSERT_OK(WriteModelFile(layout, parameters, Path("model.npz")));
  RunOutcome outcome = Predict("p.csv", {}, "steps");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr(R"("samples":3,"classes":256,"holds":"probabilities","steps":2})"));
  const std::string csv = Content("p.csv");
  EXPECT_THAT(csv, StartsWith("index,step,label_predicted,p_0,p_1,"));
  EXPECT_THAT(csv, HasSubstr("\n0,0,0,0.00390625,"));
  EXPECT_THAT(csv, HasSubstr("\n1,1,0,0.96949"));
  ASSERT_EQ(Predict("p.npy", {}, "steps").code, 0);
  EXPECT_NEAR(Npy("p.npy", {3, 2, 256})[3 * 256], 0.96949, 1e-5);  // e^9 / (e^9 + 255)
}

TEST_F(PredictTest, FilesOfSamplesNeedNoLabelsNorTheJobsOwnData) {
  WriteIdentity("job", "model.npz", 3);
  // Of the test set's settings scale and mean count, not the limit.
  WriteJob("gone", Model("2"),
           "test { idx { images: \"none\" labels: \"none\" } limit: 1 mean: 1 scale: -1 }\n");
  const float samples[] = {0, 1, 1, 0, 1, 0};  // turned round by 1 - x
  std::string npy = NpyFloatHead(std::vector<uint64_t>{3, 2});
  npy.append(reinterpret_cast<const char*>(samples), sizeof(samples));
  Write("samples.npy", {npy.begin(), npy.end()});
  const RunOutcome outcome =
      Predict("p.npy", {"--data=" + Path("samples.npy"), "--data=" + Path("images")}, "gone");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ExpectFirstClass(Npy("p.npy", {7, 2}), {true, false, false, false, true, false, true});
  // An archive with the samples alone.
  ASSERT_OK_AND_ASSIGN(NpzWriter archive, NpzWriter::Create(Path("samples.npz")));
  ASSERT_OK(archive.Add("images", std::vector<uint32_t>{3, 2}, samples));
  ASSERT_OK(archive.Finish());
  const RunOutcome of_archive = Predict("p.npy", {"--data=" + Path("samples.npz")}, "gone");
  ASSERT_EQ(of_archive.code, 0) << of_archive.err;
  ExpectFirstClass(Npy("p.npy", {3, 2}), {true, false, false});
}

TEST_F(PredictTest, StandardisesAsTheJobDoes) {
  // Its training set is the test set: each feature is 1 and 0 in turn, so -1 and 1.
  WriteJob("standard", Model("2"),
           "test { idx { images: \"images\" labels: \"labels\" } }\nstandardise: true\n");
  std::string job = Content("standard");
  job.replace(job.find("train { synthetic { examples: 8 classes: 2 } }"), 46,
              "train { idx { images: \"images\" labels: \"labels\" } }");
  Write("standard", {job.begin(), job.end()});
  WriteIdentity("job", "model.npz", 1.5);  // from -1 to 1: 3
  for (const std::string data : {"test", "train", "images"}) {
    const RunOutcome outcome =
        Predict("p.npy", {"--data=" + (data == "images" ? Path(data) : data)}, "standard");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    ExpectFirstClass(Npy("p.npy", {4, 2}), {true, false, true, false});
  }
}

TEST_F(PredictTest, TakesTablesOfTheTrainingSetsColumns) {
  const auto write = [&](const std::string& name, const std::string& text) {
    Write(name, std::vector<char>(text.begin(), text.end()));
  };
  write("train.csv", "a,b,kind\n1,0,no\n0,1,yes\n");
  write("test.csv", "kind,b,a\nno,0,1\nyes,0,1\n");
  write("new.csv", "b,note,a\n1,x,0\n");
  std::ofstream(Path("table")) << Model("2")
                               << "train { csv { file: \"train.csv\" label: \"kind\" } }\n"
                                  "test { csv { file: \"test.csv\" label: \"kind\" } }\n"
                                  "batch_size: 1\ndownpour { optimizer { sgd { rate: 0.1 } } }\n"
                                  "stop { epochs: 1 }\n";
  WriteIdentity("table", "model.npz", 3);
  ASSERT_EQ(Predict("p.npy", {"--data=test", "--data=" + Path("new.csv")}, "table").code, 0);
  ExpectFirstClass(Npy("p.npy", {3, 2}), {true, true, false});
  RunOutcome named = Predict("p.csv", {"--data=" + Path("new.csv")}, "table");
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr(R"("class_names":["no","yes"])"));
  EXPECT_THAT(Content("p.csv"), StartsWith("index,label_predicted,p_0,p_1\n0,yes,"));
  const RunOutcome evaluated = Run("--evaluate", "model.npz", "table", {"--json"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("\"test_accuracy\":0.5"));
  write("new.csv", "b\n1\n");
  const RunOutcome lacking = Predict("q.npy", {"--data=" + Path("new.csv")}, "table");
  EXPECT_EQ(lacking.code, 2);
  EXPECT_THAT(lacking.err, HasSubstr("new.csv:1: no column is called \"a\" (feature)"));
}

// Numbers that are names, too: the class that is called 10 is the third of these.
TEST_F(PredictTest, WritesTheNamesOfClasses) {
  const auto write = [&](const std::string& name, const std::string& text) {
    Write(name, std::vector<char>(text.begin(), text.end()));
  };
  write("train.csv", "a,b,kind\n1,0,10.0\n0,1,9.0\n");
  write("new.csv", "a,b\n1,0\n0,1\n");
  const auto job = [&](const std::string& more) {
    std::ofstream(Path("table")) << Model("2")
                                 << "train { csv { file: \"train.csv\" label: \"kind\" } " << more
                                 << " }\nbatch_size: 1\n"
                                    "downpour { optimizer { sgd { rate: 0.1 } } }\n"
                                    "stop { epochs: 1 }\n";
  };
  job("");
  WriteIdentity("table", "model.npz", 3);
  const std::vector<std::string> data = {"--data=" + Path("new.csv")};
  ASSERT_EQ(Predict("p.csv", data, "table").code, 0);
  EXPECT_THAT(Content("p.csv"), AllOf(HasSubstr("\n0,9.0,"), HasSubstr("\n1,10.0,")));
  job("class_name: [\"10.0\", \"9.0\"]");
  ASSERT_EQ(Predict("p.csv", data, "table").code, 0);
  EXPECT_THAT(Content("p.csv"), AllOf(HasSubstr("\n0,10.0,"), HasSubstr("\n1,9.0,")));
  write("train.csv", "a,b,kind\n1,0,\"a, b\"\n0,1,\"say \"\"c\"\"\"\n");
  job("");
  ASSERT_EQ(Predict("p.csv", data, "table").code, 0);
  EXPECT_THAT(Content("p.csv"),
              AllOf(HasSubstr("\n0,\"a, b\","), HasSubstr("\n1,\"say \"\"c\"\"\",")));
}

TEST_F(PredictTest, ErrorsNameFileAndFieldAndLeaveNothing) {
  WriteIdentity("job", "model.npz", 3);
  const auto expect = [&](const RunOutcome& outcome, int code, const auto& message) {
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, message);
    EXPECT_FALSE(std::filesystem::exists(Path("p.npy")));
  };
  expect(Predict("p.txt"), 2,
         AllOf(StartsWith("worker: " + Path("p.txt")), HasSubstr(".npy or a .csv")));
  expect(Predict("none/p.npy"), 2, HasSubstr(Path("none/p.npy")));
  expect(Predict("p.npy", {"--data=" + Path("nothing.npy")}), 2,
         HasSubstr("--data=" + Path("nothing.npy")));
  expect(Predict("p.npy", {"--data=" + Path("labels")}), 2, HasSubstr("labels, not images"));
  WriteJob("wide", Model("3"), "");
  expect(Predict("p.npy", {"--data=train"}, "wide"), 2,
         HasSubstr("out/weight.npy has the shape (2, 2), the model has (3, 2)"));
  WriteJob("no_test", Model("2"), "");
  expect(Predict("p.npy", {}, "no_test"), 2,
         AllOf(HasSubstr("no test set"), HasSubstr("--data=train")));
  expect(Run("--predict", "model.npz", "job"), 2,
         HasSubstr("--predict needs --model=PATH, --out=FILE"));
  expect(Predict("p.npy", {"--evaluate"}), 2, HasSubstr("give one"));

  WriteIdentity("job", "model.npz", INFINITY);
  expect(Predict("p.npy"), 2,
         AllOf(HasSubstr(Path("model.npz")), HasSubstr("sample 0 are not finite")));
  // The half that was written before is gone too.
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().string(), ::testing::Not(HasSubstr(".tmp.")));
  }
}

}  // namespace
}  // namespace monsoon
