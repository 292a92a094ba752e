#include "worker/client/sidecar_process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "worker/client/sidecar_descriptors.h"

extern char** environ;

namespace monsoon {
namespace {

constexpr char kName[] = "monsoon_sidecar";
constexpr int kWaitStepMs = 5;
// Until one that is killed is gone; it may hold much memory.
constexpr int kKillTimeoutMs = 10000;

std::string BesideTheLibrary() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&BesideTheLibrary), &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : library.substr(0, slash);
  // In a wheel they share a folder; in a build each has its own.
  for (const char* const place : {"/", "/../sidecar/", "/worker/sidecar/"}) {
    const std::string path = folder + place + kName;
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return "";
}

std::string Locate(const std::string& path) {
  if (!path.empty()) {
    return path;
  }
  const char* const named = getenv("MONSOON_SIDECAR");
  return named != nullptr && *named != '\0' ? named : BesideTheLibrary();
}

// What the child gets: two descriptors, no input, a clean set of signals, and a process
// group of its own, so that a Ctrl-C reaches the program alone.
class SpawnSettings {
 public:
  SpawnSettings(int socket, int leave) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, socket, kSidecarSocket);
    posix_spawn_file_actions_adddup2(&actions_, leave, kSidecarLeave);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Above those that the child is given, so that neither is written over before it is moved.
int Lift(int fd) {
  const int lifted = fcntl(fd, F_DUPFD_CLOEXEC, kSidecarLeave + 1);
  close(fd);
  return lifted;
}

bool MakePair(int* mine, int* theirs) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return false;
  }
  *mine = Lift(pair[0]);
  *theirs = Lift(pair[1]);
  return *mine >= 0 && *theirs >= 0;
}

}  // namespace

std::unique_ptr<SidecarProcess> SidecarProcess::Start(const std::string& path,
                                                      const std::string& log_file,
                                                      std::string* error) {
  const std::string executable = Locate(path);
  if (executable.empty()) {
    *error = kName;
    *error +=
        " is neither beside libmonsoon nor named by MONSOON_SIDECAR: install the whole "
        "package, or build //worker/sidecar:monsoon_sidecar";
    return nullptr;
  }
  int ends[4] = {-1, -1, -1, -1};  // the socket's, mine and theirs; then the other's
  if (!MakePair(&ends[0], &ends[1]) || !MakePair(&ends[2], &ends[3])) {
    *error = std::string("no socket for the sidecar: ") + strerror(errno);
    for (const int fd : ends) {
      if (fd >= 0) {
        close(fd);
      }
    }
    return nullptr;
  }
  std::vector<std::string> words = {executable};
  if (!log_file.empty()) {
    words.push_back("--log_file=" + log_file);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const SpawnSettings settings(ends[1], ends[3]);
  const int failed = posix_spawn(&pid, executable.c_str(), settings.actions(),
                                 settings.attributes(), arguments.data(), environ);
  close(ends[1]);
  close(ends[3]);
  if (failed != 0) {
    *error = "cannot start " + executable + ": " + strerror(failed);
    close(ends[0]);
    close(ends[2]);
    return nullptr;
  }
  return std::unique_ptr<SidecarProcess>(new SidecarProcess(pid, ends[0], ends[2]));
}

SidecarProcess::~SidecarProcess() {
  TellToLeave();
  Kill();
}

void SidecarProcess::Kill() {
  if (!AwaitEnd(0)) {
    kill(pid_, SIGKILL);
    AwaitEnd(kKillTimeoutMs);
  }
}

void SidecarProcess::TellToLeave() {
  if (leave_fd_ >= 0) {
    shutdown(leave_fd_, SHUT_RDWR);  // a forked child may have a copy
    close(std::exchange(leave_fd_, -1));
  }
}

bool SidecarProcess::AwaitEnd(int timeout_ms) {
  for (int waited = 0; !ended_; waited += kWaitStepMs) {
    const pid_t done = waitpid(pid_, &status_, WNOHANG);
    if (done == pid_) {
      ended_ = true;
    } else if (done < 0 && errno != EINTR) {
      ended_ = true;  // the program reaps children by itself
      status_ = -1;
    } else if (waited >= timeout_ms) {
      break;
    } else {
      poll(nullptr, 0, kWaitStepMs);
    }
  }
  return ended_;
}

std::string SidecarProcess::HowItEnded() const {
  if (status_ == -1) {
    return "has ended";
  }
  if (WIFSIGNALED(status_)) {
    const char* const name = sigdescr_np(WTERMSIG(status_));
    return "was killed by signal " + std::to_string(WTERMSIG(status_)) +
           (name == nullptr ? "" : std::string(" (") + name + ")");
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status_));
}

}  // namespace monsoon
