#include "common/transport/shm/shm_server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log_limit.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/process/unique_fd.h"
#include "common/transport/frame/frame_handler.h"
#include "common/transport/frame/message_budget.h"
#include "common/transport/frame/protocol.h"
#include "common/transport/shm/host_id.h"
#include "common/transport/shm/shm_connection.h"
#include "common/transport/shm/socket_file.h"
#include "common/transport/shm/unix_socket.h"

namespace monsoon {
namespace {

// A client that has connected says hello at once.
constexpr absl::Duration kHelloDeadline = absl::Seconds(2);
// Clients that have connected and not said hello. Beyond that the one that has been
// silent longest makes way: silent ones lock nobody out.
constexpr size_t kMostStrangers = 64;
constexpr int kPollMs = 1000;
constexpr absl::Duration kRefusalPeriod = absl::Minutes(1);

struct Client {
  UniqueFd socket;
  absl::Duration connected_at;
  std::unique_ptr<ShmConnection> connection;  // null before hello
  bool mapped = false;                        // was given memory to map
};

class SocketServer final : public SharedMemoryServer {
 public:
  SocketServer(FrameServer* frames, SocketFile listener, UniqueFd stop)
      : frames_(frames),
        listener_(std::move(listener)),
        stop_(std::move(stop)),
        thread_([this] { Run(); }) {}

