#include "common/transport/grpc/connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/process/open_files.h"

namespace monsoon {
namespace {

// Of descriptors, which connections of newcomers take, and those of all members.
constexpr size_t kNewcomersPart = 8, kMembersPart = 2;
constexpr size_t kMostNewcomers = 1024;
// For a member in any case: one in so many descriptors.
constexpr size_t kLeastPart = 16;
constexpr size_t kMostLeast = 64;
constexpr absl::Duration kFloodPeriod = absl::Minutes(1);

}  // namespace

Connections::Connections() : Connections(OpenFileLimit()) {}

Connections::Connections(size_t files)
    : newcomers_(std::min(kMostNewcomers, files / kNewcomersPart)),
      shares_({.what = "connections to this server",
               .total = files / kMembersPart,
               .least = std::min(kMostLeast, files / kLeastPart),
               .remedy = "end some of its programs, or raise the files that the server may have "
                         "open (ulimit -n)"}),
      cuts_(kCutsForgotten / 60, kMostCuts),
      floods_(kFloodPeriod) {}

void Connections::Note(int fd) {
  int highest = highest_;
  while (fd > highest && !highest_.compare_exchange_weak(highest, fd)) {
  }
}

bool Connections::NoteNewcomer(int fd, absl::Duration now) {
  const std::string peer = PeerOf(fd);
  const std::string address = Newcomers::AddressOf(peer);
  std::vector<std::string> displaced;
  {
    MutexLock lock(&mutex_);
    if (!newcomers_.MayCome(address, now)) {
      if (const std::optional<uint64_t> left_out = floods_.Take(now)) {
        LOG(WARNING) << "connections from " << address
                     << " are closed: too many come that prove nothing" << LeftOut(*left_out);
      }
      return false;
    }
    Forget(fd);
    Remove(peer);
    known_[peer] = {fd, ""};
    peers_[fd] = peer;
    for (const int id : newcomers_.Add(fd, address)) {
      displaced.push_back(peers_[id]);
      Forget(id);
    }
  }
  Note(fd);
  for (const std::string& one : displaced) {
    Cut(one);
  }
  return true;
}

absl::Status Connections::NoteMember(const std::string& peer, const std::string& member,
                                     absl::Duration now) {
  MutexLock lock(&mutex_);
  const auto shut_out = shut_out_.find(member);
  if (shut_out != shut_out_.end()) {
    if (now < shut_out->second) {
      return absl::ResourceExhaustedError(absl::StrCat(
          member, " made calls all the time and took them back; it is let in again in ",
          absl::FormatDuration(absl::Ceil(shut_out->second - now, absl::Seconds(1)))));
    }
    shut_out_.erase(shut_out);
  }
  const auto known = known_.find(peer);
  if (known == known_.end() || !known->second.member.empty()) {
    return absl::OkStatus();  // not over TLS, or known already
  }
  absl::Status taken = shares_.Take(member, 1);
  if (!taken.ok()) {
    ForgetEnded();
    RETURN_IF_ERROR(shares_.Take(member, 1));
  }
  known->second.member = member;
  newcomers_.Prove(known->second.fd);
  return absl::OkStatus();
}

void Connections::NoteCut(const std::string& peer, absl::Duration now, double cuts) {
  MutexLock lock(&mutex_);
  const auto known = known_.find(peer);
  if (known == known_.end()) {
    return;  // not over TLS
  }
  const std::string address = Newcomers::AddressOf(peer);
  const bool is_member = !known->second.member.empty();
  const std::string who = is_member ? known->second.member : address;
  if (!cuts_.NoteInVain(who, now, cuts)) {
    return;
  }
  if (is_member) {
    shut_out_[who] = now + kShutOut;
  } else {
    newcomers_.ShutOut(address, now, kShutOut);
  }
}

void Connections::Forget(int fd) {
  const auto found = peers_.find(fd);
  if (found != peers_.end()) {
    Remove(std::string(found->second));
  }
}

void Connections::Remove(const std::string& peer) {
  const auto found = known_.find(peer);
  if (found == known_.end()) {
    return;
  }
  const Known known = found->second;
  known_.erase(found);
  peers_.erase(known.fd);
  newcomers_.Forget(known.fd);
  shares_.Give(known.member, known.member.empty() ? 0 : 1);
}

void Connections::ForgetEnded() {
  std::vector<std::string> ended;
  for (const auto& [peer, known] : known_) {
    if (!known.member.empty() && PeerOf(known.fd) != peer) {
      ended.push_back(peer);
    }
  }
  for (const std::string& peer : ended) {
    Remove(peer);
  }
}

std::string Connections::PeerOf(int fd) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return "";
  }
  char host[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
    return absl::StrCat("ipv4:", host, ":", ntohs(four->sin_port));
  }
  if (address.ss_family != AF_INET6) {
    return "";
  }
  const auto* const six = reinterpret_cast<const sockaddr_in6*>(&address);
  const int port = ntohs(six->sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
    inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, host, sizeof(host));
    return absl::StrCat("ipv4:", host, ":", port);
  }
  inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
  return absl::StrCat("ipv6:%5B", host, "%5D:", port);
}

bool Connections::Cut(const std::string& peer) const {
  for (int fd = 0; fd <= highest_; ++fd) {
    if (PeerOf(fd) == peer) {
      // A reset: what the peer still sends is not to fill the socket's buffer first.
      sockaddr nobody = {};
      nobody.sa_family = AF_UNSPEC;
      connect(fd, &nobody, sizeof(nobody));
      return true;
    }
  }
  return false;
}

}  // namespace monsoon
