// SimulatedSender: the pushes of one session in virtual time: a real ReplayWindow a shard,
// over connections that keep the order of their frames, break at any time, and whose frames
// may then still arrive. What was pushed and acknowledged goes to the session's book.
//
// What must not happen fails the running test. Not thread safe; held by a shared_ptr.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ps_server/client/replay_window.h"
#include "tests/simulation/simulated_ps.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedSender : public std::enable_shared_from_this<SimulatedSender> {
 public:
  // Of the life that `process` has now. Start follows.
  SimulatedSender(World* world, SimulatedProcess* process, const SessionKey& session);
  // `epochs`: one a shard, as the coordinator names them.
  void Start(const std::vector<uint64_t>& epochs);
  // Nothing more is sent.
  void Stop();

  // No room for another push.
  bool full() const;
  // Sends -1 at the worker's own places, or anything.
  void Push();
  uint64_t pushed() const { return pushed_; }
  // All shards have acknowledged so many, in some epoch.
  uint64_t acknowledged() const;
  bool all_acknowledged() const;
  // All pushes are in the newest generation of every shard.
  bool all_written() const;
  // Somebody waits for that: marks are asked for even where nothing is kept.
  void Await() { awaits_ = true; }

  // What the coordinator says.
  void NameEpoch(uint32_t shard, uint64_t epoch);
  // The connection breaks.
  void Break(uint32_t shard);

  // A line for each shard.
  std::string Describe() const;

 private:
  struct Connection {
    uint64_t life = 0;  // of the shard
    bool broken = false;
    bool silent = false;  // the network was cut: nothing gets through any more
    // In order, whatever becomes of the events that take them off.
    std::deque<std::function<void()>> frames;
    std::deque<std::function<void()>> answers;
    absl::Duration last_out;  // when the newest frame gets there, and its answer here
    absl::Duration last_in;
    uint32_t unanswered = 0;
    absl::Duration heard;
  };
  struct Link {
    explicit Link(uint64_t window_bytes) : window(window_bytes) {}
    ReplayWindow window;
    std::deque<std::shared_ptr<const PushBytes>> kept;  // as the window's
    std::shared_ptr<Connection> connection;
    absl::Duration connect_after;
    bool asked = false;  // for marks
    absl::Duration asked_at;
    uint64_t written = 0;
    // Fetched: within one epoch no version goes back.
    uint64_t fetched_epoch = 0;
    std::vector<uint64_t> fetched_version;
  };

  void PumpOn(uint32_t shard);
  void Pump(uint32_t shard);
  void Connect(uint32_t shard);
  void GoAway(uint32_t shard, absl::Duration pause);
  bool IsSilent(const SimulatedProcess& ps, Connection* connection);
  // `serve` runs at the shard in the order of the frames, `take` here in that of answers.
  template <typename Reply>
  void SendFrame(uint32_t shard, std::function<absl::StatusOr<Reply>(SimulatedPs*)> serve,
                 std::function<void(const absl::StatusOr<Reply>&)> take);
  // The queue's next one gets there, after those before it.
  void Carry(SimulatedProcess* to, const std::shared_ptr<Connection>& connection,
             std::deque<std::function<void()>> Connection::*queue,
             absl::Duration Connection::*last);
  void OnPushed(uint32_t shard, uint64_t sequence, const absl::StatusOr<PushReply>& reply);
  void OnMarks(uint32_t shard, const absl::StatusOr<MarksReply>& reply);
  void OnFetched(uint32_t shard, uint64_t acknowledged, const absl::StatusOr<FetchReply>& reply);
  // After news of the shard.
  void Note(uint32_t shard);
  std::shared_ptr<const PushBytes> Gradient(uint32_t shard);
  SessionBook& book() { return world_->books[{session_.worker(), session_.incarnation()}]; }

  World* const world_;
  SimulatedProcess* const process_;
  const SessionKey session_;
  std::vector<std::unique_ptr<Link>> links_;
  uint64_t pushed_ = 0;
  bool awaits_ = false;
  bool stopped_ = false;
};

}  // namespace monsoon::simulation
