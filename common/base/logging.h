// Logging to stderr, one line a message, in local time:
//
//   2026-11-22 12:30:01.250 W ps/0] session lenet-1/worker/2#1 closed
//
//   LOG(WARNING) << "session " << name << " closed";
//
// Nothing above the chosen level is formatted. Thread safe; lines of several
// threads do not mix. CHECK (check.h) is for our own bugs.
#pragma once

#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

enum class LogLevel { DEBUG = 0, INFO = 1, WARNING = 2, ERROR = 3 };

// Names this process in every line ("worker/2") and drops messages below
// `level`. Without it: no name, INFO. Call before other threads start.
void InitLogging(absl::string_view task, LogLevel level = LogLevel::INFO);

// The same, and each line is appended to `file` too, unless that is "". Processes may
// share a file: a line is written at once. INVALID_ARGUMENT when it cannot be opened;
// then nothing has changed.
absl::Status InitLogging(absl::string_view task, LogLevel level, const std::string& file);

bool ShouldLog(LogLevel level);

namespace internal {

// Collects one message and writes it when it goes out of scope.
class LogMessage {
 public:
  explicit LogMessage(LogLevel level) : level_(level) {}
  ~LogMessage();
  std::ostream& stream() { return stream_; }

 private:
  const LogLevel level_;
  std::ostringstream stream_;
};

// Makes both arms of the conditional in LOG void.
struct Voidify {
  void operator&(std::ostream&) {}
};

}  // namespace internal
}  // namespace monsoon

#define LOG(severity)                                  \
  !::monsoon::ShouldLog(::monsoon::LogLevel::severity) \
      ? (void)0                                        \
      : ::monsoon::internal::Voidify() &               \
            ::monsoon::internal::LogMessage(::monsoon::LogLevel::severity).stream()
