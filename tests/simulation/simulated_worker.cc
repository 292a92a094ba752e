#include "tests/simulation/simulated_worker.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulated_coordinator.h"

namespace monsoon::simulation {
namespace {

constexpr absl::Duration kCallDeadline = absl::Milliseconds(400);
constexpr absl::Duration kDrainPatience = absl::Seconds(2);

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

void SimulatedWorker::Start() {
  process.alive = true;
  process.wakes_at = absl::ZeroDuration();
  ++process.life;
  session_.reset();
  ++session_number_;
  beating_ = beat_now_ = told_to_leave_ = left_ = false;
  ReplicaMembership::Options options;
  options.cluster = world_->cluster.name();
  options.task = task_;
  options.pid = static_cast<uint32_t>(10000 + world_->dice.Below(1u << 30));
  options.heartbeat = absl::Milliseconds(world_->cluster.heartbeat_ms());
  membership_.emplace(options);
  Beat();
  Step();
}

void SimulatedWorker::Kill() {
  process.alive = false;
  if (session_.has_value()) {
    session_->sender->Stop();
  }
  session_.reset();
  ++session_number_;
}

void SimulatedWorker::Break(uint32_t shard) {
  if (session_.has_value()) {
    session_->sender->Break(shard);
  }
}

void SimulatedWorker::InSession(absl::Duration delay, std::function<void()> what) {
  world_->network.In(&process, delay, [this, number = session_number_, what = std::move(what)] {
    if (number == session_number_ && session_.has_value()) {
      what();
    }
  });
}

std::string SimulatedWorker::Describe() const {
  std::string text = absl::StrCat("worker/", task_, process.alive ? "" : " dead",
                                  left_ ? " left" : "", told_to_leave_ ? " told to leave" : "");
  if (!session_.has_value()) {
    return absl::StrCat(text, ", incarnation ", membership_->incarnation(), ", no session");
  }
  const WorkerSession& s = *session_;
  return absl::StrCat(
      text, ", session #", s.id.incarnation, ": ", s.queue.size(), " blocks and ", s.pushes_left,
      " pushes left, ", s.trained.size(), " blocks to report", s.asking ? ", asks" : "",
      s.held.has_value() ? ", holds an answer" : "", s.flushes ? ", flushes" : "",
      s.finishes ? ", finishes" : "", s.drains ? ", drains" : "",
      s.stands_still ? ", stands still" : "", ", heard the coordinator ",
      absl::FormatDuration(world_->time.now() - s.heard), " ago\n", s.sender->Describe());
}

template <typename Reply>
void SimulatedWorker::AskCoordinator(
    std::function<absl::StatusOr<Reply>(CoordinatorCore&, Moment)> call,
    VirtualNetwork::Answer<Reply> done) {
  SimulatedCoordinator* const coordinator = world_->coordinator;
  world_->network.Call<Reply>(
      &process, &coordinator->process, kCallDeadline,
      [coordinator, call = std::move(call)](auto reply) { coordinator->Serve<Reply>(call, reply); },
      std::move(done));
}

// ---- membership ---------------------------------------------------------------

void SimulatedWorker::Beat() {
  if (beating_ || left_) {
    return;
  }
  beating_ = true;
  beat_now_ = false;
  HeartbeatRequest request = membership_->MakeRequest();
  if (session_.has_value()) {
    *request.mutable_session() = session_->key;
    request.set_wants_checkpoint(session_->stands_still || session_->finishes || session_->drains);
    request.set_stands_still(session_->stands_still);
  }
  AskCoordinator<HeartbeatReply>(
      [request](CoordinatorCore& core, Moment now) { return core.Heartbeat(request, now); },
      [this, request](const absl::StatusOr<HeartbeatReply>& reply) {
        beating_ = false;
        OnBeat(request, reply);
        const absl::Duration pause = beat_now_ ? absl::ZeroDuration() : membership_->heartbeat();
        world_->network.In(&process, pause, [this] { Beat(); });
      });
}

void SimulatedWorker::OnBeat(const HeartbeatRequest& request,
                             const absl::StatusOr<HeartbeatReply>& reply) {
  if (!reply.ok() || left_) {
    return;
  }
  const ReplicaMembership::Outcome outcome = membership_->Apply(request, *reply);
  if (outcome == ReplicaMembership::Outcome::kStale) {
    return;
  }
  if (outcome == ReplicaMembership::Outcome::kRejoin) {
    beat_now_ = true;
    if (session_.has_value()) {
      Exit(/*rejoin=*/false);
    }
    return;
  }
  told_to_leave_ |= reply->drain();
  if (session_.has_value()) {
    session_->heard = world_->time.now();
    if (!membership_->Assigned(session_->key)) {
      Exit(/*rejoin=*/false);
    } else if (reply->has_assignment()) {
      for (int shard = 0; shard < reply->assignment().shard_epoch_size(); ++shard) {
        session_->sender->NameEpoch(static_cast<uint32_t>(shard),
                                    reply->assignment().shard_epoch(shard));
      }
    }
  }
  if (!session_.has_value() && membership_->assignment() != nullptr) {
    Enter(*membership_->assignment());
  }
}

void SimulatedWorker::Enter(const Assignment& assignment) {
  ++session_number_;
  WorkerSession& session = session_.emplace();
  session.key = assignment.session();
  session.id = {session.key.worker(), session.key.incarnation()};
  session.heard = world_->time.now();
  const bool first = world_->books.emplace(session.id, SessionBook()).second;
  ASSERT_TRUE(first) << "session " << session.id.worker << "#" << session.id.incarnation
                     << " is run twice";
  session.sender = std::make_shared<SimulatedSender>(world_, &process, session.key);
  session.sender->Start({assignment.shard_epoch().begin(), assignment.shard_epoch().end()});
}

void SimulatedWorker::Exit(bool rejoin) {
  session_->sender->Stop();
  membership_->Leave(session_->key, rejoin);
  session_.reset();
  ++session_number_;
  beat_now_ = true;
}

void SimulatedWorker::Leave() {
  left_ = true;
  HeartbeatRequest request = membership_->MakeRequest();
  request.set_leaving(true);
  AskCoordinator<HeartbeatReply>(
      [request](CoordinatorCore& core, Moment now) { return core.Heartbeat(request, now); },
      [this](const absl::StatusOr<HeartbeatReply>&) { Kill(); });
}

// ---- work -----------------------------------------------------------------------

void SimulatedWorker::Step() {
  const absl::Duration pause = world_->dice.Between(absl::Milliseconds(2), absl::Milliseconds(20));
  world_->network.In(&process, pause, [this] { Step(); });
  if (left_) {
    return;
  }
  if (!session_.has_value()) {
    if (told_to_leave_) {
      Leave();
    }
    return;
  }
  WorkerSession& session = *session_;
  // SessionControl: a coordinator that is silent for long may have given the blocks away.
  if (world_->time.now() - session.heard > absl::Milliseconds(world_->cluster.lost_after_ms())) {
    return;
  }
  if (told_to_leave_ && !session.drains && session.pushes_left == 0) {
    session.drains = true;
    session.queue.clear();  // they go back when the worker leaves
    session.drain_until = world_->time.now() + kDrainPatience;
  }
  if (session.pushes_left > 0 || (!session.queue.empty() && !session.finishes)) {
    session.stands_still = session.sender->full();
    if (!session.stands_still) {
      TrainOneStep();
    }
    if (!session.asking && !session.held.has_value() && !session.drains && session.queue.empty() &&
        world_->dice.Once(2)) {
      Ask();  // ahead
    }
    return;
  }
  const bool acknowledged = session.sender->all_acknowledged();
  if (session.drains) {
    return Drain();
  }
  if (session.finishes) {
    session.sender->Await();
    if (acknowledged && session.sender->all_written()) {
      world_->books[session.id].whole = true;
      Exit(/*rejoin=*/false);
    }
    return;
  }
  if (session.flushes && !acknowledged) {
    return;
  }
  session.flushes = false;
  if (session.held.has_value()) {
    Act(*std::exchange(session.held, std::nullopt));
  } else if (!session.asking && world_->time.now() >= session.ask_after) {
    Ask();
  }
}

void SimulatedWorker::Drain() {
  WorkerSession& session = *session_;
  session.sender->Await();
  const bool acknowledged = session.sender->all_acknowledged();
  if (acknowledged && !session.asking && !session.trained.empty()) {
    NextWorkRequest last;
    TakeDone(&last);
    Send(last, absl::ZeroDuration());
  }
  const bool whole = acknowledged && session.sender->all_written();
  if ((whole && !session.asking) || world_->time.now() >= session.drain_until) {
    world_->books[session.id].whole = whole;
    Exit(/*rejoin=*/false);
    Leave();
  }
}

void SimulatedWorker::TrainOneStep() {
  WorkerSession& session = *session_;
  if (session.pushes_left == 0) {
    session.block = session.queue.front();
    session.queue.pop_front();
    session.pushes_left = 1 + world_->dice.Below(4);
  }
  session.sender->Push();
  if (--session.pushes_left == 0) {
    session.trained.emplace_back(session.block, session.sender->pushed());
    world_->books[session.id].blocks[{session.block.epoch(), session.block.block()}] =
        session.sender->pushed();
  }
}

void SimulatedWorker::TakeDone(NextWorkRequest* request) {
  *request->mutable_session() = session_->key;
  request->set_request(++session_->request);
  request->mutable_stats()->set_steps(session_->sender->pushed());
  request->mutable_stats()->set_pushes(session_->sender->pushed());
  const uint64_t acknowledged = session_->sender->acknowledged();
  while (!session_->trained.empty() && session_->trained.front().second <= acknowledged) {
    *request->add_done() = session_->trained.front().first;
    session_->trained.pop_front();
  }
}

void SimulatedWorker::Ask() {
  NextWorkRequest request;
  TakeDone(&request);
  Send(request, absl::Milliseconds(20));
}

void SimulatedWorker::Send(const NextWorkRequest& request, absl::Duration pause) {
  session_->asking = true;
  AskCoordinator<NextWorkReply>(
      [request](CoordinatorCore& core, Moment now) { return core.NextWork(request, now); },
      [this, number = session_number_, request, pause](const auto& reply) {
        if (number == session_number_ && session_.has_value()) {
          OnWork(request, pause, reply);
        }
      });
}

void SimulatedWorker::OnWork(const NextWorkRequest& request, absl::Duration pause,
                             const absl::StatusOr<NextWorkReply>& reply) {
  WorkerSession& session = *session_;
  if (reply.ok()) {
    session.heard = world_->time.now();
    ASSERT_EQ(reply->request(), request.request());
    session.asking = false;
    for (const BlockId& done : request.done()) {
      world_->leased.erase({done.epoch(), done.block()});
    }
    if (session.drains) {
      return;
    }
    if (reply->has_train()) {
      Act(*reply);
    } else {
      session.held = *reply;
    }
  } else if (!IsTransient(reply.status())) {
    Exit(/*rejoin=*/true);
  } else if (pause == absl::ZeroDuration()) {
    session.asking = false;  // the last report is tried once
  } else {
    InSession(pause, [this, request, pause] {
      Send(request, std::min(pause * 2, absl::Milliseconds(200)));
    });
  }
}

void SimulatedWorker::Act(const NextWorkReply& reply) {
  WorkerSession& session = *session_;
  switch (reply.work_case()) {
    case NextWorkReply::kTrain:
      for (const BlockId& block : reply.train().block()) {
        Lease(block);
        session.queue.push_back(block);
      }
      return;
    case NextWorkReply::kWait:
      session.ask_after = world_->time.now() + absl::Milliseconds(reply.wait().retry_ms());
      return;
    case NextWorkReply::kFlush:
      session.flushes = true;
      return;
    case NextWorkReply::kEvaluate:
      return Evaluate(reply.evaluate());
    case NextWorkReply::kFinish:
      session.finishes = true;
      return;
    default:
      FAIL() << "work that no such job has: " << reply.ShortDebugString();
  }
}

// No other session holds the block that some shard would still take pushes of.
void SimulatedWorker::Lease(const BlockId& block) {
  const auto open = [this](const SessionKey& key) {
    return std::ranges::any_of(world_->ps, [&](SimulatedPs* ps) { return ps->IsOpen(key); });
  };
  if (!open(session_->key)) {
    return;  // the answer came late
  }
  const auto [holder, fresh] =
      world_->leased.try_emplace({block.epoch(), block.block()}, session_->id);
  if (!fresh && holder->second != session_->id) {
    SessionKey other = session_->key;
    other.set_worker(holder->second.worker);
    other.set_incarnation(holder->second.incarnation);
    ASSERT_FALSE(open(other)) << "block " << block.block() << " of epoch " << block.epoch()
                              << " is leased to " << other.ShortDebugString() << " and "
                              << session_->key.ShortDebugString();
    holder->second = session_->id;
  }
}

// From the shards' vector where the run has one: all of them must have it.
void SimulatedWorker::Evaluate(const NextWorkReply::Evaluate& work) {
  session_->asking = true;
  auto request = std::make_shared<ReportEvaluationRequest>();
  *request->mutable_session() = session_->key;
  request->set_evaluation(work.evaluation());
  request->set_examples(100);
  request->set_correct(90);
  request->set_loss_sum(50);
  auto missing = std::make_shared<size_t>(world_->ps.size());
  for (SimulatedPs* const ps : world_->ps) {
    world_->network.Call<FetchReply>(
        &process, &ps->process, kCallDeadline,
        [ps, key = session_->key, vector = work.vector()](auto reply) {
          reply(ps->Fetch(key, vector));
        },
        [this, number = session_number_, request, missing](const auto& reply) {
          if (number != session_number_) {
            return;
          }
          if (!reply.ok()) {
            request->set_vector_is_gone(true);
          }
          if (--*missing == 0) {
            Report(*request);
          }
        });
  }
}

void SimulatedWorker::Report(const ReportEvaluationRequest& request) {
  AskCoordinator<bool>(
      [request](CoordinatorCore& core, Moment now) -> absl::StatusOr<bool> {
        const absl::Status status = core.ReportEvaluation(request, now);
        return status.ok() ? absl::StatusOr<bool>(true) : status;
      },
      [this, number = session_number_, request](const absl::StatusOr<bool>& reply) {
        if (number != session_number_) {
          return;
        }
        if (!reply.ok() && IsTransient(reply.status())) {
          InSession(absl::Milliseconds(50), [this, request] { Report(request); });
        } else {
          session_->asking = false;
        }
      });
}

}  // namespace monsoon::simulation
