// SimulatedTransport: the frames between a session and its shards over connections of the
// virtual network. A connection keeps the order of its frames, breaks at any time, and what
// was sent over it may then still arrive; a cut network makes it silent for good.
//
// Used by one virtual thread at a time; what happens to it comes by events.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/transport/frame/frame_transport.h"
#include "tests/simulation/session_witness.h"
#include "tests/simulation/simulated_process.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedTransport final : public FrameTransport {
 public:
  // Of a life of `process`; `session` may be empty. Those that there are stand in
  // world->transports.
  SimulatedTransport(World* world, SimulatedProcess* process, const SessionKey& session);
  ~SimulatedTransport() override;

  void Send(uint32_t peer, Frame frame) override;
  Event Wait(absl::Duration timeout) override;
  void Reset(uint32_t peer) override;

  const SimulatedProcess* process() const { return process_; }
  // The connection to the shard breaks, if there is one; this end may hear of it or not.
  void Break(uint32_t shard, bool heard);

 private:
  struct Delivery;
  // Of all connections, until they are waited for.
  using Inbox = std::deque<Delivery>;
  struct Connection {
    uint64_t life = 0;    // of the shard
    bool broken = false;  // here
    bool silent = false;  // nothing gets through any more
    // In order, whatever becomes of the events that take them off.
    std::deque<std::function<void()>> frames;
    std::deque<std::function<void()>> answers;
    absl::Duration last_out;  // when the newest frame gets there, and its answer here
    absl::Duration last_in;
  };
  struct Delivery {
    uint32_t peer = 0;
    std::shared_ptr<Connection> connection;
    std::string message;
    absl::Status broken;  // else
  };

  std::shared_ptr<Connection> Connect(uint32_t peer);
  // By an event in this process.
  void Deliver(absl::Duration delay, Delivery delivery);
  bool IsSilent(uint32_t peer, Connection* connection) const {
    return IsSilent(*world_, *process_, peer, connection);
  }

  // What outlives a transport that is gone: frames on their way.
  static void Carry(World* world, SimulatedProcess* to,
                    const std::shared_ptr<Connection>& connection,
                    std::deque<std::function<void()>> Connection::*queue,
                    absl::Duration Connection::*last);
  static void ServeAt(World* world, SimulatedProcess* process, const std::shared_ptr<Inbox>& inbox,
                      uint32_t peer, const std::weak_ptr<Connection>& weak,
                      const std::string& message);
  static bool IsSilent(const World& world, const SimulatedProcess& process, uint32_t peer,
                       Connection* connection);

  World* const world_;
  SimulatedProcess* const process_;
  const ProcessLife life_;
  const uint64_t number_;
  std::optional<SessionWitness> witness_;                 // none: of no session
  std::vector<std::shared_ptr<Connection>> connections_;  // [shard], null: none
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::string current_;  // what the last event shows
  ByteChunk chunk_;
};

}  // namespace monsoon::simulation
