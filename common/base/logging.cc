#include "common/base/logging.h"

#include <atomic>
#include <memory>

#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace monsoon {
namespace {

std::shared_ptr<spdlog::logger> MakeLogger(const std::string& task) {
  auto logger =
      std::make_shared<spdlog::logger>(task, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  // %L is the level's letter, %n the task.
  logger->set_pattern(task.empty() ? "%H:%M:%S.%e %L] %v" : "%H:%M:%S.%e %L %n] %v");
  logger->flush_on(spdlog::level::trace);
  return logger;
}

std::shared_ptr<spdlog::logger>& Logger() {
  // Never destroyed: threads may log until the process ends.
  static auto* logger = new std::shared_ptr<spdlog::logger>(MakeLogger(""));
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

void InitLogging(absl::string_view task, LogLevel level) {
  Logger() = MakeLogger(std::string(task));
  Logger()->set_level(SpdlogLevel(level));
  minimum_level.store(level);
}

bool ShouldLog(LogLevel level) { return level >= minimum_level.load(std::memory_order_relaxed); }

namespace internal {

LogMessage::~LogMessage() { Logger()->log(SpdlogLevel(level_), stream_.str()); }

}  // namespace internal
}  // namespace monsoon
