// The fixture of what `worker` does without a cluster: jobs and models in a folder, the
// program as a process.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/job.h"
#include "common/model/parameter_layout.h"
#include "common/model_file/model_file.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {

// Two inputs are the two logits.
inline constexpr char kTwoInputModel[] = R"(model {
  name: "tiny"
  input_shape: 2
  layer { name: "out" dense { units: UNITS } }
}
)";

struct RunOutcome {
  int code = -1;
  std::string out;
  std::string err;
};

class LocalRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/local-run-XXXXXX");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    // Pixels of 0 and 255 are 0 and 1: the larger one is the class, but the
    // last label says otherwise.
    Write("images", {0,  0, 8, 3,  0,  0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2,  //
                     -1, 0, 0, -1, -1, 0, 0, -1});
    Write("labels", {0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 0, 0});
    WriteJob("job", Model("2"), "test { idx { images: \"images\" labels: \"labels\" } }\n");
  }

  static std::string Model(const std::string& units) {
    std::string text = kTwoInputModel;
    return text.replace(text.find("UNITS"), 5, units);
  }

  void Write(const std::string& name, const std::vector<char>& bytes) {
    std::ofstream(Path(name), std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }
  void WriteJob(const std::string& name, const std::string& model, const std::string& test,
                const std::string& train = "synthetic { examples: 8 classes: 2 }") {
    std::ofstream(Path(name))
        << model << test << "train { " << train
        << " }\nbatch_size: 4\n"
           "downpour { optimizer { sgd { rate: 0.1 } } }\nstop { epochs: 1 }\n";
  }
  // `scale` times the identity, [out, in], no bias.
  static std::vector<float> Identity(const ParameterLayout& layout, float scale) {
    std::vector<float> parameters(layout.size());
    const uint64_t weight = layout.tensors()[0].offset;
    for (uint64_t i = 0; i < 2; ++i) {
      parameters[weight + i * 2 + i] = scale;
    }
    return parameters;
  }
  // That in a model file for `job`.
  void WriteIdentity(const std::string& job, const std::string& file, float scale) {
    ASSERT_OK_AND_ASSIGN(const Job loaded, LoadJob(Path(job)));
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(loaded.model()));
    ASSERT_OK(WriteModelFile(layout, Identity(layout, scale), Path(file)));
  }
  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  // `verb` is --evaluate or --predict; `job` may be "": none is named.
  RunOutcome Run(const std::string& verb, const std::string& model, const std::string& job,
                 std::vector<std::string> more = {}) const {
    std::vector<std::string> argv = {"worker/worker", verb, "--model=" + Path(model)};
    if (!job.empty()) {
      argv.push_back("--job=" + Path(job));
    }
    argv.insert(argv.end(), more.begin(), more.end());
    absl::StatusOr<Subprocess> worker = Subprocess::Start(argv, {});
    EXPECT_OK(worker.status());
    RunOutcome outcome;
    // All fits into a pipe: nothing blocks the process before its end.
    const ProcessEnd end = worker->Wait();
    outcome.code = end.signaled ? -end.code : end.code;
    ReadAvailable(worker->stdout_fd(), &outcome.out);
    ReadAvailable(worker->stderr_fd(), &outcome.err);
    return outcome;
  }

  std::string folder_;
};

}  // namespace monsoon
