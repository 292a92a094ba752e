// The real binary: flags, exit codes, signals.
#include <signal.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/process/subprocess.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/ps_process.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

std::string TempDir() {
  const char* directory = std::getenv("TEST_TMPDIR");
  return directory != nullptr ? directory : ::testing::TempDir();
}

// Exit code and standard error of a run that ends by itself.
std::pair<int, std::string> RunToEnd(std::vector<std::string> flags) {
  std::vector<std::string> argv = {PsServerBinary()};
  argv.insert(argv.end(), flags.begin(), flags.end());
  absl::StatusOr<Subprocess> process = Subprocess::Start(argv, {});
  EXPECT_OK(process);
  const ProcessEnd end = process->Wait();
  std::string out, err;
  ReadAvailable(process->stdout_fd(), &out);
  ReadAvailable(process->stderr_fd(), &err);
  return {end.signaled ? -1 : end.code, out + err};
}

TEST(PsProcessTest, HelpAndBadFlags) {
  EXPECT_EQ(RunToEnd({"--help"}).first, 0);
  EXPECT_THAT(RunToEnd({"--help"}).second, HasSubstr("--cluster"));
  EXPECT_EQ(RunToEnd({"--clutser=x"}).first, 2);
  EXPECT_EQ(RunToEnd({"--cluster=/nowhere/at/all"}).first, 2);
  const std::string cluster = WriteClusterFile(TempDir(), "localhost:2222", "");
  const auto [no_task, question] = RunToEnd({absl::StrCat("--cluster=", cluster)});
  EXPECT_EQ(no_task, 2);
  EXPECT_THAT(question, HasSubstr("--task=N is missing: which ps of "));
  EXPECT_THAT(question, HasSubstr("It has ps/0 at "));
  const auto [code, text] = RunToEnd({absl::StrCat("--cluster=", cluster), "--task=1"});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, HasSubstr("has 1 ps"));
  EXPECT_EQ(RunToEnd({absl::StrCat("--cluster=", cluster), "--task=0", "--fault=drop=2"}).first, 2);
}

TEST(PsProcessTest, RefusesAPortInUseAndAnOpenAddress) {
  // Where a test runs nobody has a folder for credentials.
  setenv("MONSOON_INSECURE", "1", 1);
  ASSERT_OK_AND_ASSIGN(PsProcess first, StartPsProcess(TempDir(), "", {}));
  const std::string cluster = absl::StrCat("--cluster=", TempDir(), "/cluster.textproto");
  const auto [code, text] =
      RunToEnd({cluster, "--task=0", absl::StrCat("--address=", first.address)});
  EXPECT_EQ(code, 2);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("cannot listen on ", first.address)));
  EXPECT_THAT(text, HasSubstr("in use"));
  const auto [open_code, open_text] = RunToEnd({cluster, "--task=0", "--address=0.0.0.0:0"});
  EXPECT_EQ(open_code, 2);
  EXPECT_THAT(open_text, HasSubstr("--insecure"));
  const auto [fault_code, fault_text] =
      RunToEnd({cluster, "--task=0", "--address=0.0.0.0:0", "--insecure", "--fault=delay_ms=1"});
  EXPECT_EQ(fault_code, 2);
  EXPECT_THAT(fault_text, HasSubstr("loopback"));
}

TEST(PsProcessTest, DrainsAndEndsWithZeroOnSigterm) {
  for (int signal : {SIGTERM, SIGINT}) {
    ASSERT_OK_AND_ASSIGN(PsProcess server, StartPsProcess(TempDir(), "", {}));
    auto control = ShardControl::Create(server.address, absl::Seconds(10));
    ASSERT_OK_AND_ASSIGN(const ShardStatusReply status, control->GetStatus("test"));
    EXPECT_EQ(status.pid(), static_cast<uint32_t>(server.process.pid()));
    server.process.Signal(signal);
    const ProcessEnd end = server.process.Wait();
    EXPECT_TRUE(end.ok()) << end.Describe();
  }
}

TEST(PsProcessTest, EachStartHasAnEpochOfItsOwn) {
  uint64_t shard_epochs[2];
  for (uint64_t& shard_epoch : shard_epochs) {
    ASSERT_OK_AND_ASSIGN(PsProcess server, StartPsProcess(TempDir(), "", {}));
    ASSERT_OK_AND_ASSIGN(const ShardStatusReply status,
                         ShardControl::Create(server.address, absl::Seconds(10))->GetStatus(""));
    shard_epoch = status.shard_epoch();
    EXPECT_NE(shard_epoch, 0u);
  }
  EXPECT_NE(shard_epochs[0], shard_epochs[1]);
}

}  // namespace
}  // namespace monsoon
