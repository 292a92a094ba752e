// The worker's command line.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/log_settings.h"
#include "worker/local_model.h"
#include "worker/predict.h"
#include "worker/worker.h"

namespace monsoon {

struct WorkerCommand {
  enum class Kind { kServe, kEvaluate, kPredict, kHelp, kVersion };
  Kind kind = Kind::kServe;
  // kServe
  WorkerOptions worker;
  std::string port_file;
  LogSettings log;
  // kEvaluate and kPredict
  LocalModel model;
  uint32_t threads = 1;
  PredictOptions predict;
  // kHelp
  std::string help;
};

// Reads flags and the files they name. Errors are for people: exit 2.
absl::StatusOr<WorkerCommand> ReadWorkerCommand(std::span<const char* const> args);

}  // namespace monsoon
