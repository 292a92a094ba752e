#include "common/transport/choosing_transport.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/transport/grpc/grpc_frame_transport.h"
#include "common/transport/shm/shm_frame_transport.h"

namespace monsoon {
namespace {

// A peer on this host answers at once.
constexpr absl::Duration kLongestChoice = absl::Seconds(1);
// While both kinds are in use neither is waited for longer than this.
constexpr absl::Duration kTurn = absl::Microseconds(200);

class PeerTransports final : public ChoosingTransport {
 public:
  PeerTransports(Transport allowed, std::vector<std::string> addresses, std::shared_ptr<Tls> tls,
                 uint32_t connections, absl::Duration deadline, AskForOffer ask,
                 TransportReport* report, Role server)
      : allowed_(allowed),
        addresses_(std::move(addresses)),
        tls_(std::move(tls)),
        server_(server),
        connections_(connections),
        deadline_(std::min(deadline, kLongestChoice)),
        ask_(std::move(ask)),
        report_(report),
        routes_(addresses_.size(), Route::kNone),
        spread_(addresses_.size(), Spread::kNo) {}

  uint32_t Connections(uint32_t peer) override {
    if (std::exchange(spread_[peer], Spread::kNo) == Spread::kBroken) {
      routes_[peer] = Route::kNone;
    }
    if (!Choose(peer).ok() || routes_[peer] != Route::kGrpc) {
      return 1;  // Send tells what is wrong
    }
    const uint32_t connections = grpc()->Connections(peer);
    spread_[peer] = connections > 1 ? Spread::kYes : Spread::kNo;
    return connections;
  }

  void Send(uint32_t peer, Frame frame) override {
    if (const absl::Status status = Choose(peer); !status.ok()) {
      Event event;
      event.kind = Event::Kind::kBroken;
      event.peer = peer;
      event.status = Annotate(status, "shared memory");
      broken_.push_back(std::move(event));
    }
    switch (routes_[peer]) {
      case Route::kSharedMemory:
        shared_memory_->Send(peer, std::move(frame));
        break;
      case Route::kGrpc:
        grpc()->Send(peer, std::move(frame));
        break;
      case Route::kNone:
        break;
    }
  }

  void Wake() override {
    // Either this sees the transport that is waited for, or Wait sees the flag.
    woken_ = true;
    if (SharedMemoryTransport* const transport = shared_memory_to_wake_) {
      transport->Wake();
    }
    if (GrpcFrameTransport* const transport = grpc_to_wake_) {
      transport->Wake();
    }
  }

  const Mapping* Map(uint32_t peer, const FetchRequest& request,
                     const SharedShape& shape) override {
    if (!Choose(peer).ok() || routes_[peer] != Route::kSharedMemory) {
      return nullptr;
    }
    return shared_memory_->Map(peer, request, shape, deadline_);
  }

  const Mapping* mapped(uint32_t peer) const override {
    return routes_[peer] == Route::kSharedMemory ? shared_memory_->mapped(peer) : nullptr;
  }

  bool Alive(uint32_t peer) override {
    return routes_[peer] == Route::kSharedMemory && shared_memory_->Alive(peer);
  }

  Event Wait(absl::Duration timeout) override {
    if (!broken_.empty()) {
      Event event = std::move(broken_.front());
      broken_.pop_front();
      return event;
    }
    Event event = WaitForEither(timeout);
    woken_ = false;
    if (event.kind == Event::Kind::kBroken) {
      if (spread_[event.peer] == Spread::kNo) {
        routes_[event.peer] = Route::kNone;
      } else {
        spread_[event.peer] = Spread::kBroken;
      }
    }
    return event;
  }

  void Reset(uint32_t peer) override {
    if (grpc_ != nullptr) {
      grpc_->Reset(peer);
    }
    if (shared_memory_ != nullptr) {
      shared_memory_->Reset(peer);
    }
    std::erase_if(broken_, [peer](const Event& event) { return event.peer == peer; });
    routes_[peer] = Route::kNone;
    spread_[peer] = Spread::kNo;
  }

  void ResetConnection(uint32_t peer, uint32_t connection) override {
    if (spread_[peer] == Spread::kNo) {
      Reset(peer);
    } else {
      grpc()->ResetConnection(peer, connection);
    }
  }

 private:
  enum class Route { kNone, kGrpc, kSharedMemory };
  // Over connections of gRPC. kBroken: one was lost; others may still have frames that are
  // unanswered, so what is to be chosen anew is when frames are spread the next time.
  enum class Spread { kNo, kYes, kBroken };

  FrameTransport* grpc() {
    if (grpc_ == nullptr) {
      grpc_ = MakeGrpcTransport(addresses_, tls_, connections_, server_);
      grpc_to_wake_ = grpc_.get();
    }
    return grpc_.get();
  }

