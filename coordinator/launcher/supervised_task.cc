#include "coordinator/launcher/supervised_task.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/storage/storage.h"
#include "coordinator/launcher/part_epoch.h"

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
  listening_since_.reset();
  last_lines_.clear();
  part_before_ = NewestPart();
  started_at_ = clock_->Now();
  ASSIGN_OR_RETURN(Subprocess process, Subprocess::Start(plan_.argv, {}));
  process_.emplace(std::move(process));
  last_pid_ = process_->pid();
  return absl::OkStatus();
}

bool SupervisedTask::CheckListening() {
  struct stat info;
  if (!listening_since_.has_value() && stat(plan_.port_file.c_str(), &info) == 0 &&
      info.st_size > 0) {
    listening_since_ = clock_->Now();
  }
  return listening_since_.has_value();
}

// A shard's; of another task 0, and an error counts as no checkpoint.
absl::StatusOr<uint64_t> SupervisedTask::NewestPart() const {
  if (plan_.role != TaskRole::kParameterServer || state_dir_.empty()) {
    return 0;
  }
  return NewestPartEpoch(*PosixStorage(), state_dir_, static_cast<uint32_t>(plan_.index));
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
  const absl::Duration now = clock_->Now();
  lived_ = now - started_at_;
  const absl::StatusOr<uint64_t> part = NewestPart();
  life_ = {.served = now - listening_since_.value_or(now),
           .made_checkpoint = part.ok() && part_before_.ok() && *part > *part_before_};
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
