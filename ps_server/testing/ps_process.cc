#include "ps_server/testing/ps_process.h"

#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr absl::Duration kStartTime = absl::Seconds(20);

// The address that the server wrote, or "".
std::string ReadPortFile(const std::string& path) {
  std::ifstream file(path);
  std::string address;
  std::getline(file, address);
  return address;
}

}  // namespace

std::string PsServerBinary() {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                      "/ps_server/ps_server");
}

std::string WriteClusterFile(const std::string& directory, const std::string& address,
                             const std::string& task_fields) {
  const std::string path = absl::StrCat(directory, "/cluster.textproto");
  std::ofstream(path) << "name: \"test\"\ncoordinator { address: \"localhost:2221\" }\n"
                      << "ps { address: \"" << address << "\" " << task_fields << " }\n";
  return path;
}

absl::StatusOr<PsProcess> StartPsProcess(const std::string& directory,
                                         const std::string& task_fields,
                                         const std::vector<std::string>& flags) {
  const std::string cluster = WriteClusterFile(directory, "localhost:2222", task_fields);
  const std::string port_file = absl::StrCat(directory, "/port");
  std::remove(port_file.c_str());
  std::vector<std::string> argv = {
      PsServerBinary(),        absl::StrCat("--cluster=", cluster),     "--task=0",
      "--address=localhost:0", absl::StrCat("--port_file=", port_file), "--die_with_parent"};
  // Clients of tests prove nothing, unless they have made credentials for it.
  if (std::getenv("MONSOON_CREDENTIALS") == nullptr) {
    argv.push_back("--insecure");
  }
  argv.insert(argv.end(), flags.begin(), flags.end());
  Subprocess::Options options;
  options.pipe_stdout = false;
  options.pipe_stderr = false;
  ASSIGN_OR_RETURN(Subprocess process, Subprocess::Start(argv, options));
  const Clock* clock = Clock::Real();
  const absl::Duration end = clock->Now() + kStartTime;
  while (clock->Now() < end) {
    std::string address = ReadPortFile(port_file);
    if (!address.empty()) {
      return PsProcess{std::move(process), std::move(address)};
    }
    // Ends early when the process does.
    pollfd watched = {process.pidfd(), POLLIN, 0};
    if (poll(&watched, 1, /*timeout ms=*/10) == 1) {
      return absl::UnavailableError(
          absl::StrCat("ps_server ended early: ", process.Wait().Describe()));
    }
  }
  return absl::DeadlineExceededError("ps_server did not write its port file");
}

}  // namespace monsoon
