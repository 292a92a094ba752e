#include "tests/simulation/simulated_transport.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tests/simulation/simulated_ps.h"

namespace monsoon::simulation {

SimulatedTransport::SimulatedTransport(World* world, SimulatedProcess* process,
                                       const SessionKey& session)
    : world_(world),
      process_(process),
      life_(process),
      number_(world->transports_made++),
      connections_(world->ps.size()) {
  if (!session.job().empty()) {
    witness_.emplace(world, session);
  }
  world_->transports[number_] = this;
}

SimulatedTransport::~SimulatedTransport() {
  for (uint32_t peer = 0; peer < connections_.size(); ++peer) {
    Reset(peer);
  }
  world_->transports.erase(number_);
}

void SimulatedTransport::Reset(uint32_t peer) {
  if (connections_[peer] != nullptr) {
    connections_[peer]->broken = true;
    connections_[peer].reset();
  }
}

std::shared_ptr<SimulatedTransport::Connection> SimulatedTransport::Connect(uint32_t peer) {
  const SimulatedProcess& ps = world_->ps[peer]->process;
  auto connection = std::make_shared<Connection>();
  connection->life = ps.life;
  connections_[peer] = connection;
  if (!ps.alive && !world_->network.IsCut(process_, &ps)) {
    Deliver(world_->network.Delay(),
            {peer, connection, "", absl::UnavailableError("connection refused")});
  }
  return connection;
}

void SimulatedTransport::Deliver(absl::Duration delay, Delivery delivery) {
  world_->network.In(process_, delay,
                     [world = world_, inbox = inbox_, delivery = std::move(delivery)] {
                       inbox->push_back(delivery);
                       world->threads.WakeAll(inbox.get());
                     });
}

void SimulatedTransport::Break(uint32_t shard, bool heard) {
  const std::shared_ptr<Connection> connection = connections_[shard];
  if (connection == nullptr || life_.over()) {
    return;
  }
  if (heard) {
    Deliver(world_->network.Delay(),
            {shard, connection, "", absl::UnavailableError("connection reset")});
  } else {
    connection->silent = true;
  }
}

bool SimulatedTransport::IsSilent(const World& world, const SimulatedProcess& process,
                                  uint32_t peer, Connection* connection) {
  const SimulatedProcess& ps = world.ps[peer]->process;
  connection->silent |=
      world.network.IsCut(&process, &ps) || !ps.alive || ps.life != connection->life;
  return connection->silent;
}

void SimulatedTransport::Send(uint32_t peer, Frame frame) {
  if (life_.over()) {
    return;
  }
  std::string message = *frame.head;
  message.append(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
  if (witness_.has_value()) {
    witness_->Sent(peer, message);
  }
  std::shared_ptr<Connection> connection = connections_[peer];
  if (connection == nullptr) {
    connection = Connect(peer);
  }
  if (IsSilent(peer, connection.get())) {
    return;
  }
  // The weak one, since the connection has this function; who carries it holds it. The
  // transport may be gone when the frame arrives.
  connection->frames.push_back(
      [world = world_, process = process_, inbox = inbox_, peer, weak = std::weak_ptr(connection),
       message = std::move(message)] { ServeAt(world, process, inbox, peer, weak, message); });
  Carry(world_, &world_->ps[peer]->process, connection, &Connection::frames, &Connection::last_out);
}

void SimulatedTransport::ServeAt(World* world, SimulatedProcess* process,
                                 const std::shared_ptr<Inbox>& inbox, uint32_t peer,
                                 const std::weak_ptr<Connection>& weak,
                                 const std::string& message) {
  const std::vector<std::string> answers = world->ps[peer]->Serve(message);
  const std::shared_ptr<Connection> connection = weak.lock();
  if (connection == nullptr || connection->broken ||
      IsSilent(*world, *process, peer, connection.get())) {
    return;
  }
  for (const std::string& answer : answers) {
    connection->answers.push_back([world, inbox, peer, weak, answer] {
      inbox->push_back({peer, weak.lock(), answer, absl::OkStatus()});
      world->threads.WakeAll(inbox.get());
    });
    Carry(world, process, connection, &Connection::answers, &Connection::last_in);
  }
}

void SimulatedTransport::Carry(World* world, SimulatedProcess* to,
                               const std::shared_ptr<Connection>& connection,
                               std::deque<std::function<void()>> Connection::*queue,
                               absl::Duration Connection::*last) {
  const absl::Duration now = world->time.now();
  absl::Duration& at = (*connection).*last;
  at = std::max(at, now + world->network.Delay());
  world->network.In(to, at - now, [connection, queue] {
    const std::function<void()> what = std::move(((*connection).*queue).front());
    ((*connection).*queue).pop_front();
    what();
  });
}

FrameTransport::Event SimulatedTransport::Wait(absl::Duration timeout) {
  if (inbox_->empty() || life_.over()) {
    world_->threads.Park(inbox_.get(), timeout);
  }
  if (life_.over()) {
    inbox_->clear();
  }
  Event event;
  while (!inbox_->empty()) {
    Delivery delivery = std::move(inbox_->front());
    inbox_->pop_front();
    if (delivery.connection == nullptr || delivery.connection->broken) {
      continue;
    }
    event.peer = delivery.peer;
    if (!delivery.broken.ok()) {
      Reset(delivery.peer);
      event.kind = Event::Kind::kBroken;
      event.status = delivery.broken;
      break;
    }
    if (witness_.has_value()) {
      witness_->Told(delivery.peer, delivery.message);
    }
    current_ = std::move(delivery.message);
    chunk_ = std::as_bytes(std::span(current_));
    event.kind = Event::Kind::kReceived;
    event.frame = std::span(&chunk_, 1);
    break;
  }
  return event;
}

}  // namespace monsoon::simulation
