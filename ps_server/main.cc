#include <malloc.h>
#include <signal.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/build_text.h"
#include "common/base/log_settings.h"
#include "common/base/logging.h"
#include "common/base/standard_output.h"
#include "common/config/state_dir.h"
#include "common/process/die_with_parent.h"
#include "common/process/open_files.h"
#include "common/process/port_file.h"
#include "common/process/signal_fd.h"
#include "common/simd/simd_level.h"
#include "common/transport/credential_renewal.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/server/ps_server.h"
#include "ps_server/server/settings.h"

namespace monsoon {
namespace {

// glibc's arenas each keep what they freed; with one per thread (the default)
// a flood of streams cost 10 MiB over the message budget.
constexpr int kMallocArenas = 2;
// Frames come and go by the megabyte: their memory must not go back to the
// system each time. The values are where glibc's own sliding ones end.
constexpr int kMallocMmapBytes = 32 << 20;
constexpr int kMallocTrimBytes = 64 << 20;
constexpr absl::Duration kDrainGrace = absl::Seconds(5);
// The exit code when what was asked for could not be written.
constexpr int kCannotWrite = 5;

int Run(std::span<const char* const> args) {
  const absl::StatusOr<PsSettings> settings = ReadPsSettings(args);
  if (!settings.ok()) {
    std::fprintf(stderr, "ps_server: %s\n", std::string(settings.status().message()).c_str());
    return 2;
  }
  if (settings->help.has_value()) {
    return WriteOutput("ps_server", *settings->help) ? 0 : kCannotWrite;
  }
  if (settings->version) {
    return WriteOutput("ps_server", BuildText() + "\n") ? 0 : kCannotWrite;
  }
  if (const absl::Status status =
          InitLogging(absl::StrCat("ps/", settings->server.task), settings->log);
      !status.ok()) {
    std::fprintf(stderr, "ps_server: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  RaiseOpenFileLimit();
  absl::StatusOr<SignalFd> signals = SignalFd::Create({SIGTERM, SIGINT});
  absl::StatusOr<std::unique_ptr<PsServer>> server =
      signals.ok() ? PsServer::Start(settings->server) : signals.status();
  if (server.ok() && !settings->port_file.empty()) {
    if (const absl::Status status = WritePortFile(settings->port_file, (*server)->address());
        !status.ok()) {
      server = status;
    }
  }
  if (!server.ok()) {
    LOG(ERROR) << server.status().message();
    return 2;
  }
  const std::unique_ptr<CredentialRenewal> renewal = CredentialRenewal::Start(
      settings->coordinator, settings->server.tls, &SystemEnvironmentVariable);
  LOG(INFO) << "serving on " << (*server)->address() << ", epoch " << (*server)->shard_epoch()
            << ", kernels " << SimdLevelName() << ", "
            << (settings->server.state_dir.empty()
                    ? "everything in memory only (no state_dir)"
                    : absl::StrCat("checkpoints in ", settings->server.state_dir));
  LOG(INFO) << "jobs may take " << (settings->server.memory_limit_bytes >> 20) << " MiB ("
            << settings->server.memory_limit_is << ")";
  std::optional<int> signal;
  while (!signal.has_value()) {
    signal = signals->WaitFor(absl::Hours(1));
  }
  LOG(INFO) << "signal " << *signal << ": draining";
  (*server)->Drain(kDrainGrace);
  const ShardStatusReply status = (*server)->GetStatus();
  for (const ShardJobStatus& job : status.job()) {
    LOG(INFO) << "job " << job.job() << ": applied " << job.applied() << ", duplicates "
              << job.duplicates() << ", refused " << job.refused();
  }
  LOG(INFO) << "stopped";
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  if (monsoon::WantsToDieWithParent(argc, argv)) {
    monsoon::DieWithParent();
  }
  mallopt(M_MMAP_THRESHOLD, monsoon::kMallocMmapBytes);
  mallopt(M_TRIM_THRESHOLD, monsoon::kMallocTrimBytes);
  mallopt(M_ARENA_MAX, monsoon::kMallocArenas);
  return monsoon::Run(std::span<const char* const>(argv + 1, argv + argc));
}
