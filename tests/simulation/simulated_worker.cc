#include "tests/simulation/simulated_worker.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/simulation/counting_network.h"
#include "tests/simulation/simulated_ps.h"
#include "tests/simulation/simulated_replica_client.h"
#include "tests/simulation/simulated_transport.h"
#include "tests/simulation/timed_network.h"
#include "worker/replica/replica_runner.h"
#include "worker/session/session_host.h"

namespace monsoon::simulation {
namespace {

constexpr absl::Duration kCallDeadline = absl::Milliseconds(400);
constexpr absl::Duration kDrainGrace = absl::Seconds(12);
// What a session may keep of its pushes.
constexpr uint64_t kWindowPushes = 12;
// So often the main thread looks whether the process is to end.
constexpr absl::Duration kLook = absl::Milliseconds(100);

// Of one, to all shards.
uint64_t PushBytes(const JobPlan& plan) {
  return plan.parameters * (plan.job.downpour().push_format() == FLOAT32 ? 4 : 2);
}

// Notes in the world's books how sessions begin and end.
class NotingRunner final : public SessionRunner {
 public:
  NotingRunner(World* world, const ProcessLife* life, std::unique_ptr<SessionRunner> runner)
      : world_(world), life_(*life), runner_(std::move(runner)) {}

  SessionEnd Run(const Assignment& assignment, StatsCollector* stats,
                 SessionControl* control) override {
    const SessionId id{assignment.session().worker(), assignment.session().incarnation()};
    const bool first = world_->books.emplace(id, SessionBook()).second;
    EXPECT_TRUE(first) << "session " << id.worker << "#" << id.incarnation << " is run twice";
    SessionEnd end = runner_->Run(assignment, stats, control);
    world_->Trace(absl::StrCat("worker/", id.worker, "#", id.incarnation,
                               " ends: ", static_cast<int>(end.kind), " ", end.message));
    SessionBook& book = world_->books[id];
    const bool orderly =
        end.kind == SessionEnd::Kind::kFinished || end.kind == SessionEnd::Kind::kDrained;
    const bool memory_only = world_->plan.job.checkpoint().off();
    book.whole =
        orderly && (memory_only || !life_.over() || IsTold()) &&
        world_->PushesIn(book, memory_only ? book.acknowledged : book.written) == book.pushed;
    return end;
  }

 private:
  // Of one that was killed: the coordinator knows what shards have written, without its word.
  bool IsTold() const {
    bool told = false;
    world_->threads.CallAsEvent([&] {
      told = std::ranges::all_of(world_->ps, [this](SimulatedPs* ps) {
        const absl::StatusOr<ShardStatusReply> status =
            ps->process.alive ? ps->GetStatus() : absl::UnavailableError("it is dead");
        return status.ok() && status->job_size() > 0 &&
               status->job(0).generation() <= world_->told[ps->index()];
      });
    });
    return told;
  }

  World* const world_;
  const ProcessLife& life_;
  const std::unique_ptr<SessionRunner> runner_;
};

}  // namespace

// One life of the process.
class SimulatedWorker::Life {
 public:
  Life(World* world, SimulatedProcess* process, uint32_t task)
      : world_(world),
        process_(process),
        life_(process),
        task_(task),
        pid_(static_cast<uint32_t>(10000 + world->dice.Below(1u << 30))) {}

  // The main thread.
  void Run() {
    SimulatedReplicaClient work(world_, process_, kCallDeadline);
    NotingRunner runner(world_, &life_, MakeRunner(&work));
    {
      SessionHost host(MakeOptions(), &heartbeats_, &work, &runner);
      host.Start();
      while (!life_.over() && !told_to_leave_) {
        world_->threads.Park(this, kLook);
      }
      if (!life_.over()) {
        host.Drain(kDrainGrace);
      }
      if (!life_.over()) {
        process_->alive = false;
      }
    }
  }

  // Its main thread looks whether it is over.
  void Notice() { world_->threads.WakeAll(this); }

  std::string Describe() const {
    const HeartbeatRequest& beat = heartbeats_.last_beat();
    return absl::StrCat(told_to_leave_ ? " told to leave" : "",
                        ", said last: ", beat.ShortDebugString());
  }

 private:
  std::unique_ptr<SessionRunner> MakeRunner(ReplicaClient* work) {
    ReplicaRunner::Options options;
    options.replay_window_bytes = kWindowPushes * PushBytes(world_->plan);
    options.rpc_deadline = absl::Milliseconds(world_->cluster.rpc_deadline_ms());
    options.make_network =
        [this](const JoinedJob& joined) -> absl::StatusOr<std::unique_ptr<Network>> {
      if (joined.job.has_sandblaster()) {
        return TimedNetwork::Create(world_, joined.layout);
      }
      return std::make_unique<CountingNetwork>(world_, joined.session.worker());
    };
    options.make_transport = [this](const JoinedJob& joined) {
      return std::make_unique<SimulatedTransport>(world_, process_, joined.session);
    };
    return std::make_unique<ReplicaRunner>(options, work);
  }

  SessionHost::Options MakeOptions() {
    SessionHost::Options options;
    options.member.cluster = world_->cluster.name();
    options.member.task = task_;
    options.member.pid = pid_;
    options.member.heartbeat = absl::Milliseconds(world_->cluster.heartbeat_ms());
    options.lost_after = absl::Milliseconds(world_->cluster.lost_after_ms());
    options.calls.on_refused = [](const absl::Status& why) {
      ADD_FAILURE() << "a worker is refused for good: " << why;
    };
    options.calls.on_drain = [this] {
      told_to_leave_ = true;
      Notice();
    };
    return options;
  }

  World* const world_;
  SimulatedProcess* const process_;
  const ProcessLife life_;
  const uint32_t task_;
  const uint32_t pid_;
  SimulatedReplicaClient heartbeats_{world_, process_, kCallDeadline};
  bool told_to_leave_ = false;
};

void SimulatedWorker::Start() {
  process.alive = true;
  process.wakes_at = absl::ZeroDuration();
  ++process.life;
  life_ = std::make_shared<Life>(world_, &process, task_);
  world_->threads.StartIn(&process, [life = life_] { life->Run(); });
}

void SimulatedWorker::Kill() {
  process.alive = false;
  if (life_ != nullptr) {
    life_->Notice();
  }
}

std::string SimulatedWorker::Describe() const {
  return absl::StrCat("worker/", task_, process.alive ? "" : " dead",
                      life_ == nullptr ? "" : life_->Describe());
}

}  // namespace monsoon::simulation
