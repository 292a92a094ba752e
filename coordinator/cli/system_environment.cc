#include "coordinator/cli/system_environment.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/config/host_check.h"
#include "common/config/state_dir.h"
#include "common/process/file_lock.h"
#include "common/process/host_name.h"
#include "common/storage/storage.h"
#include "common/transport/credential_renewal.h"
#include "common/transport/own_tls.h"
#include "coordinator/cli/shard_transfer.h"

namespace monsoon {
namespace {

// A resolver that does not answer is named after so long.
constexpr absl::Duration kHostLookUp = absl::Seconds(3);
// Between two questions of `chaos`: how closely it sees a task come back.
constexpr absl::Duration kChaosPause = absl::Milliseconds(100);
// A coordinator that is to be joined is named after so long.
constexpr absl::Duration kJoinDeadline = absl::Seconds(4);
// A shard that hangs is named after so long.
constexpr absl::Duration kTransferDeadline = absl::Seconds(30);

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

TerminalSize SizeOfTerminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

std::string Absolute(const std::string& path) {
  char folder[PATH_MAX];
  return path.empty() || path[0] == '/' || getcwd(folder, sizeof(folder)) == nullptr
             ? path
             : absl::StrCat(folder, "/", path);
}

// The handler's end of the pipe; threads of gRPC may be the ones interrupted,
// so blocking the signals in this thread would not do.
volatile sig_atomic_t signal_pipe = -1;

void OnSignal(int signal) {
  const int error = errno;
  const auto byte = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = write(signal_pipe, &byte, 1);
  errno = error;
}

// The read end of a pipe that gets each signal's number.
int SignalPipe() {
  static const int read_end = [] {
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    signal_pipe = fds[1];
    struct sigaction action {};
    action.sa_handler = &OnSignal;
    // A second Ctrl-C ends the process, whatever it waits for.
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    action.sa_flags = SA_RESTART;
    sigaction(SIGWINCH, &action, nullptr);
    return fds[0];
  }();
  return read_end;
}

std::optional<int> WaitForSignal(absl::Duration timeout) {
  const int fd = SignalPipe();
  const absl::Duration deadline = Clock::Real()->Now() + timeout;
  while (true) {
    const absl::Duration left = std::max(deadline - Clock::Real()->Now(), absl::ZeroDuration());
    pollfd readable{.fd = fd, .events = POLLIN};
    poll(&readable, 1,
         static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    char signal = 0;
    if (read(fd, &signal, 1) == 1) {
      return signal == SIGWINCH ? std::nullopt : std::optional<int>(signal);
    }
    if (left == absl::ZeroDuration()) {
      return std::nullopt;
    }
  }
}

std::string DrawId() { return absl::StrFormat("%016x%016x", RandomId(), RandomId()); }

}  // namespace

SystemEnvironment::SystemEnvironment(const char* argv0)
    : transfer_(MakeShardTransfer(kTransferDeadline, [this] { return tls_; })),
      join_client_(JoinClient::Create(kJoinDeadline)) {
  environment_.out = &std::cout;
  environment_.err = &std::cerr;
  environment_.in = &std::cin;
  const std::string terminal = Variable("TERM");
  environment_.terminal = isatty(STDOUT_FILENO) == 1 && !terminal.empty() && terminal != "dumb";
  environment_.color = environment_.terminal && Variable("NO_COLOR").empty();
  environment_.terminal_size = &SizeOfTerminal;
  environment_.self_path = SelfPath();
  environment_.argv0 = Absolute(argv0);
  const std::string& called = environment_.argv0;
  if (const std::string name = called.substr(called.rfind('/') + 1); !name.empty()) {
    environment_.program = name;
  }
  environment_.default_cluster = Variable("MONSOON_CLUSTER");
  environment_.variable = &SystemEnvironmentVariable;
  environment_.storage = PosixStorage();
  environment_.is_shared_lock_held = &FileLock::IsShared;
  environment_.connect = [this](const std::string& address, absl::Duration deadline,
                                const std::string& cluster,
                                bool insecure) -> absl::StatusOr<std::unique_ptr<JobClient>> {
    RETURN_IF_ERROR(FindTls(address, cluster, insecure));
    return JobClient::Create(address, deadline, cluster, tls_);
  };
  environment_.connect_members =
      [this](const std::string& address, absl::Duration deadline, const std::string& cluster,
             bool insecure) -> absl::StatusOr<std::unique_ptr<MemberClient>> {
    RETURN_IF_ERROR(FindTls(address, cluster, insecure));
    return MemberClient::Create(address, deadline, cluster, tls_);
  };
  environment_.join_client = join_client_.get();
  environment_.host_check = [](const std::string& host) { return LookUpHost(host, kHostLookUp); };
  environment_.transfer = transfer_.get();
  environment_.run_and_capture = &RunAndCapture;
  environment_.task_processes = &MakeTaskProcesses;
  environment_.watch_cluster = [](ClusterQuestion question) {
    return WatchInBackground(std::move(question), kChaosPause);
  };
  environment_.host = HostName();
  environment_.wait = &WaitForSignal;
  environment_.draw_id = &DrawId;
  environment_.clock = Clock::Real();
}

absl::Status SystemEnvironment::FindTls(const std::string& address, const std::string& cluster,
                                        bool insecure) {
  ASSIGN_OR_RETURN(tls_, OwnTls({.cluster = cluster, .coordinator = address, .insecure = insecure},
                                &SystemEnvironmentVariable));
  if (tls_ == nullptr) {
    return absl::OkStatus();
  }
  const absl::Status renewed =
      RenewWhereDue(address, tls_, &SystemEnvironmentVariable, absl::Now());
  if (!renewed.ok()) {
    std::cerr << environment_.program << ": " << std::string(renewed.message()) << "\n";
  }
  return absl::OkStatus();
}

}  // namespace monsoon
