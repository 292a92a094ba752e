#include "tests/benchmarks/raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/benchmarks/expected_model.h"
#include "tests/benchmarks/product.h"
#include "tests/benchmarks/serve.h"

namespace monsoon {
namespace {

// What stays in a core's L2 with the parameters and the state it changes.
constexpr size_t kPieceFloats = (256 << 10) / sizeof(float);

enum class Operation : uint64_t { kCreate = 1, kPull = 2, kPush = 3 };

struct Request {
  Operation operation;
  uint64_t floats;
};

absl::Status Failed(const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("raw TCP: ", what));
}

absl::Status SendAll(int socket, const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(socket, next, size, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return Failed("send");
    }
    next += std::max<ssize_t>(sent, 0);
    size -= static_cast<size_t>(std::max<ssize_t>(sent, 0));
  }
  return absl::OkStatus();
}

// OutOfRange at the end of the connection.
absl::Status ReceiveAll(int socket, void* data, size_t size) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(socket, next, size, MSG_WAITALL);
    if (got == 0) {
      return absl::OutOfRangeError("raw TCP: the connection has ended");
    }
    if (got < 0 && errno != EINTR) {
      return Failed("recv");
    }
    next += std::max<ssize_t>(got, 0);
    size -= static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return absl::OkStatus();
}

void SetNoDelay(int socket) {
  const int on = 1;
  CHECK_EQ(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

class Server {
 public:
  explicit Server(int socket) : socket_(socket), kernel_(BenchmarkKernel()) {}

  // Until the client closes the connection.
  absl::Status Serve() {
    while (true) {
      Request request;
      const absl::Status received = ReceiveAll(socket_, &request, sizeof(request));
      if (absl::IsOutOfRange(received)) {
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(received);
      switch (request.operation) {
        case Operation::kCreate:
          RETURN_IF_ERROR(Create(request.floats));
          break;
        case Operation::kPull:
          RETURN_IF_ERROR(SendAll(socket_, w_.data(), w_.size() * sizeof(float)));
          break;
        case Operation::kPush:
          RETURN_IF_ERROR(Push());
          break;
        default:
          return absl::InvalidArgumentError("raw TCP: an unknown request");
      }
    }
  }

 private:
  absl::Status Create(uint64_t floats) {
    w_ = std::vector<float>(floats);
    h_ = std::vector<float>(floats, kernel_->initial_state());
    pushes_ = 0;
    ExpectedModel::Fill(ExpectedModel().parameters(), w_);
    return SendAll(socket_, &floats, sizeof(floats));
  }

  absl::Status Push() {
    piece_.resize(kPieceFloats);
    for (size_t begin = 0; begin < w_.size(); begin += kPieceFloats) {
      const size_t size = std::min(kPieceFloats, w_.size() - begin);
      RETURN_IF_ERROR(ReceiveAll(socket_, piece_.data(), size * sizeof(float)));
      kernel_->Apply(pushes_, std::span(w_).subspan(begin, size),
                     std::span(h_).subspan(begin, size), std::span(piece_).first(size));
    }
    ++pushes_;
    return SendAll(socket_, &pushes_, sizeof(pushes_));
  }

  const int socket_;
  const std::unique_ptr<OptimizerKernel> kernel_;
  std::vector<float> w_, h_, piece_;
  uint64_t pushes_ = 0;
};

}  // namespace

int ServeRawTcp() {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  CHECK_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  CHECK_EQ(listen(listener.get(), 1), 0);
  CHECK_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  UniqueFd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  CHECK(connection.valid());
  SetNoDelay(connection.get());
  const absl::Status status = Server(connection.get()).Serve();
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  return status.ok() ? 0 : 1;
}

absl::StatusOr<std::unique_ptr<RawTcpPeer>> RawTcpPeer::Start() {
  ASSIGN_OR_RETURN(ServingProcess server, StartServing("tcp"));
  UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(server.port);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
      0) {
    return Failed("connect");
  }
  SetNoDelay(connection.get());
  return std::unique_ptr<RawTcpPeer>(
      new RawTcpPeer(std::move(server.process), std::move(connection)));
}

absl::Status RawTcpPeer::Create(uint64_t floats) {
  const Request request = {Operation::kCreate, floats};
  RETURN_IF_ERROR(SendAll(socket_.get(), &request, sizeof(request)));
  uint64_t created = 0;
  return ReceiveAll(socket_.get(), &created, sizeof(created));
}

absl::Status RawTcpPeer::Pull(std::span<float> parameters) {
  const Request request = {Operation::kPull, parameters.size()};
  RETURN_IF_ERROR(SendAll(socket_.get(), &request, sizeof(request)));
  return ReceiveAll(socket_.get(), parameters.data(), parameters.size_bytes());
}

absl::StatusOr<uint64_t> RawTcpPeer::Push(std::span<const float> gradient) {
  const Request request = {Operation::kPush, gradient.size()};
  RETURN_IF_ERROR(SendAll(socket_.get(), &request, sizeof(request)));
  RETURN_IF_ERROR(SendAll(socket_.get(), gradient.data(), gradient.size_bytes()));
  uint64_t pushes = 0;
  RETURN_IF_ERROR(ReceiveAll(socket_.get(), &pushes, sizeof(pushes)));
  return pushes;
}

}  // namespace monsoon
