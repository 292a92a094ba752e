#include "coordinator/downpour/downpour_job.h"

#include "common/testing/status_matchers.h"
#include "coordinator/downpour/downpour_fixture.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::FourBlocks;
using ::monsoon::testing::Replicas;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;
using Phase = DownpourJob::Phase;

TEST(DownpourJobTest, OneReplicaToTheEnd) {
  testing::ReplayedState state;
  DownpourJob job(FourBlocks(1.5), state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  EXPECT_EQ(job.phase(), Phase::kIdle);
  replicas.Add(0);
  EXPECT_EQ(job.phase(), Phase::kRunning);
  NextWorkReply reply = replicas.Ask(0);
  ASSERT_EQ(reply.train().block_size(), 2);
  EXPECT_EQ(reply.train().block(0).block(), 0u);
  EXPECT_EQ(reply.train().block(1).block(), 1u);
  reply = replicas.Ask(0, /*report=*/false);
  ASSERT_EQ(reply.train().block_size(), 1);
  EXPECT_EQ(reply.train().block(0).block(), 2u);
  replicas.Ask(0);  // (0,3) and (1,0)
  EXPECT_EQ(job.epoch(), 60.0 / 70);
  reply = replicas.Ask(0, false);
  EXPECT_EQ(reply.train().block(0).epoch(), 1u);
  EXPECT_EQ(reply.train().block(0).block(), 1u);
  EXPECT_TRUE(replicas.Ask(0, false).has_flush());
  EXPECT_EQ(job.phase(), Phase::kRunning);
  EXPECT_TRUE(replicas.Ask(0).has_finish());
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(job.blocks().blocks_done(), 6u);
  EXPECT_EQ(job.fraction(replicas.now_), 1.0);
  EXPECT_EQ(job.ReplicaState(0), "DONE");
  EXPECT_TRUE(job.test_results().empty());
}

TEST(DownpourJobTest, RepeatedRequestsGetTheSameAnswer) {
  testing::ReplayedState state;
  DownpourJob job(FourBlocks(1), state.Begun(DOWNPOUR).job_writer());
  job.AddReplica(0, absl::ZeroDuration());
  NextWorkRequest request;
  request.set_request(1);
  ASSERT_OK_AND_ASSIGN(const NextWorkReply first, job.NextWork(0, request, absl::ZeroDuration()));
  ASSERT_OK_AND_ASSIGN(const NextWorkReply again, job.NextWork(0, request, absl::ZeroDuration()));
  EXPECT_EQ(first.SerializeAsString(), again.SerializeAsString());
  EXPECT_EQ(job.blocks().held(0), 2u);
  request.set_request(0);
  EXPECT_THAT(job.NextWork(0, request, absl::ZeroDuration()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("came after 1")));
  EXPECT_THAT(job.NextWork(1, request, absl::ZeroDuration()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/1")));
}

std::optional<uint64_t> Planned(const DownpourOptions& options) {
  testing::ReplayedState state;
  return DownpourJob(options, state.Begun(DOWNPOUR).job_writer()).planned_examples();
}

TEST(DownpourJobTest, StopByStepsOrEpochsIsExact) {
  DownpourOptions options = FourBlocks(0);
  options.stop.set_steps(17);  // Blocks have 4, 4, 4, 2 steps: 14 an epoch.
  EXPECT_EQ(Planned(options), 70u + 3 * 5);
  options.stop.set_steps(14);
  EXPECT_EQ(Planned(options), 70u);
  options.stop.set_steps(13);
  EXPECT_EQ(Planned(options), 65u);
  options.stop.set_steps(12);
  EXPECT_EQ(Planned(options), 60u);
  options.stop.set_steps(1);
  EXPECT_EQ(Planned(options), 5u);
  options.stop.set_epochs(0.5);
  EXPECT_EQ(Planned(options), 5u);  // Whichever comes first.
  options.stop.set_steps(0);
  EXPECT_EQ(Planned(options), 35u);
  options.stop.set_epochs(1e-9);
  EXPECT_EQ(Planned(options), 1u);
  options.stop.set_epochs(2.1);
  EXPECT_EQ(Planned(options), 147u);
}

TEST(DownpourJobTest, WarmstartByStepsThenFull) {
  DownpourOptions options = FourBlocks(3);
  options.warmstart.set_steps(10);
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(1);
  replicas.Add(0);
  EXPECT_EQ(job.phase(), Phase::kWarmstart);
  EXPECT_TRUE(replicas.Ask(0).has_wait());
  EXPECT_TRUE(replicas.Ask(1).has_train());
  job.NoteSteps(9);
  EXPECT_TRUE(replicas.Ask(0).has_wait());
  job.NoteSteps(10);
  EXPECT_TRUE(replicas.Ask(0).has_train());
  EXPECT_EQ(job.phase(), Phase::kRunning);
  std::vector<std::string> kinds;
  for (const auto& event : job.TakeEvents()) {
    kinds.push_back(event.kind);
  }
  EXPECT_THAT(kinds, ::testing::ElementsAre("warmstart", "full"));
}

TEST(DownpourJobTest, WarmstartIsTakenOverAndEndsByTime) {
  DownpourOptions options = FourBlocks(3);
  options.warmstart.set_seconds(5);
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  replicas.Add(2);
  EXPECT_TRUE(replicas.Ask(0).has_train());
  EXPECT_TRUE(replicas.Ask(1).has_wait());
  replicas.Lose(0);
  EXPECT_EQ(job.phase(), Phase::kWarmstart);
  EXPECT_TRUE(replicas.Ask(2).has_wait());
  const NextWorkReply taken = replicas.Ask(1);
  ASSERT_TRUE(taken.has_train());
  EXPECT_EQ(taken.train().block(0).block(), 0u);  // What worker/0 held.
  replicas.Advance(absl::Seconds(5));
  EXPECT_TRUE(replicas.Ask(2).has_train());
  EXPECT_EQ(job.phase(), Phase::kRunning);
}

TEST(DownpourJobTest, LostReplicasBlocksAreTakenEvenInTheTail) {
  testing::ReplayedState state;
  DownpourJob job(FourBlocks(1), state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  replicas.Ask(0);
  replicas.Ask(1);
  EXPECT_TRUE(replicas.Ask(0).has_wait());  // All done by 0, the rest is 1's.
  replicas.Lose(1);
  EXPECT_TRUE(replicas.Ask(0).has_train());
  EXPECT_EQ(job.blocks().blocks_released(), 2u);
  EXPECT_TRUE(replicas.Ask(0).has_finish());
  EXPECT_EQ(replicas.visits_.size(), 4u);
  EXPECT_EQ(job.phase(), Phase::kDone);
}

TEST(DownpourJobTest, FlushesWhoHoldsUpTheNextEpoch) {
  DownpourOptions options = FourBlocks(0);
  options.stop.set_seconds(100);
  options.max_epochs_ahead = 1;
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  NextWorkReply reply;
  for (int i = 0; i < 7; ++i) {
    reply = replicas.Ask(0, /*report=*/false);
    EXPECT_TRUE(reply.has_train()) << i;
  }
  EXPECT_TRUE(replicas.Ask(0, false).has_flush());
  EXPECT_TRUE(replicas.Ask(0).has_train());
}

TEST(DownpourJobTest, SecondsStopLeasingAndDrain) {
  DownpourOptions options = FourBlocks(0);
  options.stop.set_seconds(10);
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Ask(0);
  replicas.Advance(absl::Seconds(5));
  EXPECT_DOUBLE_EQ(job.fraction(replicas.now_), 0.5);
  replicas.Advance(absl::Seconds(5));
  job.Tick(replicas.now_);
  EXPECT_EQ(job.phase(), Phase::kDraining);
  EXPECT_TRUE(replicas.Ask(0, /*report=*/false).has_flush());
  EXPECT_TRUE(replicas.Ask(0).has_finish());
  EXPECT_EQ(job.blocks().blocks_done(), 2u);
}

TEST(DownpourJobTest, PeriodicAndFinalEvaluation) {
  DownpourOptions options = FourBlocks(2);
  options.has_test = true;
  options.evaluate_every_epochs = 0.5;
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  replicas.Ask(0);
  replicas.Ask(1);
  job.NoteSteps(8);
  const NextWorkReply evaluate = replicas.Ask(0);  // 40 of 70 samples are done.
  ASSERT_TRUE(evaluate.has_evaluate());
  EXPECT_EQ(job.ReplicaState(0), "EVALUATING");
  job.NoteSteps(12);
  EXPECT_TRUE(replicas.Ask(1).has_train());  // The others go on.
  ASSERT_OK(replicas.Report(0, evaluate.evaluate().evaluation(), 80));
  ASSERT_EQ(job.test_results().size(), 1u);
  EXPECT_EQ(job.test_results()[0].step, 8u);
  EXPECT_DOUBLE_EQ(job.test_results()[0].epoch, 40.0 / 70);
  EXPECT_EQ(job.test_results()[0].accuracy, 0.8);
  EXPECT_EQ(job.test_results()[0].loss, 0.5);
  EXPECT_FALSE(job.test_results()[0].final);
  ASSERT_OK(replicas.Report(0, evaluate.evaluate().evaluation(), 80));  // Repeated.
  EXPECT_EQ(job.test_results().size(), 1u);
  // To the end, each evaluation by whose turn it is.
  for (int i = 0; i < 40 && job.phase() != Phase::kDone; ++i) {
    const uint32_t worker = i % 2;
    const NextWorkReply reply = replicas.Ask(worker);
    if (reply.has_evaluate()) {
      ASSERT_OK(replicas.Report(worker, reply.evaluate().evaluation(), 85));
    }
  }
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_TRUE(job.test_results().back().final);
  EXPECT_EQ(job.test_results().back().epoch, 2.0);
  EXPECT_EQ(replicas.visits_.size(), 8u);
}

TEST(DownpourJobTest, FinalEvaluationMovesWhenItsReplicaIsLost) {
  DownpourOptions options = FourBlocks(1);
  options.has_test = true;
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  replicas.Ask(0);
  replicas.Ask(1);
  EXPECT_TRUE(replicas.Ask(1).has_wait());
  const NextWorkReply first = replicas.Ask(0);
  ASSERT_TRUE(first.has_evaluate());
  EXPECT_EQ(job.phase(), Phase::kFinalEvaluation);
  EXPECT_TRUE(replicas.Ask(1).has_wait());
  replicas.Lose(0);
  const NextWorkReply second = replicas.Ask(1);
  ASSERT_TRUE(second.has_evaluate());
  EXPECT_THAT(replicas.Report(0, second.evaluate().evaluation(), 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("worker/0")));
  ASSERT_OK(replicas.Report(0, first.evaluate().evaluation(), 1));  // Outdated: ignored.
  EXPECT_TRUE(job.test_results().empty());
  ASSERT_OK(replicas.Report(1, second.evaluate().evaluation(), 90));
  EXPECT_TRUE(replicas.Ask(1).has_finish());
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(job.test_results().back().accuracy, 0.9);
}

TEST(DownpourJobTest, TargetAccuracyEndsIt) {
  DownpourOptions options = FourBlocks(100);
  options.has_test = true;
  options.evaluate_every_epochs = 1;
  options.stop.set_target_accuracy(0.9);
  testing::ReplayedState state;
  DownpourJob job(options, state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  int evaluations = 0;
  for (int i = 0; i < 100 && job.phase() != Phase::kDone; ++i) {
    const NextWorkReply reply = replicas.Ask(0);
    if (reply.has_evaluate()) {
      ++evaluations;
      ASSERT_OK(replicas.Report(0, reply.evaluate().evaluation(), evaluations < 3 ? 89 : 90));
    }
  }
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(evaluations, 4);  // The third reaches it, the last is the final one.
  EXPECT_LT(job.epoch(), 5.0);
}

TEST(DownpourJobTest, LeavingDoesNotWaitForEver) {
  testing::ReplayedState state;
  DownpourJob job(FourBlocks(0.5), state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  replicas.Ask(0);
  EXPECT_TRUE(replicas.Ask(0).has_finish());
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  replicas.Advance(kLeaveTimeout - absl::Milliseconds(1));
  job.Tick(replicas.now_);
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  replicas.Advance(absl::Milliseconds(1));
  job.Tick(replicas.now_);
  EXPECT_EQ(job.phase(), Phase::kDone);
}

TEST(DownpourJobTest, SamplesWithoutNumbersEndWhenNobodyHasMore) {
  testing::ReplayedState state;
  Job config;
  config.set_batch_size(5);
  config.set_block_examples(20);
  config.mutable_downpour();
  config.mutable_train()->mutable_joiners()->set_unnumbered(true);
  const DownpourOptions options = DownpourOptions::FromJob(config, uint64_t{1} << 40);
  const JobWriter writer = state.Begun(DOWNPOUR).job_writer();
  DownpourJob job(options, writer);
  const auto ask = [&job](uint32_t worker, uint64_t number, const std::vector<BlockId>& done,
                          bool out) {
    NextWorkRequest request;
    request.set_request(number);
    request.mutable_done()->Add(done.begin(), done.end());
    request.set_no_more_samples(out);
    absl::StatusOr<NextWorkReply> reply = job.NextWork(worker, request, absl::ZeroDuration());
    EXPECT_OK(reply);
    return *reply;
  };
  job.AddReplica(0, absl::ZeroDuration());
  job.AddReplica(1, absl::ZeroDuration());
  const NextWorkReply first = ask(0, 1, {}, false);
  ASSERT_EQ(first.train().block_size(), 2);
  EXPECT_EQ(first.train().block(0).examples(), 0u);  // all that it has
  const NextWorkReply other = ask(1, 1, {}, false);
  // It has said so, and holds blocks: what it has pushed is asked for.
  EXPECT_TRUE(ask(0, 2, {first.train().block(0)}, true).has_flush());
  EXPECT_TRUE(ask(0, 3, {first.train().block(1)}, false).has_wait());
  EXPECT_EQ(job.phase(), Phase::kRunning);
  EXPECT_EQ(job.epoch(), 0.0);
  // The next life of the coordinator knows it.
  DownpourJob next(options, writer);
  NextWorkRequest request;
  request.set_request(2);
  request.mutable_done()->CopyFrom(other.train().block());
  request.set_no_more_samples(true);
  ASSERT_OK_AND_ASSIGN(NextWorkReply reply, next.NextWork(1, request, absl::ZeroDuration()));
  EXPECT_TRUE(reply.has_finish());
  EXPECT_EQ(next.phase(), Phase::kLeaving);
  EXPECT_EQ(next.fraction(absl::ZeroDuration()), 1.0);
}

TEST(DownpourJobTest, StreamsOfSamplesWithoutNumbersAreKept) {
  testing::ReplayedState state;
  Job config;
  config.set_batch_size(5);
  config.mutable_downpour();
  config.mutable_train()->mutable_joiners()->set_unnumbered(true);
  const DownpourOptions options = DownpourOptions::FromJob(config, uint64_t{1} << 40);
  const JobWriter writer = state.Begun(DOWNPOUR).job_writer();
  DownpourJob job(options, writer);
  job.AddReplica(0, absl::ZeroDuration());
  job.AddReplica(1, absl::ZeroDuration());
  ASSERT_OK(job.TakeStream(0, "part-0"));
  NextWorkRequest request;
  request.set_request(1);
  StreamPosition* const read = request.add_stream();
  read->set_name("part-0");
  read->set_state("seven");
  read->set_push(7);
  ASSERT_OK(job.NextWork(0, request, absl::ZeroDuration()));
  // What no stream can have is refused before anything of it counts.
  request.set_request(2);
  read->set_state(std::string(70000, 's'));
  EXPECT_THAT(job.NextWork(0, request, absl::ZeroDuration()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("70000 bytes")));
  request.set_request(1);
  // Another replica's word on it does not count, and people are told.
  read->set_state("no");
  request.mutable_session()->set_worker(1);
  ASSERT_OK(job.NextWork(1, request, absl::ZeroDuration()));
  auto events = job.TakeEvents();
  ASSERT_EQ(events.back().kind, "stream_not_kept");
  EXPECT_EQ(events.back().task, "worker/1");
  EXPECT_THAT(events.back().text, HasSubstr("stream part-0"));
  // The next life of the coordinator knows it.
  DownpourJob next(options, writer);
  ASSERT_OK_AND_ASSIGN(TakeStreamReply reply, next.TakeStream(1, "part-0"));
  EXPECT_EQ(reply.held_by(), "worker/0");
  SessionKey session;
  next.LeaveStreams(session, 9);
  next.RemoveReplica(0, absl::ZeroDuration());
  events = next.TakeEvents();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].kind, "stream_read_again");
  EXPECT_EQ(events[0].text,
            "stream part-0: shards have 2 pushes of what was read beyond its position, and it is "
            "read again");
  ASSERT_OK_AND_ASSIGN(reply, next.TakeStream(1, "part-0"));
  EXPECT_EQ(reply.position().state(), "seven");
  JobDescription description;
  next.Describe(&description);
  ASSERT_EQ(description.data().stream_size(), 1);
  EXPECT_EQ(description.data().stream(0).taken_by(), 1u);
  EXPECT_EQ(description.data().stream(0).state_bytes(), 5u);
}

TEST(DownpourJobTest, NumberedSamplesHaveNoStreams) {
  testing::ReplayedState state;
  DownpourJob job(FourBlocks(1), state.Begun(DOWNPOUR).job_writer());
  job.AddReplica(0, absl::ZeroDuration());
  EXPECT_THAT(job.TakeStream(0, "part-0").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("samples have numbers")));
}

TEST(DownpourJobTest, SamplesOfAReplicaThatIsLostAreMissedByNobody) {
  testing::ReplayedState state;
  Job config;
  config.set_batch_size(5);
  config.mutable_downpour();
  config.mutable_train()->mutable_joiners()->set_unnumbered(true);
  DownpourJob job(DownpourOptions::FromJob(config, uint64_t{1} << 40),
                  state.Begun(DOWNPOUR).job_writer());
  Replicas replicas(&job);
  replicas.Add(0);
  replicas.Add(1);
  replicas.Ask(0);
  NextWorkRequest out;
  out.set_request(++replicas.request_[1]);
  out.set_no_more_samples(true);
  ASSERT_OK(job.NextWork(1, out, replicas.now_));
  EXPECT_EQ(job.phase(), Phase::kRunning);
  replicas.Lose(0);
  EXPECT_GT(job.phase(), Phase::kRunning);
}

}  // namespace
}  // namespace monsoon
