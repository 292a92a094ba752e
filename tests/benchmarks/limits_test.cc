// The benchmark program itself, in its shortest form: it runs, every result is
// right, and it tells of every workload.
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Program() {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                      "/tests/benchmarks/data_plane_limits");
}

TEST(LimitsTest, MeasuresEveryWorkload) {
  ASSERT_OK_AND_ASSIGN(const CapturedRun run,
                       RunAndCapture({Program(), "--quick", "--rounds=1",
                                      "--only=transfer,secured,call,connections"}));
  EXPECT_TRUE(run.end.ok()) << run.end.Describe();
  for (const char* workload :
       {"fetch_16MiB", "push_16MiB", "fetch_64MiB", "push_64MiB", "step_speech", "call_64B",
        "connections", "secured_fetch_16MiB", "secured_push_64MiB"}) {
    EXPECT_THAT(run.output, HasSubstr(absl::StrCat("\"name\":\"", workload, "\"")));
  }
  EXPECT_THAT(run.output, Not(HasSubstr("adagrad")));
}

TEST(LimitsTest, RefusesWhatItDoesNotKnow) {
  for (const char* flag : {"--only=fetch", "--rounds=0", "--nothing"}) {
    ASSERT_OK_AND_ASSIGN(const CapturedRun run, RunAndCapture({Program(), flag}));
    EXPECT_EQ(run.end.code, 2) << flag;
    EXPECT_EQ(run.output, "");
  }
}

}  // namespace
}  // namespace monsoon
