#include "coordinator/launcher/supervised_task.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// Lines kept for the root-cause box.
constexpr size_t kLastLines = 12;

}  // namespace

void WriteFully(int fd, absl::string_view text) {
  while (fd >= 0 && !text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{.fd = fd, .events = POLLOUT};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

absl::Status SupervisedTask::Start() {
  unlink(plan_.port_file.c_str());
  listening_ = false;
  last_lines_.clear();
  started_at_ = clock_->Now();
  ASSIGN_OR_RETURN(Subprocess process, Subprocess::Start(plan_.argv, {}));
  process_.emplace(std::move(process));
  last_pid_ = process_->pid();
  return absl::OkStatus();
}

bool SupervisedTask::CheckListening() {
  struct stat info;
  listening_ = listening_ || (stat(plan_.port_file.c_str(), &info) == 0 && info.st_size > 0);
  return listening_;
}

void SupervisedTask::EmitLine(const std::string& line, int fd) {
  last_lines_.push_back(line);
  if (last_lines_.size() > kLastLines) {
    last_lines_.pop_front();
  }
  // One write a line, so that the lines of two tasks do not mix.
  WriteFully(fd, absl::StrCat(plan_.name, " | ", line, "\n"));
}

void SupervisedTask::Forward(bool is_stdout) {
  const int from = is_stdout ? stdout_fd() : stderr_fd();
  if (from < 0) {
    return;
  }
  const int to = is_stdout ? output_.out : output_.err;
  LineSplitter& lines = is_stdout ? out_lines_ : err_lines_;
  std::string bytes;
  const bool open = ReadAvailable(from, &bytes);
  for (const std::string& line : lines.Add(bytes)) {
    EmitLine(line, to);
  }
  if (open) {
    return;
  }
  if (const std::string rest = lines.TakeRest(); !rest.empty()) {
    EmitLine(rest, to);
  }
  if (is_stdout) {
    process_->CloseStdout();
  } else {
    process_->CloseStderr();
  }
}

std::optional<ProcessEnd> SupervisedTask::TakeEnd() {
  if (!process_.has_value()) {
    return std::nullopt;
  }
  const std::optional<ProcessEnd> end = process_->TryWait();
  if (!end.has_value()) {
    return std::nullopt;
  }
  ForwardStdout();
  ForwardStderr();
  lived_ = clock_->Now() - started_at_;
  process_.reset();
  return end;
}

void SupervisedTask::Terminate() {
  if (process_.has_value()) {
    process_->Signal(SIGTERM);
    process_->Signal(SIGCONT);
  }
}

void SupervisedTask::Kill() {
  if (process_.has_value()) {
    process_->Signal(SIGKILL);
  }
}

}  // namespace monsoon
