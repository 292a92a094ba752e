#include "common/base/log_settings.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {

void AddLogFlags(FlagSet* flags, LogSettings* settings) {
  flags->Add("verbosity", &settings->verbosity,
             "which lines are logged: debug, info, warning or error");
  flags->Add("log_file", &settings->file,
             "append the log to this file too; several processes may share it");
}

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (lower == "debug") {
    return LogLevel::DEBUG;
  }
  if (lower == "info") {
    return LogLevel::INFO;
  }
  if (lower == "warning") {
    return LogLevel::WARNING;
  }
  if (lower == "error") {
    return LogLevel::ERROR;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--verbosity=", name, ": the value must be debug, info, warning or error"));
}

absl::Status InitLogging(absl::string_view task, const LogSettings& settings, LogLevel unset) {
  LogLevel level = unset;
  if (!settings.verbosity.empty()) {
    ASSIGN_OR_RETURN(level, ParseLogLevel(settings.verbosity));
  }
  return InitLogging(task, level, settings.file);
}

}  // namespace monsoon
