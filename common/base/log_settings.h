// --verbosity and --log_file, which every daemon and command has.
//
//   LogSettings log;
//   AddLogFlags(&flags, &log);
//   ... parse ...
//   RETURN_IF_ERROR(InitLogging("ps/0", log));
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/flags.h"
#include "common/base/logging.h"

namespace monsoon {

struct LogSettings {
  std::string verbosity;  // "": what the program logs by itself
  std::string file;       // beside the standard error; "": none
};

// `settings` outlives `flags`.
void AddLogFlags(FlagSet* flags, LogSettings* settings);

// "debug", "info", "warning" or "error", in any case; INVALID_ARGUMENT for others.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view name);

// InitLogging by the flags; `unset` is the level where --verbosity was not given.
// INVALID_ARGUMENT for a level that is none and a file that cannot be opened.
absl::Status InitLogging(absl::string_view task, const LogSettings& settings,
                         LogLevel unset = LogLevel::INFO);

}  // namespace monsoon
