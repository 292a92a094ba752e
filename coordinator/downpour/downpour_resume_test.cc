// Downpour jobs that go on from where an earlier one has come.
#include <map>
#include <vector>

#include "coordinator/downpour/downpour_fixture.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::FourBlocks;
using ::monsoon::testing::Replicas;
using Phase = DownpourJob::Phase;

// The state of a job that begins with `resumed`.
JobWriter BeginResumed(const DownpourProgress& resumed, testing::ReplayedState* state) {
  const JobWriter writer = state->Job();
  writer.Make([&](StateUpdate* update) {
    update->set_procedure(DOWNPOUR);
    *update->mutable_procedure_begun()->mutable_resumed() = resumed;
  });
  return writer;
}

// Steps that leases grant, when `workers` take turns and one of them may die. Goes on
// from `progress`, and adds to it what is done.
uint64_t GrantedSteps(uint64_t steps, uint32_t workers, bool death, DownpourProgress* progress) {
  DownpourOptions options = FourBlocks(0);
  options.stop.set_steps(steps);
  options.resumed = *progress;
  testing::ReplayedState state;
  const JobWriter writer = BeginResumed(*progress, &state);
  DownpourJob job(options, writer);
  std::map<uint32_t, uint64_t> requests;
  std::map<uint32_t, std::vector<BlockId>> held;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    job.AddReplica(worker, absl::ZeroDuration());
  }
  uint64_t done = 0;
  for (int turn = 0; turn < 1000 && job.phase() < Phase::kLeaving; ++turn) {
    const uint32_t worker = static_cast<uint32_t>(turn) % workers;
    if (death && turn == 7 && workers > 1) {
      held[worker].clear();  // What it held is granted to others.
      job.RemoveReplica(worker, absl::ZeroDuration());
      job.AddReplica(worker, absl::ZeroDuration());
      requests[worker] = 0;
    }
    NextWorkRequest request;
    request.set_request(++requests[worker]);
    for (const BlockId& block : held[worker]) {
      const uint32_t size = block.block() == 3 ? 10 : 20;
      done += ((block.examples() == 0 ? size : block.examples()) + 4) / 5;
      *request.add_done() = block;
    }
    absl::StatusOr<NextWorkReply> reply = job.NextWork(worker, request, absl::ZeroDuration());
    EXPECT_OK(reply);
    held[worker].assign(reply->train().block().begin(), reply->train().block().end());
  }
  EXPECT_GE(job.phase(), Phase::kLeaving);
  const DownpourState& end = writer.job().downpour();
  progress->set_steps(progress->steps() + done);
  progress->set_epochs_done(end.epochs_done());
  *progress->mutable_epoch() = end.epoch();
  progress->set_blocks_done(end.blocks_done());
  progress->set_examples_done(end.examples_done());
  return done;
}

TEST(DownpourResumeTest, LeasesGrantTheStepsAskedForWhoeverTakesThem) {
  for (const uint64_t steps : {1, 3, 4, 5, 13, 14, 15, 27, 28, 29, 100}) {
    for (const uint32_t workers : {1u, 2u, 3u, 5u}) {
      DownpourProgress progress;
      EXPECT_EQ(GrantedSteps(steps, workers, false, &progress), steps) << workers;
      progress.Clear();
      EXPECT_EQ(GrantedSteps(steps, workers, true, &progress), steps) << workers;
    }
  }
}

TEST(DownpourResumeTest, AResumedJobGrantsTheStepsThatAreLeft) {
  for (const uint32_t workers : {1u, 3u}) {
    for (const uint64_t first : {1, 6, 13, 14, 15, 41}) {
      DownpourProgress progress;
      EXPECT_EQ(GrantedSteps(first, workers, false, &progress), first);
      for (const uint64_t more : {1, 7, 14, 20}) {
        const uint64_t all = progress.steps() + more;
        EXPECT_EQ(GrantedSteps(all, workers, true, &progress), more) << first;
        EXPECT_EQ(progress.steps(), all);
      }
      EXPECT_EQ(GrantedSteps(first, workers, false, &progress), 0u) << "more is done than that";
    }
  }
}

// Of epoch 1 block 1 is done, and all before it.
DownpourProgress FiveBlocksDone() {
  DownpourProgress progress;
  progress.set_steps(18);
  progress.set_epochs_done(1);
  EpochCursor* const cursor = progress.add_epoch();
  cursor->set_epoch(1);
  cursor->set_blocks(4);
  cursor->add_done()->set_first(1);
  cursor->mutable_done(0)->set_end(2);
  progress.set_blocks_done(5);
  progress.set_examples_done(90);
  return progress;
}

TEST(DownpourResumeTest, AResumedJobTrainsOnWhatIsLeft) {
  DownpourOptions options = FourBlocks(2);
  options.resumed = FiveBlocksDone();
  testing::ReplayedState state;
  const JobWriter writer = BeginResumed(options.resumed, &state);
  DownpourJob job(options, writer);
  EXPECT_EQ(job.epoch(), 90.0 / 70);
  EXPECT_EQ(job.fraction(absl::ZeroDuration()), 90.0 / 140);
  Replicas replicas(&job);
  replicas.Add(0);
  for (int i = 0; i < 10 && !replicas.Ask(0).has_finish(); ++i) {
  }
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(replicas.visits_, (std::map<BlockRef, int>{{{1, 0}, 1}, {{1, 2}, 1}, {{1, 3}, 1}}));
  EXPECT_EQ(job.epoch(), 2.0);
  EXPECT_EQ(writer.job().downpour().epochs_done(), 2u);
  EXPECT_EQ(writer.job().downpour().blocks_done(), 8u);
}

TEST(DownpourResumeTest, StepsOfAResumedJobCountFromTheVeryBeginning) {
  DownpourOptions options = FourBlocks(2);
  options.resumed = FiveBlocksDone();
  testing::ReplayedState state;
  const JobWriter writer = BeginResumed(options.resumed, &state);
  DownpourJob job(options, writer);
  job.NoteSteps(0);
  EXPECT_EQ(writer.job().downpour().steps(), 18u);
  job.NoteSteps(3);
  EXPECT_EQ(writer.job().downpour().steps(), 21u);
}

TEST(DownpourResumeTest, AResumedJobDoesNotRepeatEvaluations) {
  DownpourOptions options = FourBlocks(3);
  options.resumed = FiveBlocksDone();
  options.has_test = true;
  options.evaluate_every_epochs = 1;
  testing::ReplayedState state;
  DownpourJob job(options, BeginResumed(options.resumed, &state));
  Replicas replicas(&job);
  replicas.Add(0);
  EXPECT_FALSE(replicas.Ask(0).has_evaluate()) << "epoch 1 was passed before";
  NextWorkReply reply;
  for (int i = 0; i < 5 && !reply.has_evaluate(); ++i) {
    reply = replicas.Ask(0);
  }
  ASSERT_TRUE(reply.has_evaluate());
  EXPECT_GE(job.epoch(), 2.0);
  EXPECT_LT(job.epoch(), 3.0);
}

}  // namespace
}  // namespace monsoon
