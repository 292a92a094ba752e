#include "tests/benchmarks/serve.h"

#include <poll.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

constexpr int kStartMs = 20'000;

}  // namespace

absl::StatusOr<ServingProcess> StartServing(const std::string& kind) {
  Subprocess::Options options;
  options.pipe_stderr = false;
  ASSIGN_OR_RETURN(Subprocess process,
                   Subprocess::Start({SelfPath(), absl::StrCat("--serve=", kind)}, options));
  std::string output;
  while (output.find('\n') == std::string::npos) {
    pollfd watched = {process.stdout_fd(), POLLIN, 0};
    if (poll(&watched, 1, kStartMs) != 1 || !ReadAvailable(process.stdout_fd(), &output)) {
      return absl::UnavailableError(absl::StrCat("--serve=", kind, " did not tell its port"));
    }
  }
  uint32_t port = 0;
  if (!absl::SimpleAtoi(output.substr(0, output.find('\n')), &port)) {
    return absl::InternalError(absl::StrCat("--serve=", kind, " told no port: ", output));
  }
  return ServingProcess{std::move(process), static_cast<uint16_t>(port)};
}

}  // namespace monsoon