  // Finds a route unless there is one. An error: there is none yet.
  absl::Status Choose(uint32_t peer) {
    if (routes_[peer] == Route::kSharedMemory && !shared_memory_->connected(peer)) {
      routes_[peer] = Route::kNone;
    }
    if (routes_[peer] != Route::kNone) {
      return absl::OkStatus();
    }
    if (allowed_ == Transport::GRPC) {
      routes_[peer] = Route::kGrpc;
      report_->Set(peer, "gRPC (as asked)");
      return absl::OkStatus();
    }
    const absl::Status status = ConnectSharedMemory(peer);
    if (status.ok()) {
      routes_[peer] = Route::kSharedMemory;
      report_->Set(peer, "shared memory");
    } else if (allowed_ == Transport::AUTO) {
      routes_[peer] = Route::kGrpc;
      report_->Set(peer, absl::StrCat("gRPC (", status.message(), ")"));
    } else {
      return status;
    }
    return absl::OkStatus();
  }

  absl::Status ConnectSharedMemory(uint32_t peer) {
    if (shared_memory_ == nullptr) {
      ASSIGN_OR_RETURN(shared_memory_,
                       SharedMemoryTransport::Create(static_cast<uint32_t>(addresses_.size())));
      shared_memory_to_wake_ = shared_memory_.get();
    }
    ASSIGN_OR_RETURN(const SharedMemoryOffer offer, ask_(peer, deadline_));
    return shared_memory_->Connect(peer, offer, deadline_);
  }

  Event WaitForEither(absl::Duration timeout) {
    const bool only_shared_memory =
        std::ranges::find(routes_, Route::kGrpc) == routes_.end() && shared_memory_ != nullptr;
    if (only_shared_memory) {
      return shared_memory_->Wait(timeout);
    }
    const bool only_grpc = std::ranges::find(routes_, Route::kSharedMemory) == routes_.end();
    if (only_grpc) {
      FrameTransport* const transport = grpc();
      return woken_ ? Event{} : transport->Wait(timeout);
    }
    const absl::Duration end = Clock::Real()->Now() + timeout;
    while (true) {
      Event event = grpc()->Wait(absl::ZeroDuration());
      if (event.kind != Event::Kind::kTimeout || woken_) {
        return event;
      }
      const absl::Duration left = end - Clock::Real()->Now();
      event = shared_memory_->Wait(std::clamp(left, absl::ZeroDuration(), kTurn));
      if (event.kind != Event::Kind::kTimeout || woken_ || left <= absl::ZeroDuration()) {
        return event;
      }
    }
  }

  const Transport allowed_;
  const std::vector<std::string> addresses_;
  const std::shared_ptr<Tls> tls_;
  const Role server_;
  const uint32_t connections_;
  const absl::Duration deadline_;
  const AskForOffer ask_;
  TransportReport* const report_;
  std::vector<Route> routes_;
  std::vector<Spread> spread_;
  std::deque<Event> broken_;                              // to be told
  std::unique_ptr<GrpcFrameTransport> grpc_;              // made when it is needed
  std::unique_ptr<SharedMemoryTransport> shared_memory_;  // likewise
  std::atomic<GrpcFrameTransport*> grpc_to_wake_{nullptr};
  std::atomic<SharedMemoryTransport*> shared_memory_to_wake_{nullptr};
  std::atomic<bool> woken_{false};
};

}  // namespace

void TransportReport::Set(uint32_t peer, const std::string& transport) {
  MutexLock lock(&mutex_);
  if (transports_[peer] != transport) {
    transports_[peer] = transport;
    LOG(INFO) << subject_ << ": " << names_[peer] << ": " << transport;
  }
}

std::vector<std::string> TransportReport::Get() const {
  MutexLock lock(&mutex_);
  return transports_;
}

absl::StatusOr<Transport> TransportFromEnvironment() {
  const char* value = std::getenv("MONSOON_TRANSPORT");
  const absl::string_view text = value == nullptr ? "" : value;
  if (text.empty() || text == "auto") {
    return Transport::AUTO;
  }
  if (text == "grpc") {
    return Transport::GRPC;
  }
  if (text == "shared_memory") {
    return Transport::SHARED_MEMORY;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("MONSOON_TRANSPORT is \"", text, "\"; it may be auto, grpc or shared_memory"));
}

std::unique_ptr<ChoosingTransport> ChoosingTransport::Create(
    Transport allowed, std::vector<std::string> addresses, std::shared_ptr<Tls> tls,
    uint32_t connections, absl::Duration deadline, AskForOffer ask, TransportReport* report,
    Role server) {
  return std::make_unique<PeerTransports>(allowed, std::move(addresses), std::move(tls),
                                          connections, deadline, std::move(ask), report, server);
}

}  // namespace monsoon
