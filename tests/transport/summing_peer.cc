#include "tests/transport/summing_peer.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/testing/socket_folder.h"

namespace monsoon {
namespace {

constexpr int kLongestSilenceMs = 30'000;

}  // namespace

std::string ReadLine(const Subprocess& process) {
  std::string line;
  while (true) {
    pollfd watched = {process.stdout_fd(), POLLIN, 0};
    char next;
    if (poll(&watched, 1, kLongestSilenceMs) != 1 || read(watched.fd, &next, 1) != 1) {
      return "";
    }
    if (next == '\n') {
      return line;
    }
    line.push_back(next);
  }
}

absl::StatusOr<SummingPeer> StartSummingPeer(uint64_t message_memory_bytes) {
  const std::string binary =
      absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                   "/tests/transport/summing_peer_main");
  const std::string address = testing::UniqueSocketAddress();
  Subprocess::Options options;
  options.pipe_stderr = false;
  ASSIGN_OR_RETURN(
      Subprocess process,
      Subprocess::Start({binary, address, absl::StrCat(message_memory_bytes)}, options));
  const std::vector<std::string> words = absl::StrSplit(ReadLine(process), absl::MaxSplits(' ', 1));
  if (words.size() != 2) {
    return absl::UnavailableError("the peer did not say where it serves");
  }
  SummingPeer peer{std::move(process), address, {}};
  peer.offer.set_socket(words[0]);
  peer.offer.set_host(words[1]);
  return peer;
}

}  // namespace monsoon
