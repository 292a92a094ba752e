// monsoon_sidecar: started by libmonsoon, and by nobody else (worker/client).
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "common/base/log_settings.h"
#include "common/base/logging.h"
#include "common/config/state_dir.h"
#include "common/transport/credential_renewal.h"
#include "common/transport/own_tls.h"
#include "worker/client/sidecar_descriptors.h"
#include "worker/sidecar/program.h"
#include "worker/sidecar/sidecar.h"

namespace monsoon {
namespace {

constexpr char kLogFlag[] = "--log_file=";

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "monsoon_sidecar: %s\n", std::string(status.message()).c_str());
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ? 2 : 1;
}

int Main(int argc, char** argv) {
  LogSettings log;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind(kLogFlag, 0) == 0) {
      log.file = word.substr(sizeof(kLogFlag) - 1);
    }
  }
  if (fcntl(kSidecarSocket, F_GETFD) < 0 || fcntl(kSidecarLeave, F_GETFD) < 0) {
    return Fail(absl::FailedPreconditionError(
        "a program that joins a job starts this by itself (monsoon_join, ms.join)"));
  }
  fcntl(kSidecarSocket, F_SETFD, FD_CLOEXEC);
  fcntl(kSidecarLeave, F_SETFD, FD_CLOEXEC);
  // What people see of it stands in the program's own output, unless it has a file.
  const LogLevel level = log.file.empty() ? LogLevel::WARNING : LogLevel::INFO;
  if (const absl::Status status =
          InitLogging(absl::StrCat("monsoon of pid ", getppid()), log, level);
      !status.ok()) {
    return Fail(status);
  }
  absl::StatusOr<std::unique_ptr<Program>> program = Program::Open(kSidecarSocket, kSidecarLeave);
  if (!program.ok()) {
    return Fail(program.status());
  }
  Sidecar::Surroundings surroundings;
  std::unique_ptr<CredentialRenewal> renewal;
  surroundings.find_tls = [&renewal](const std::string& coordinator) {
    absl::StatusOr<std::shared_ptr<Tls>> tls =
        OwnTls({.coordinator = coordinator, .role = Role::kWorker}, &SystemEnvironmentVariable);
    if (tls.ok()) {
      renewal = CredentialRenewal::Start(coordinator, *tls, &SystemEnvironmentVariable);
    }
    return tls;
  };
  Sidecar sidecar(*std::move(program), std::move(surroundings));
  if (const absl::Status status = sidecar.Run(); !status.ok()) {
    // The program has the message. Asking whether a job is there is no mistake.
    if (absl::IsNotFound(status)) {
      LOG(INFO) << std::string(status.message());
    } else {
      LOG(ERROR) << std::string(status.message());
    }
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) { return monsoon::Main(argc, argv); }
