#include "common/base/logging.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace monsoon {
namespace {

spdlog::sink_ptr StandardError() { return std::make_shared<spdlog::sinks::stderr_sink_mt>(); }

// Each message is one write at the file's end, whoever else appends to it.
class AppendingSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit AppendingSink(int fd) : fd_(fd) {}
  ~AppendingSink() override { close(fd_); }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // Where the log cannot be written there is nobody left to tell.
    [[maybe_unused]] const ssize_t written = write(fd_, line.data(), line.size());
  }
  void flush_() override {}

 private:
  const int fd_;
};

std::shared_ptr<spdlog::logger> MakeLogger(const std::string& task,
                                           std::vector<spdlog::sink_ptr> sinks) {
  auto logger = std::make_shared<spdlog::logger>(task, sinks.begin(), sinks.end());
  // %L is the level's letter, %n the task.
  logger->set_pattern(task.empty() ? "%Y-%m-%d %H:%M:%S.%e %L] %v"
                                   : "%Y-%m-%d %H:%M:%S.%e %L %n] %v");
  logger->flush_on(spdlog::level::trace);
  return logger;
}

std::shared_ptr<spdlog::logger>& Logger() {
  // Never destroyed: threads may log until the process ends.
  static auto* logger = new std::shared_ptr<spdlog::logger>(MakeLogger("", {StandardError()}));
  return *logger;
}

std::atomic<LogLevel> minimum_level{LogLevel::INFO};

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::DEBUG:
      return spdlog::level::debug;
    case LogLevel::INFO:
      return spdlog::level::info;
    case LogLevel::WARNING:
      return spdlog::level::warn;
    case LogLevel::ERROR:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

absl::Status InitLogging(absl::string_view task, LogLevel level, const std::string& file) {
  if (file.empty()) {
    InitLogging(task, level);
    return absl::OkStatus();
  }
  const int fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--log_file=", file, " cannot be opened: ", std::strerror(errno)));
  }
  Logger() = MakeLogger(std::string(task), {StandardError(), std::make_shared<AppendingSink>(fd)});
  Logger()->set_level(SpdlogLevel(level));
  minimum_level.store(level);
  return absl::OkStatus();
}

void InitLogging(absl::string_view task, LogLevel level) {
  Logger() = MakeLogger(std::string(task), {StandardError()});
  Logger()->set_level(SpdlogLevel(level));
  minimum_level.store(level);
}

bool ShouldLog(LogLevel level) { return level >= minimum_level.load(std::memory_order_relaxed); }

namespace internal {

LogMessage::~LogMessage() { Logger()->log(SpdlogLevel(level_), stream_.str()); }

}  // namespace internal
}  // namespace monsoon