  ~SocketServer() override {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  SharedMemoryOffer offer() const override {
    return gone_ ? SharedMemoryOffer() : listener_.offer();
  }

 private:
  void Run();
  // Now and then: whether clients still find the listener.
  void LookForFile(absl::Duration now);
  void Accept();
  // Makes room for one more that has not said hello.
  void DropSilentStranger();
  // Takes the message that has come, if there is one. False: the client is to be
  // dropped.
  bool Handle(Client* client);
  // What a message asks for; on success `reply` and `fd` are filled in, which
  // lives as long as `owner`.
  absl::Status Answer(Client* client, SocketMessage message, SharedMemoryReply* reply, int* fd,
                      std::shared_ptr<const void>* owner);
  absl::Status Welcome(Client* client, const SharedMemoryHello& hello, std::vector<UniqueFd> fds);

  FrameServer* const frames_;
  const SocketFile listener_;
  const UniqueFd stop_;
  std::atomic<bool> gone_{false};  // no client finds the listener any more
  // The thread's.
  std::vector<Client> clients_;
  absl::Duration looked_at_ = absl::ZeroDuration();
  bool accept_failed_ = false;
  LogLimit refusals_{kRefusalPeriod};
  std::jthread thread_;
};

void SocketServer::Run() {
  while (true) {
    // After a failure the listener rests for one turn.
    const short accepts = std::exchange(accept_failed_, false) ? 0 : POLLIN;
    std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0}, {listener_.fd(), accepts, 0}};
    for (const Client& client : clients_) {
      fds.push_back({client.socket.get(), POLLIN | POLLRDHUP, 0});
    }
    poll(fds.data(), fds.size(), kPollMs);
    if (fds[0].revents != 0) {
      break;
    }
    const absl::Duration now = Clock::Real()->Now();
    LookForFile(now);
    std::vector<Client> kept;
    for (size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      const bool late = client.connection == nullptr && now - client.connected_at > kHelloDeadline;
      if (!late && (fds[i + 2].revents == 0 || Handle(&client))) {
        kept.push_back(std::move(client));
      }
    }
    clients_ = std::move(kept);
    if (fds[1].revents != 0) {
      Accept();
    }
  }
  clients_.clear();
}

void SocketServer::LookForFile(absl::Duration now) {
  if (gone_ || now - looked_at_ < absl::Milliseconds(kPollMs)) {
    return;
  }
  looked_at_ = now;
  if (!listener_.IsThere()) {
    gone_ = true;
    LOG(WARNING)
        << "shared memory is no longer offered: " << listener_.path()
        << " was removed (systemd removes a user's folder under /run when the last session "
           "ends, see loginctl enable-linger). New clients use gRPC until this process is "
           "started again";
  }
}

void SocketServer::Accept() {
  absl::StatusOr<UniqueFd> socket = AcceptSameUser(listener_.fd());
  const absl::Duration now = Clock::Real()->Now();
  if (!socket.ok()) {
    if (const auto left_out = refusals_.Take(now)) {
      LOG(WARNING) << "a shared-memory client was refused: " << socket.status().message()
                   << LeftOut(*left_out);
    }
    accept_failed_ = true;
    return;
  }
  Client client{*std::move(socket), now, nullptr};
  // Its hello is there already, mostly.
  if (Handle(&client)) {
    DropSilentStranger();
    clients_.push_back(std::move(client));
  }
}

void SocketServer::DropSilentStranger() {
  const auto is_stranger = [](const Client& client) { return client.connection == nullptr; };
  if (static_cast<size_t>(std::ranges::count_if(clients_, is_stranger)) >= kMostStrangers) {
    clients_.erase(std::ranges::find_if(clients_, is_stranger));  // they stand in order
  }
}

bool SocketServer::Handle(Client* client) {
  absl::StatusOr<SocketMessage> message =
      ReceiveSocketMessage(client->socket.get(), absl::ZeroDuration());
  if (!message.ok()) {
    return message.status().code() == absl::StatusCode::kDeadlineExceeded;
  }
  SharedMemoryReply reply;
  int fd = -1;
  std::shared_ptr<const void> owner;  // of the descriptor, until it is sent
  const absl::Status status = Answer(client, *std::move(message), &reply, &fd, &owner);
  reply.set_protocol_version(kProtocolVersion);
  reply.set_code(status.raw_code());
  reply.set_message(ValidUtf8(status.message()));
  const bool sent = SendSocketMessage(client->socket.get(), reply.SerializeAsString(),
                                      {&fd, status.ok() ? size_t{1} : 0})
                        .ok();
  return sent && client->connection != nullptr;
}

absl::Status SocketServer::Answer(Client* client, SocketMessage message, SharedMemoryReply* reply,
                                  int* fd, std::shared_ptr<const void>* owner) {
  SharedMemoryRequest request;
  if (!request.ParseFromString(message.bytes)) {
    return absl::InvalidArgumentError("the message cannot be parsed");
  }
  if (client->connection == nullptr) {
    RETURN_IF_ERROR(Welcome(client, request.hello(), std::move(message.fds)));
    *fd = client->connection->memory_fd();
    return absl::OkStatus();
  }
  if (!request.has_map() || client->mapped) {
    return absl::FailedPreconditionError("after hello, map is what may be asked for, once");
  }
  ASSIGN_OR_RETURN(SharedMapping found,
                   frames_->Share(request.map(), client->connection->read_counts()));
  reply->set_shard_epoch(found.shard_epoch);
  reply->set_slot(found.slot);
  reply->set_ticket(found.ticket);
  *fd = found.fd;
  *owner = std::move(found.owner);
  client->mapped = true;
  return absl::OkStatus();
}

absl::Status SocketServer::Welcome(Client* client, const SharedMemoryHello& hello,
                                   std::vector<UniqueFd> fds) {
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server speaks protocol ", kProtocolVersion, ", the client protocol ",
                     hello.protocol_version(), "; start both from the same build"));
  }
  if (fds.size() != 1) {
    return absl::InvalidArgumentError("hello comes with one descriptor");
  }
  ASSIGN_OR_RETURN(FrameServer::Admission admission, frames_->Admit(MessageBudget::Kind::kShared));
  ASSIGN_OR_RETURN(client->connection, ShmConnection::Start(client->socket.get(), std::move(fds[0]),
                                                            std::move(admission), frames_));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemoryServer>> SharedMemoryServer::Start(
    FrameServer* frames, const RuntimeFolder::Places& places) {
  if (HostId("").empty()) {
    return absl::UnavailableError("the system tells no id of this host");
  }
  ASSIGN_OR_RETURN(SocketFile listener, SocketFile::Listen(places));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) {
    return absl::UnavailableError("no event descriptor is left");
  }
  return std::make_unique<SocketServer>(frames, std::move(listener), std::move(stop));
}

}  // namespace monsoon
