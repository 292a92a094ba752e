#include <sys/stat.h>

#include "common/testing/status_matchers.h"
#include "coordinator/cli/cli_fixture.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class EvaluateCommandTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    ASSERT_EQ(mkdir((folder_ + "/worker").c_str(), 0700), 0);
    const std::string worker = Write("worker/worker", "#!/bin/sh\n");
    ASSERT_EQ(chmod(worker.c_str(), 0700), 0);
  }
  // What people see where the worker says that.
  std::string TextOf(const std::string& answer) {
    cli_.run_result = CapturedRun{.output = answer + "\n"};
    EXPECT_EQ(Run({"evaluate", "--model=m.npz", "--job=j.textproto", "--bin_dir=" + folder_}), 0);
    return cli_.out();
  }
};

TEST_F(EvaluateCommandTest, ShowsMetricsAndTheConfusionMatrix) {
  EXPECT_EQ(TextOf(R"({"schema_version":1,"test_accuracy":0.75,"test_loss":0.5,"examples":4,)"
                   R"("metrics":{"auc":0.875},"classes":[)"
                   R"({"name":"cat","examples":3,"precision":1,"recall":0.6666666},)"
                   R"({"name":null,"examples":1,"precision":0.5,"recall":null}],)"
                   R"("confusion":[[2,1],[0,1]]})"),
            "test accuracy 0.7500, loss 0.5000, 4 examples\n"
            "auc 0.875\n\n"
            "label      0      1  precision  recall  (columns: predicted)\n"
            "0 cat      2      1     1.0000  0.6667\n"
            "1          0      1     0.5000       -\n");
}

TEST_F(EvaluateCommandTest, WithoutAccuracyTheLossIsAll) {
  EXPECT_EQ(TextOf(R"({"schema_version":1,"test_accuracy":null,"test_loss":0.5,"examples":4,)"
                   R"("metrics":{"mse":0.5},"classes":null,"confusion":null})"),
            "test loss 0.5000, 4 examples\nmse 0.5\n");
}

TEST_F(EvaluateCommandTest, AWideMatrixIsNotShown) {
  const auto answer = [](int classes) {
    std::string rows, names;
    for (int label = 0; label < classes; ++label) {
      rows += label == 0 ? "[" : ",[";
      for (int c = 0; c < classes; ++c) {
        rows += c == 0 ? "1" : ",1";
      }
      rows += "]";
      names += std::string(label == 0 ? "" : ",") +
               R"({"name":null,"examples":1,"precision":0.5,"recall":0.5})";
    }
    return R"({"schema_version":1,"test_accuracy":0.5,"test_loss":1,"examples":9,"metrics":{},)"
           R"("classes":[)" +
           names + R"(],"confusion":[)" + rows + "]}";
  };
  EXPECT_THAT(TextOf(answer(20)), HasSubstr("columns: predicted"));
  EXPECT_THAT(TextOf(answer(21)), Not(HasSubstr("columns: predicted")));
}

}  // namespace
}  // namespace monsoon
