#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/build_text.h"
#include "common/base/log_settings.h"
#include "common/base/logging.h"
#include "common/base/standard_output.h"
#include "common/config/state_dir.h"
#include "common/process/die_with_parent.h"
#include "common/process/port_file.h"
#include "common/process/signal_fd.h"
#include "common/transport/credential_renewal.h"
#include "worker/command_line.h"
#include "worker/evaluate.h"
#include "worker/local_model.h"
#include "worker/predict.h"
#include "worker/worker.h"

namespace monsoon {
namespace {

// One push of a large model over a slow link; what is not acknowledged by then
// is given up.
constexpr absl::Duration kDrainGrace = absl::Seconds(15);

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "worker: %s\n", std::string(status.message()).c_str());
  return absl::IsDataLoss(status) ? 5 : 2;
}

// The exit code.
int Print(const std::string& text) { return WriteOutput("worker", text) ? 0 : 5; }

void TellNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    std::fprintf(stderr, "worker: %s\n", note.c_str());
  }
}

int Evaluate(const WorkerCommand& command) {
  TellNotes(command.model.notes);
  const absl::StatusOr<ModelEvaluation> evaluation =
      EvaluateModel(command.model, static_cast<int>(command.threads));
  if (!evaluation.ok()) {
    return Fail(evaluation.status());
  }
  return Print(ToJson(*evaluation) + "\n");
}

int Predict(const WorkerCommand& command) {
  TellNotes(command.model.notes);
  const absl::StatusOr<PredictionCounts> counts = PredictSamples(command.predict, command.model);
  if (!counts.ok()) {
    return Fail(counts.status());
  }
  TellNotes(counts->notes);
  return Print(ToJson(command.predict, *counts) + "\n");
}

int Serve(WorkerCommand command) {
  if (const absl::Status status = InitLogging(
          command.worker.guest != 0 ? "worker/guest" : absl::StrCat("worker/", command.worker.task),
          command.log);
      !status.ok()) {
    return Fail(status);
  }
  absl::StatusOr<SignalFd> signals = SignalFd::Create({SIGTERM, SIGINT});
  if (!signals.ok()) {
    return Fail(signals.status());
  }
  // Taken by the same path as a signal: what was counted is reported first.
  std::atomic<bool> device_lost = false;
  command.worker.on_device_lost = [&device_lost] {
    device_lost = true;
    kill(getpid(), SIGTERM);
  };
  std::atomic<bool> refused = false;
  command.worker.on_refused = [&refused](const absl::Status&) {
    refused = true;
    kill(getpid(), SIGTERM);
  };
  command.worker.on_drain = [] { kill(getpid(), SIGTERM); };
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(command.worker);
  if (!worker.ok()) {
    return Fail(worker.status());
  }
  if (!command.port_file.empty()) {
    const absl::Status status = WritePortFile(command.port_file, (*worker)->address());
    if (!status.ok()) {
      return Fail(status);
    }
  }
  const std::unique_ptr<CredentialRenewal> renewal =
      CredentialRenewal::Start(command.worker.cluster.coordinator().address(), command.worker.tls,
                               &SystemEnvironmentVariable);
  LOG(INFO) << "serving on " << (*worker)->address();
  std::optional<int> signal;
  while (!signal.has_value()) {
    signal = signals->WaitFor(absl::Hours(1));
  }
  if (refused) {
    worker->reset();  // nobody to say goodbye to; the reason stands in the log
    return 2;
  }
  LOG(INFO) << "signal " << *signal << ": draining";
  (*worker)->Drain(kDrainGrace);
  LOG(INFO) << (device_lost ? "stopped: no device is left to compute with" : "stopped");
  return device_lost ? 1 : 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  using monsoon::WorkerCommand;
  if (monsoon::WantsToDieWithParent(argc, argv)) {
    monsoon::DieWithParent();
  }
  const auto command =
      monsoon::ReadWorkerCommand(std::span<const char* const>(argv + 1, argv + argc));
  if (!command.ok()) {
    return monsoon::Fail(command.status());
  }
  switch (command->kind) {
    case WorkerCommand::Kind::kHelp:
      return monsoon::Print(command->help);
    case WorkerCommand::Kind::kVersion:
      return monsoon::Print(monsoon::BuildText() + "\n");
    case WorkerCommand::Kind::kEvaluate:
      return monsoon::Evaluate(*command);
    case WorkerCommand::Kind::kPredict:
      return monsoon::Predict(*command);
    case WorkerCommand::Kind::kServe:
      break;
  }
  return monsoon::Serve(*command);
}
