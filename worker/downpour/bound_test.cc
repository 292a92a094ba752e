// A replica that waits for slower ones.
#include <atomic>
#include <cstdint>
#include <optional>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/session/push_bound.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using testing::FakeNetwork;
using testing::FakeShards;

TEST(BoundTest, WhoIsTooFarAheadWaitsBeforeItComputes) {
  // The slowest makes a push whenever this one is told to wait.
  std::atomic<uint64_t> least = 0;
  const ParameterLayout layout = testing::SmallLayout();
  SessionControl control(Clock::Real(), absl::Seconds(30));
  Batch batch(1, 4);
  batch.examples = 1;
  DownpourRunnerOptions options;
  options.overlap = NONE;
  testing::FakeCoordinator coordinator;
  coordinator.tell_clock = [&](const ClockRequest& request) -> absl::StatusOr<ClockReply> {
    ClockReply reply;
    reply.set_clock(request.clock());
    reply.set_least(least);
    least += request.clock() > 2 + least ? 1 : 0;
    return reply;
  };
  for (const uint32_t n_push : {1u, 2u}) {
    least = 0;
    options.n_push = n_push;
    FakeShards shards(layout.size());
    FakeNetwork network;
    StatsCollector stats;
    ReplicaGroup group({}, &network);
    PushBound bound(2, SessionKey(), &coordinator, &stats, &control, Clock::Real());
    DownpourRunner runner(options, &layout, &shards, &group, nullptr, &stats, &control,
                          Clock::Real());
    runner.BoundBy(&bound);
    const auto step = [&] {
      runner.Add(&batch, std::nullopt);
      EXPECT_OK(runner.Step());
    };
    // Three pushes leave, and a step that only adds to a push that is begun waits for nobody.
    for (uint32_t i = 0; i < 3 * n_push; ++i) {
      step();
    }
    EXPECT_LE(least, 1u) << "the third push may be told before a step asks for the fourth";
    EXPECT_EQ(shards.w()[0], -(3.0f * n_push) * (3.0f * n_push + 1) / 2);
    step();
    EXPECT_GE(least, 1u);
    EXPECT_EQ(stats.Snapshot().waits_for(), "");
  }
}

// It waits, hears of another bound, and goes on.
TEST(BoundTest, ABoundThatIsRaisedFreesAReplicaThatWaits) {
  const ParameterLayout layout = testing::SmallLayout();
  SessionControl control(Clock::Real(), absl::Seconds(30));
  Batch batch(1, 4);
  batch.examples = 1;
  StatsCollector stats;
  Downpour raised;
  raised.set_staleness_bound(7);
  testing::FakeCoordinator coordinator;
  coordinator.tell_clock = [&](const ClockRequest& request) -> absl::StatusOr<ClockReply> {
    if (!stats.Snapshot().waits_for().empty()) {
      control.TellSettings(1, raised);  // by a heartbeat
    }
    ClockReply reply;
    reply.set_clock(request.clock());
    reply.set_least(0);
    return reply;
  };
  DownpourRunnerOptions options;
  options.overlap = NONE;
  FakeShards shards(layout.size());
  FakeNetwork network;
  ReplicaGroup group({}, &network);
  PushBound bound(1, SessionKey(), &coordinator, &stats, &control, Clock::Real());
  DownpourRunner runner(options, &layout, &shards, &group, nullptr, &stats, &control,
                        Clock::Real());
  runner.BoundBy(&bound);
  for (int i = 0; i < 8; ++i) {
    runner.Add(&batch, std::nullopt);
    ASSERT_OK(runner.Step());
  }
  EXPECT_EQ(control.taken_settings(), 1u);
}

}  // namespace
}  // namespace monsoon
