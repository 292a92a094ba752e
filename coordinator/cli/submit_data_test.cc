// What submit says of data files, which workers look at.
#include "absl/strings/str_replace.h"
#include "coordinator/cli/cli_fixture.h"
#include "gmock/gmock.h"
#include "proto/data_report.pb.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The files are on the workers' machines, and nobody opens them here.
TEST_F(CliTest, SubmitTellsWhatWorkersHaveFoundInTheData) {
  const std::string job =
      Write("files.textproto",
            absl::StrReplaceAll(kJob, {{"synthetic { examples: 64 classes: 2 }",
                                        "npy { images: \"x.npy\" labels: \"y.npy\" }"}}));
  DataFinding* const warning = cli_.coordinator.data_found.add_data_warning();
  warning->set_field("train.npy.images");
  warning->set_message("worker/0 on alpha: they are not scaled");
  cli_.coordinator.data_found.set_data_seen("worker/0 on alpha: train 64 samples");
  EXPECT_EQ(Run({"submit", job}), 0);
  EXPECT_EQ(cli_.out(), "submitted files-1, state PENDING\n");
  EXPECT_THAT(cli_.err(), HasSubstr("files.textproto:10:25: warning: train.npy.images: worker/0 on "
                                    "alpha: they are not scaled\n"));
  EXPECT_THAT(cli_.err(), HasSubstr("the data as seen by worker/0 on alpha: train 64 samples\n"));
}

TEST_F(CliTest, SubmitRefusesDataThatWorkersCannotRead) {
  DataFinding* const error = cli_.coordinator.data_found.add_data_error();
  error->set_field("train");
  error->set_message("worker/2 on beta: /data/x.npy: no such file");
  EXPECT_EQ(Run({"submit", job_, "--watch"}), 2);
  EXPECT_EQ(cli_.out(), "");
  EXPECT_THAT(cli_.err(), HasSubstr("error: train: worker/2 on beta: /data/x.npy: no such file\n"));
  EXPECT_THAT(cli_.coordinator.calls, ElementsAre("Submit tiny"));
}

TEST_F(CliTest, SubmitTellsThatNobodyHasLookedAtTheData) {
  cli_.coordinator.data_found.set_data_awaited(true);
  EXPECT_EQ(Run({"submit", job_}), 0);
  EXPECT_THAT(cli_.err(), HasSubstr("no worker has looked at the data files yet"));
}

}  // namespace
}  // namespace monsoon
