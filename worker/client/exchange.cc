#include "worker/client/exchange.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace monsoon {
namespace {

struct Header {
  uint32_t kind = 0;
  uint32_t bytes = 0;
};

constexpr int kSendTimeoutMs = 30000;
// What one read takes at most; a batch's numbers fit.
constexpr size_t kReadBytes = 64u << 10;
// The step of a small model is answered within it.
constexpr int64_t kLookNs = 200'000;
// So many looks in vain, and only each so manieth wait begins with another.
constexpr uint32_t kMaxVainLooks = 4;
constexpr uint32_t kLooksAgain = 64;

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t NowMs() { return NowNs() / 1'000'000; }

// Over the first bytes of `parts`.
ssize_t SendSome(int fd, iovec* parts, size_t count, int passed) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (passed >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &passed, sizeof(int));
  }
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int PassedIn(msghdr* message) {
  for (cmsghdr* rights = CMSG_FIRSTHDR(message); rights != nullptr;
       rights = CMSG_NXTHDR(message, rights)) {
    if (rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
      return fd;
    }
  }
  return -1;
}

}  // namespace

std::string_view FieldReader::Take(size_t size) {
  if (broken_ || size > left_.size()) {
    broken_ = true;
    return {};
  }
  const std::string_view taken = left_.substr(0, size);
  left_.remove_prefix(size);
  return taken;
}

MessageSocket::~MessageSocket() {
  close(fd_);
  if (passed_ >= 0) {
    close(passed_);
  }
}

bool MessageSocket::Send(MessageKind kind, std::string_view fields, int passed) {
  Header header{static_cast<uint32_t>(kind), static_cast<uint32_t>(fields.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(fields);
  size_t sent = 0;
  const int64_t deadline = NowMs() + kSendTimeoutMs;
  while (sent < bytes.size()) {
    iovec part{bytes.data() + sent, bytes.size() - sent};
    const ssize_t wrote = SendSome(fd_, &part, 1, sent == 0 ? passed : -1);
    if (wrote > 0) {
      sent += static_cast<size_t>(wrote);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const int64_t left = deadline - NowMs();
      pollfd wait{fd_, POLLOUT, 0};
      if (left <= 0) {
        return false;
      }
      poll(&wait, 1, static_cast<int>(left));  // a signal only asks again
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

MessageSocket::Outcome MessageSocket::Receive(int timeout_ms, Message* message, int* passed) {
  const int64_t deadline = timeout_ms < 0 ? INT64_MAX : NowMs() + timeout_ms;
  while (true) {
    Header header;
    if (arrived_.size() >= sizeof(header)) {
      std::memcpy(&header, arrived_.data(), sizeof(header));
      if (header.bytes > kMaxMessageBytes) {
        return Outcome::kMalformed;
      }
      if (arrived_.size() >= sizeof(header) + header.bytes) {
        message->kind = static_cast<MessageKind>(header.kind);
        message->fields.assign(arrived_, sizeof(header), header.bytes);
        arrived_.erase(0, sizeof(header) + header.bytes);
        if (passed != nullptr) {
          *passed = std::exchange(passed_, -1);
        }
        return Outcome::kDone;
      }
    }
    Outcome read = ReadSome();
    if (read == Outcome::kTimeout && looks_ && timeout_ms != 0) {
      read = Look();
    }
    if (read == Outcome::kDone) {
      continue;
    }
    if (read != Outcome::kTimeout || timeout_ms == 0) {
      return read;
    }
    int wait_ms = -1;
    if (timeout_ms >= 0) {
      wait_ms = static_cast<int>(std::max<int64_t>(0, deadline - NowMs()));
    }
    pollfd readable{fd_, POLLIN, 0};
    const int ready = poll(&readable, 1, wait_ms);
    if (ready < 0 && errno == EINTR) {
      return Outcome::kInterrupted;
    }
    if (ready == 0) {
      return Outcome::kTimeout;
    }
  }
}

MessageSocket::Outcome MessageSocket::ReadSome() {
  char bytes[kReadBytes];
  iovec part{bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr received{};
  received.msg_iov = &part;
  received.msg_iovlen = 1;
  received.msg_control = control;
  received.msg_controllen = sizeof(control);
  const ssize_t count = recvmsg(fd_, &received, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count > 0) {
    arrived_.append(bytes, static_cast<size_t>(count));
    if (const int fd = PassedIn(&received); fd >= 0) {
      if (passed_ >= 0) {
        close(passed_);
      }
      passed_ = fd;
    }
    return Outcome::kDone;
  }
  const bool nothing = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return nothing ? Outcome::kTimeout : Outcome::kClosed;
}

MessageSocket::Outcome MessageSocket::Look() {
  if (vain_looks_ >= kMaxVainLooks && ++vain_looks_ % kLooksAgain != 0) {
    return Outcome::kTimeout;
  }
  const int64_t end = NowNs() + kLookNs;
  do {
    if (const Outcome read = ReadSome(); read != Outcome::kTimeout) {
      vain_looks_ = 0;
      return read;
    }
    between_looks_();
  } while (NowNs() < end);
  ++vain_looks_;
  return Outcome::kTimeout;
}

void EventFigures::Write(FieldWriter* writer) const {
  writer->Number(kind);
  writer->Number(parameters_changed);
  writer->Number(discarded);
  writer->Number(worker);
  writer->Number(replicas);
  writer->Number(fetches);
  writer->Number(pushes);
  writer->Number(refused);
  writer->Number(bytes_fetched);
  writer->Number(bytes_pushed);
  writer->Number(staleness);
  writer->Number(staleness_max);
  writer->Number(sessions);
  writer->Number(evaluations);
  writer->Number(local_steps);
}

EventFigures EventFigures::Read(FieldReader* reader) {
  EventFigures figures;
  figures.kind = reader->Number<uint32_t>();
  figures.parameters_changed = reader->Number<uint8_t>();
  figures.discarded = reader->Number<uint8_t>();
  figures.worker = reader->Number<uint32_t>();
  figures.replicas = reader->Number<uint32_t>();
  figures.fetches = reader->Number<uint64_t>();
  figures.pushes = reader->Number<uint64_t>();
  figures.refused = reader->Number<uint64_t>();
  figures.bytes_fetched = reader->Number<uint64_t>();
  figures.bytes_pushed = reader->Number<uint64_t>();
  figures.staleness = reader->Number<int64_t>();
  figures.staleness_max = reader->Number<uint64_t>();
  figures.sessions = reader->Number<uint64_t>();
  figures.evaluations = reader->Number<uint64_t>();
  figures.local_steps = reader->Number<uint32_t>();
  return figures;
}

}  // namespace monsoon
