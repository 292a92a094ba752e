#include "worker/baseline/command_line.h"

#include <fstream>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr char kJob[] = R"pb(
  model {
    name: "tiny"
    input_shape: 3
    layer { dense { units: 2 } }
  }
  train { synthetic { examples: 64 classes: 2 } }
  batch_size: 8
  downpour { optimizer { sgd { rate: 0.1 } } }
  stop { epochs: 2 })pb";

class BaselineCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = ::testing::TempDir() + "/tiny.textproto";
    std::ofstream(path) << kJob;
    job_flag_ = "--job=" + path;
  }

  absl::StatusOr<BaselineCommand> Read(std::vector<const char*> args) const {
    args.push_back(job_flag_.c_str());
    return ReadBaselineCommand(args);
  }

  std::string job_flag_;
};

TEST_F(BaselineCommandTest, EverySetCounts) {
  ASSERT_OK_AND_ASSIGN(
      const BaselineCommand command,
      Read({"--set=seed=5", "--set=downpour.optimizer.schedule.cosine.pushes=9380",
            "--set=downpour.optimizer.schedule.cosine.final=0", "--threads=2", "--json"}));
  EXPECT_EQ(command.job.seed(), 5u);
  const Schedule& schedule = command.job.downpour().optimizer().schedule();
  ASSERT_TRUE(schedule.has_cosine());
  EXPECT_EQ(schedule.cosine().pushes(), 9380u);
  EXPECT_EQ(schedule.cosine().final(), 0.0);
  EXPECT_EQ(command.job.stop().epochs(), 2.0);
  EXPECT_EQ(command.threads, 2u);
  EXPECT_TRUE(command.json);
}

TEST_F(BaselineCommandTest, EpochsIsASetThatComesLast) {
  ASSERT_OK_AND_ASSIGN(const BaselineCommand command,
                       Read({"--epochs=0.5", "--set=stop.epochs=9"}));
  EXPECT_EQ(command.job.stop().epochs(), 0.5);
  EXPECT_THAT(Read({"--epochs=many"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stop.epochs")));
}

TEST_F(BaselineCommandTest, ErrorsSayWhatToWrite) {
  const auto refused = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(Read({"--thread=2"}).status(),
              refused("baseline: unknown flag --thread; did you mean \"--threads\"?"));
  EXPECT_THAT(Read({"--threads=two"}).status(), refused("--threads=two: the value must be"));
  EXPECT_THAT(Read({"--threads=0"}).status(), refused("--threads=0: the value must be 1 to "));
  EXPECT_THAT(Read({"mlp"}).status(), refused("unexpected argument \"mlp\""));
  EXPECT_THAT(Read({"--set=batch_sise=3"}).status(), refused("did you mean \"batch_size\"?"));
  EXPECT_THAT(ReadBaselineCommand({}).status(), refused("--job=FILE is missing"));
  ASSERT_OK_AND_ASSIGN(const BaselineCommand help, Read({"--help"}));
  EXPECT_THAT(help.help, HasSubstr("--set="));
}

}  // namespace
}  // namespace monsoon
