// What a Downpour job makes of its replicas' clocks.
#include <cstdint>
#include <optional>

#include "common/testing/status_matchers.h"
#include "coordinator/downpour/downpour_fixture.h"
#include "coordinator/downpour/downpour_job.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::FourBlocks;
using ::monsoon::testing::Replicas;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

ClockRequest ToldOf(uint64_t clock, bool begins = false) {
  static uint64_t calls = 0;
  ClockRequest request;
  request.set_call(++calls);
  request.set_clock(clock);
  request.set_begins(begins);
  return request;
}

TEST(DownpourClocksTest, TheSlowestOfThoseThatHoldBlocksIsTold) {
  testing::ReplayedState state;
  DownpourOptions options = FourBlocks(8);
  options.staleness_bound = 1;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  const auto clock_of = [&job](uint32_t worker) {
    JobDescription description;
    description.add_worker()->set_task(worker);
    job.Describe(&description);
    const JobDescription::Worker& told = description.worker(0);
    return told.has_clock() ? std::optional<uint64_t>(told.clock()) : std::nullopt;
  };
  ASSERT_TRUE(replicas.Ask(0).has_train());
  ASSERT_OK_AND_ASSIGN(ClockReply reply, job.TellClock(0, ToldOf(3, true)));
  EXPECT_EQ(reply.least(), 3u);
  ASSERT_TRUE(replicas.Ask(1).has_train());
  ASSERT_OK_AND_ASSIGN(reply, job.TellClock(1, ToldOf(0, true)));
  EXPECT_EQ(reply.clock(), 3u);
  ASSERT_OK_AND_ASSIGN(reply, job.TellClock(0, ToldOf(5)));
  EXPECT_EQ(reply.least(), 3u);
  EXPECT_EQ(reply.slowest(), 1u);
  EXPECT_EQ(clock_of(1), 3u);
  // Nothing is left for it before the other one has reported.
  for (int ask = 0; replicas.Ask(1).has_train(); ++ask) {
    ASSERT_LT(ask, 40);
  }
  EXPECT_EQ(clock_of(1), std::nullopt);
  ASSERT_TRUE(replicas.Ask(0).has_train());
  ASSERT_TRUE(replicas.Ask(1).has_train());
  ASSERT_OK_AND_ASSIGN(reply, job.TellClock(0, ToldOf(6)));
  EXPECT_EQ(reply.least(), 6u) << "it has not begun yet";
  ASSERT_OK_AND_ASSIGN(reply, job.TellClock(1, ToldOf(9, true)));
  EXPECT_EQ(reply.clock(), 6u);
  // The next life of the replica begins anew, and so do the numbers of its calls.
  replicas.Lose(1);
  replicas.Add(1);
  EXPECT_EQ(clock_of(1), std::nullopt);
  ClockRequest first = ToldOf(0, true);
  first.set_call(1);
  ASSERT_OK_AND_ASSIGN(reply, job.TellClock(1, first));
  EXPECT_EQ(reply.clock(), 6u);
}

TEST(DownpourClocksTest, AfterANewStartOnlyThoseThatHoldBlocksHaveToTell) {
  testing::ReplayedState state;
  DownpourOptions options = FourBlocks(8);
  options.staleness_bound = 1;
  const JobWriter writer = state.Begun(DOWNPOUR).job_writer();
  DownpourJob job(options, writer);
  Replicas replicas(&job);
  for (const uint32_t worker : {0, 1, 2}) {
    replicas.Add(worker);
  }
  ASSERT_TRUE(replicas.Ask(0).has_train());
  ASSERT_TRUE(replicas.Ask(1).has_train());
  DownpourJob next(options, writer);
  ASSERT_OK_AND_ASSIGN(ClockReply reply, next.TellClock(0, ToldOf(7)));
  EXPECT_FALSE(reply.has_least());
  ASSERT_OK_AND_ASSIGN(reply, next.TellClock(1, ToldOf(6)));
  EXPECT_EQ(reply.least(), 6u);
}

TEST(DownpourClocksTest, WithoutABoundThatIsWaitedForNobodyTellsHisClock) {
  Job config;
  config.set_batch_size(5);
  config.mutable_downpour()->set_staleness_bound(2);
  DownpourOptions options = DownpourOptions::FromJob(config, 70);
  EXPECT_EQ(options.staleness_bound, 2u);
  config.mutable_downpour()->set_staleness_policy(DROP_OLDER);
  options = DownpourOptions::FromJob(config, 70);
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  job.AddReplica(0, absl::ZeroDuration());
  EXPECT_THAT(job.TellClock(0, ToldOf(1)).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("waits for another")));
}

}  // namespace
}  // namespace monsoon
