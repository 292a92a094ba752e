#include "tests/simulation/simulated_replica_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/replicas/entering.h"
#include "gtest/gtest.h"
#include "tests/simulation/parked_call.h"
#include "tests/simulation/simulated_coordinator.h"
#include "tests/simulation/simulated_ps.h"
#include "worker/data/permutation.h"

namespace monsoon::simulation {

namespace {

bool IsOpenAnywhere(const World& world, const SessionKey& session) {
  return std::ranges::any_of(world.ps, [&session](SimulatedPs* ps) { return ps->IsOpen(session); });
}

}  // namespace

template <typename Reply>
absl::StatusOr<Reply> SimulatedReplicaClient::Call(
    std::function<absl::StatusOr<Reply>(CoordinatorCore&, Moment)> call) {
  SimulatedCoordinator* const coordinator = world_->coordinator;
  return ParkedCall<Reply>(world_, process_, life_, &coordinator->process, deadline_,
                           [coordinator, call = std::move(call)](auto reply) {
                             coordinator->Serve<Reply>(call, reply);
                           });
}

absl::StatusOr<EnterReply> SimulatedReplicaClient::Enter(const EnterRequest& request) {
  absl::StatusOr<EnterReply> reply = Call<EnterReply>(
      [world = world_, request](CoordinatorCore& core, Moment now) -> absl::StatusOr<EnterReply> {
        EnterRequest asked = request;
        if (const ListReply jobs = core.List(now); jobs.job_size() > 0) {
          // Who asks late by the job's name would make another one, which is nobody's here.
          asked.mutable_job()->set_name(jobs.job(0).job());
          asked.set_only_enter(true);
        }
        RETURN_IF_ERROR(CheckProgram(asked));
        return core.Enter(asked, world->plan, now);
      });
  if (reply.ok()) {
    world_->entered = reply->job();
  }
  return reply;
}

absl::StatusOr<HeartbeatReply> SimulatedReplicaClient::Heartbeat(const HeartbeatRequest& request) {
  last_beat_ = request;
  return Call<HeartbeatReply>(
      [request](CoordinatorCore& core, Moment now) { return core.Heartbeat(request, now); });
}

absl::StatusOr<NextWorkReply> SimulatedReplicaClient::NextWork(const NextWorkRequest& request) {
  NoteDone(request);
  SessionBook& book = world_->books[{request.session().worker(), request.session().incarnation()}];
  book.asks_for_work = true;
  book.ends_job |= request.end_job();
  absl::StatusOr<NextWorkReply> reply = Call<NextWorkReply>(
      [request](CoordinatorCore& core, Moment now) { return core.NextWork(request, now); });
  book.asks_for_work = false;
  book.begun &= reply.ok() && !reply->has_wait() && !reply->has_evaluate();
  world_->Trace(absl::StrCat("worker/", request.session().worker(), "#",
                             request.session().incarnation(), " is told ",
                             reply.ok() ? reply->ShortDebugString() : reply.status().ToString()));
  if (reply.ok()) {
    for (const BlockId& done : request.done()) {
      world_->leased.erase({done.epoch(), done.block()});
    }
    NoteLeases(request.session(), *reply);
  }
  return reply;
}

// What is reported, all shards must have acknowledged.
void SimulatedReplicaClient::NoteDone(const NextWorkRequest& request) {
  SessionBook& book = world_->books[{request.session().worker(), request.session().incarnation()}];
  const uint64_t acknowledged = world_->PushesIn(book, book.acknowledged);
  for (const BlockId& done : request.done()) {
    const BlockNumber block(done.epoch(), done.block());
    const uint64_t last = world_->counting ? LastPush(book, block) : acknowledged;
    ASSERT_LE(last, acknowledged) << "block " << block.second << " of epoch " << block.first
                                  << " is reported too early: "
                                  << request.session().ShortDebugString();
    book.blocks.try_emplace(block, last);
  }
  for (const StreamPosition& position : request.stream()) {
    uint64_t step = 0;
    ASSERT_TRUE(absl::SimpleAtoi(position.state(), &step));
    ASSERT_LE(world_->counting ? PushOfStep(book, step) : position.push(), acknowledged)
        << "stream \"" << position.name() << "\" is said to be read to step " << step
        << " too early: " << request.session().ShortDebugString();
  }
}

// Where each push tells how many steps it brings.
uint64_t SimulatedReplicaClient::LastPush(const SessionBook& book, const BlockNumber& block) {
  const auto leased =
      std::ranges::find(book.leased, block, &std::pair<BlockNumber, uint64_t>::first);
  if (leased == book.leased.end()) {
    return UINT64_MAX;
  }
  return PushOfStep(book, leased->second);
}

uint64_t SimulatedReplicaClient::PushOfStep(const SessionBook& book, uint64_t step) {
  uint64_t steps = 0;
  for (size_t i = 0; i < book.steps.size(); ++i) {
    steps += book.steps[i];
    if (steps >= step) {
      return i + 1;
    }
  }
  return UINT64_MAX;
}

void SimulatedReplicaClient::NoteLeases(const SessionKey& session, const NextWorkReply& reply) {
  const SessionId id{session.worker(), session.incarnation()};
  const bool there = IsOpenAnywhere(*world_, session);
  // A holder whose session no shard has any more may lose its blocks to another.
  SessionBook& book = world_->books[id];
  const JobPlan& plan = world_->plan;
  const BlockLayout layout{plan.examples, plan.job.block_examples(), plan.job.batch_size()};
  for (const BlockId& block : reply.train().block()) {
    const uint64_t before = book.leased.empty() ? 0 : book.leased.back().second;
    book.leased.emplace_back(BlockNumber(block.epoch(), block.block()),
                             before + layout.batches(block.block(), block.examples()));
    if (!there) {
      continue;  // the answer came late
    }
    const auto [holder, fresh] = world_->leased.try_emplace({block.epoch(), block.block()}, id);
    if (fresh || holder->second == id) {
      continue;
    }
    SessionKey other = session;
    other.set_worker(holder->second.worker);
    other.set_incarnation(holder->second.incarnation);
    ASSERT_FALSE(IsOpenAnywhere(*world_, other))
        << "block " << block.block() << " of epoch " << block.epoch() << " is leased to "
        << other.ShortDebugString() << " and " << session.ShortDebugString();
    holder->second = id;
  }
}

absl::StatusOr<ReportEvaluationReply> SimulatedReplicaClient::ReportEvaluation(
    const ReportEvaluationRequest& request) {
  return Call<ReportEvaluationReply>(
      [request](CoordinatorCore& core, Moment now) -> absl::StatusOr<ReportEvaluationReply> {
        const absl::Status status = core.ReportEvaluation(request, now);
        return status.ok() ? absl::StatusOr<ReportEvaluationReply>(ReportEvaluationReply())
                           : status;
      });
}

absl::StatusOr<TakeStreamReply> SimulatedReplicaClient::TakeStream(
    const TakeStreamRequest& request) {
  return Call<TakeStreamReply>(
      [request](CoordinatorCore& core, Moment now) { return core.TakeStream(request, now); });
}

absl::StatusOr<ClockReply> SimulatedReplicaClient::TellClock(const ClockRequest& request) {
  const SessionId id{request.session().worker(), request.session().incarnation()};
  SessionBook& book = world_->books[id];
  const uint64_t clock = world_->ClockOf(book);
  EXPECT_LE(request.clock(), clock)
      << "more pushes are told than shards have acknowledged: " << request.ShortDebugString();
  absl::StatusOr<ClockReply> reply = Call<ClockReply>(
      [world = world_, id, request](CoordinatorCore& core, Moment) -> absl::StatusOr<ClockReply> {
        const absl::StatusOr<ClockReply> reply = core.TellClock(request);
        if (reply.ok()) {
          world->books[id].told_clock = reply->clock();
        }
        if (reply.ok() && reply->has_least()) {
          CheckLeast(world, request.session(), reply->least());
        }
        return reply;
      });
  if (reply.ok()) {
    book.raised += reply->clock() - request.clock();
    if (reply->has_least()) {
      book.least = std::max(book.least.value_or(0), reply->least());
      book.begun = true;
    }
  }
  return reply;
}

void SimulatedReplicaClient::CheckLeast(World* world, const SessionKey& asker, uint64_t least) {
  for (const auto& [block, holder] : world->leased) {
    const SessionBook& book = world->books[holder];
    SessionKey key = asker;
    key.set_worker(holder.worker);
    key.set_incarnation(holder.incarnation);
    // What it reports just now, it may have reported already.
    if (book.begun && !book.asks_for_work && !book.ends_job && IsOpenAnywhere(*world, key)) {
      EXPECT_LE(least, world->ClockOf(book))
          << "worker/" << asker.worker() << " is told that all have come so far, and worker/"
          << holder.worker << " has not";
    }
  }
}

absl::StatusOr<ReportFailureReply> SimulatedReplicaClient::ReportFailure(
    const ReportFailureRequest& request) {
  return Call<ReportFailureReply>(
      [request](CoordinatorCore& core, Moment now) { return core.ReportFailure(request, now); });
}

}  // namespace monsoon::simulation
