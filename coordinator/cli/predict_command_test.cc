#include <sys/stat.h>

#include "common/testing/status_matchers.h"
#include "coordinator/cli/cli_fixture.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PredictCommandTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    ASSERT_EQ(mkdir((folder_ + "/worker").c_str(), 0700), 0);
    worker_ = Write("worker/worker", "#!/bin/sh\n");
    ASSERT_EQ(chmod(worker_.c_str(), 0700), 0);
    cli_.run_result =
        CapturedRun{.output = R"({"schema_version":1,"out":"p.npy","samples":10000,"classes":10})"
                              "\n"};
  }
  int Predict(std::vector<std::string> args) {
    args.insert(args.begin(), {"predict", "--bin_dir=" + folder_});
    return Run(std::move(args));
  }

  std::string worker_;
};

TEST_F(PredictCommandTest, RunsTheSiblingWorker) {
  EXPECT_EQ(Predict({"--model=m.npz", "--job=j.textproto", "--out=p.npy"}), 0);
  EXPECT_THAT(cli_.ran, ElementsAre(worker_, "--predict", "--model=m.npz", "--job=j.textproto",
                                    "--out=p.npy"));
  EXPECT_EQ(cli_.out(), "p.npy: 10000 samples, 10 classes\n");
  EXPECT_EQ(Predict({"--model=m.npz", "--job=j", "--out=p.csv", "--data=train", "--data=x.npy",
                     "--json"}),
            0);
  EXPECT_THAT(cli_.ran, ElementsAre(worker_, "--predict", "--model=m.npz", "--job=j", "--out=p.csv",
                                    "--data=train", "--data=x.npy"));
  EXPECT_EQ(cli_.out(), cli_.run_result->output);
  cli_.run_result = CapturedRun{.output = R"({"schema_version":1,"out":"p.npy","samples":7,)"
                                          R"("classes":2,"holds":"values","steps":3})"
                                          "\n"};
  EXPECT_EQ(Predict({"--model=m.npz", "--job=j", "--out=p.npy"}), 0);
  EXPECT_EQ(cli_.out(), "p.npy: 7 samples, 2 values at each of 3 steps\n");
  cli_.run_result =
      CapturedRun{.output = R"({"schema_version":1,"out":"p.npy","samples":7,"classes":1})"};
  EXPECT_EQ(Predict({"--model=m.npz", "--job=j", "--out=p.npy"}), 0);
  EXPECT_EQ(cli_.out(), "p.npy: 7 samples, 1 probability, that of class 1\n");
}

TEST_F(PredictCommandTest, MistakesAreToldBeforeAnythingRuns) {
  EXPECT_EQ(Predict({"--job=j", "--out=p.npy"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--model=FILE is missing"));
  EXPECT_EQ(Predict({"--model=m.npz", "--out=p.npy"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--job=FILE is missing"));
  EXPECT_EQ(Predict({"--model=m.npz", "--job=j"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--out=FILE is missing"));
  EXPECT_EQ(Predict({"--model=m.npz", "--job=j", "--out=p.txt"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("--out=p.txt: predictions are written to a .npy or a .csv"));
  EXPECT_EQ(Predict({"--model=m.npz", "--job=j", "--out=p.npy", "extra"}), 2);
  EXPECT_THAT(cli_.ran, ElementsAre());
}

TEST_F(PredictCommandTest, AModelMayBeAJobOrAFolderWithAJobOfItsOwn) {
  cli_.variables["MONSOON_STATE_DIR"] = "/state";
  EXPECT_EQ(Predict({"--model=tiny-1", "--out=p.npy"}), 2);
  EXPECT_THAT(cli_.err(), HasSubstr("there is no checkpoint of any job in /state/jobs"));
  ASSERT_OK(cli_.storage.MakeFolder("/state/jobs/tiny-1@7"));
  EXPECT_EQ(Predict({"--model=tiny-1", "--out=p.npy"}), 0);
  EXPECT_THAT(cli_.ran,
              ElementsAre(worker_, "--predict", "--model=/state/jobs/tiny-1@7", "--out=p.npy"));
  EXPECT_EQ(Predict({"--model=/state/jobs/tiny-1@7", "--job=j", "--out=p.npy"}), 0);
  EXPECT_THAT(cli_.ran, ElementsAre(worker_, "--predict", "--model=/state/jobs/tiny-1@7", "--job=j",
                                    "--out=p.npy"));
  EXPECT_EQ(Run({"evaluate", "--bin_dir=" + folder_, "--model=latest"}), 5);  // another answer
  EXPECT_THAT(cli_.ran, ElementsAre(worker_, "--evaluate", "--model=/state/jobs/tiny-1@7"));
}

TEST_F(PredictCommandTest, TheWorkersEndIsOurs) {
  const std::vector<std::string> args = {"--model=m.npz", "--job=j", "--out=p.npy"};
  cli_.run_result = CapturedRun{.output = "what?"};
  EXPECT_EQ(Predict(args), 5);
  EXPECT_THAT(cli_.err(), HasSubstr("not understood: what?"));
  cli_.run_result = CapturedRun{.end = {.code = 5}};
  EXPECT_EQ(Predict(args), 5);
  EXPECT_THAT(cli_.err(), HasSubstr("the worker's prediction exited with code 5"));
  cli_.run_result = CapturedRun{.end = {.signaled = true, .code = 9}};
  EXPECT_EQ(Predict(args), 137);
}

}  // namespace
}  // namespace monsoon
