#include "coordinator/state/coordinator_state.h"

#include <set>
#include <string>

#include "common/testing/status_matchers.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::ReplayedState;
using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StateUpdate Submitted(const std::string& id, uint64_t number) {
  StateUpdate update;
  update.set_job(id);
  update.mutable_job_submitted()->set_number(number);
  update.mutable_job_submitted()->mutable_plan()->add_shard_bytes(1);
  return update;
}

StateUpdate Stage(JobStage stage, JobState end_state = JOB_STATE_UNSPECIFIED) {
  StateUpdate update;
  update.set_job("j-1");
  update.mutable_stage_changed()->set_stage(stage);
  update.mutable_stage_changed()->set_end_state(end_state);
  update.mutable_stage_changed()->set_at_ns(7);
  return update;
}

StateUpdate Session(uint32_t worker, uint64_t incarnation, DurableSession::State state) {
  StateUpdate update;
  update.set_job("j-1");
  update.mutable_session_changed()->set_worker(worker);
  update.mutable_session_changed()->set_incarnation(incarnation);
  update.mutable_session_changed()->set_state(state);
  return update;
}

StateUpdate Done(uint32_t epoch, uint32_t block) {
  StateUpdate update;
  update.set_job("j-1");
  update.mutable_block_done()->mutable_block()->set_epoch(epoch);
  update.mutable_block_done()->mutable_block()->set_block(block);
  update.mutable_block_done()->set_worker(2);
  update.mutable_block_done()->set_examples(10);
  update.mutable_block_done()->set_epoch_blocks(5);
  return update;
}

// "0:[0,2)[3,4) 1:[4,5)": the epochs that are begun and not done.
std::string Cursors(const CoordinatorState& state) {
  std::string text;
  for (const EpochCursor& epoch : state.FindJob("j-1")->downpour().epoch()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", epoch.epoch(), ":");
    for (const EpochCursor::Run& run : epoch.done()) {
      absl::StrAppend(&text, "[", run.first(), ",", run.end(), ")");
    }
  }
  return text;
}

// A refused update changes nothing.
void ExpectRefused(ReplayedState* state, const StateUpdate& update, const std::string& why) {
  CoordinatorState copy = state->writer()->state();
  const std::string before = copy.Serialize();
  EXPECT_THAT(copy.Apply(update), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(why)));
  EXPECT_EQ(copy.Serialize(), before) << update.ShortDebugString();
}

TEST(CoordinatorStateTest, StagesFollowEachOther) {
  ReplayedState state;
  StateWriter* const writer = state.writer();
  writer->Apply(Submitted("j-1", 1));
  ExpectRefused(&state, Stage(JOB_READY), "JOB_READY cannot follow JOB_QUEUED");
  ExpectRefused(&state, Stage(JOB_ENDED), "a job ends as SUCCEEDED, FAILED or CANCELLED");
  for (const JobStage stage : {JOB_CREATING, JOB_READY, JOB_ACTIVE}) {
    writer->Apply(Stage(stage));
  }
  const DurableJob& job = *writer->state().FindJob("j-1");
  EXPECT_TRUE(job.slices_begun());
  EXPECT_TRUE(job.slices_ready());
  EXPECT_EQ(job.ready_ns(), 7);
  ExpectRefused(&state, Stage(JOB_ENDED, FAILED), "cannot follow");
  writer->Apply(Stage(JOB_ENDING, SUCCEEDED));
  EXPECT_EQ(job.ended_ns(), 7);
  // Its end is told once; the last stage keeps it.
  writer->Apply(Stage(JOB_ENDED));
  EXPECT_EQ(job.end_state(), SUCCEEDED);
  ExpectRefused(&state, Stage(JOB_ENDED, FAILED), "JOB_ENDED cannot follow JOB_ENDED");
  StateUpdate removed;
  removed.set_job("j-1");
  removed.mutable_job_removed();
  ExpectRefused(&state, removed, "JOB_ENDED, not deleting");
  writer->Apply(Stage(JOB_DELETING));
  writer->Apply(removed);
  EXPECT_EQ(writer->state().FindJob("j-1"), nullptr);
  ExpectRefused(&state, Stage(JOB_CREATING), "no job \"j-1\"");
  ExpectRefused(&state, Submitted("j-1", 1), "number was given before");
  writer->Apply(Submitted("k-2", 2));
}

TEST(CoordinatorStateTest, BackInTheQueueForgetsWhatWasBuiltOnTheSlices) {
  ReplayedState state;
  StateWriter* const writer = state.writer();
  writer->Apply(Submitted("j-1", 1));
  for (const JobStage stage : {JOB_CREATING, JOB_READY, JOB_ACTIVE}) {
    writer->Apply(Stage(stage));
  }
  StateUpdate begun;
  begun.set_job("j-1");
  begun.mutable_procedure_begun();
  writer->Apply(begun);
  writer->Apply(Session(3, 1, DurableSession::OPENING));
  writer->Apply(Stage(JOB_QUEUED));
  const DurableJob& job = *writer->state().FindJob("j-1");
  EXPECT_FALSE(job.slices_ready());
  EXPECT_TRUE(job.slices_begun());
  EXPECT_FALSE(job.has_downpour());
  EXPECT_EQ(job.session_size(), 0);
}

TEST(CoordinatorStateTest, SessionsAreInOrderOfTheWorkerAndNeverGoBack) {
  ReplayedState state;
  StateWriter* const writer = state.writer();
  writer->Apply(Submitted("j-1", 1));
  for (const uint32_t worker : {5, 1, 3}) {
    writer->Apply(Session(worker, 1, DurableSession::OPENING));
  }
  writer->Apply(Session(3, 1, DurableSession::OPEN));
  const DurableJob& job = *writer->state().FindJob("j-1");
  EXPECT_EQ(job.session(0).worker(), 1u);
  EXPECT_EQ(job.session(1).worker(), 3u);
  EXPECT_EQ(job.session(2).worker(), 5u);
  ExpectRefused(&state, Session(3, 2, DurableSession::OPENING), "has a session already");
  ExpectRefused(&state, Session(3, 2, DurableSession::CLOSING), "not what follows");
  ExpectRefused(&state, Session(3, 1, DurableSession::OPEN), "not what follows");
  ExpectRefused(&state, Session(4, 1, DurableSession::OPEN), "has no session");
  StateUpdate removed;
  removed.set_job("j-1");
  removed.mutable_session_removed()->set_worker(3);
  writer->Apply(removed);
  EXPECT_EQ(job.session_size(), 2);
  ExpectRefused(&state, removed, "has no session");
}

TEST(CoordinatorStateTest, IncarnationsGrow) {
  ReplayedState state;
  EXPECT_EQ(state.writer()->state().incarnation(4), 0u);
  StateUpdate joined;
  joined.mutable_worker_joined()->set_worker(4);
  joined.mutable_worker_joined()->set_incarnation(2);
  state.writer()->Apply(joined);
  EXPECT_EQ(state.writer()->state().incarnation(4), 2u);
  ExpectRefused(&state, joined, "has incarnation 2");
}

TEST(CoordinatorStateTest, BlocksMakeRunsAndWholeEpochsGo) {
  ReplayedState state;
  state.Begun();
  StateWriter* const writer = state.writer();
  const DownpourState& downpour = writer->state().FindJob("j-1")->downpour();
  writer->Apply(Done(1, 4));
  writer->Apply(Done(0, 1));
  writer->Apply(Done(0, 3));
  EXPECT_EQ(Cursors(writer->state()), "0:[1,2)[3,4) 1:[4,5)");
  writer->Apply(Done(0, 2));
  writer->Apply(Done(0, 0));
  EXPECT_EQ(Cursors(writer->state()), "0:[0,4) 1:[4,5)");
  EXPECT_EQ(downpour.epochs_done(), 0u);
  ExpectRefused(&state, Done(0, 2), "done already");
  ExpectRefused(&state, Done(0, 5), "no such block");
  for (const uint32_t block : {3, 0, 2, 1}) {
    writer->Apply(Done(1, block));
  }
  EXPECT_EQ(Cursors(writer->state()), "0:[0,4) 1:[0,5)");
  writer->Apply(Done(0, 4));
  EXPECT_EQ(Cursors(writer->state()), "");
  EXPECT_EQ(downpour.epochs_done(), 2u);
  ExpectRefused(&state, Done(1, 0), "done already");
  EXPECT_EQ(downpour.blocks_done(), 10u);
  EXPECT_EQ(downpour.examples_done(), 100u);
  ASSERT_EQ(downpour.done_by_size(), 1);
  EXPECT_EQ(downpour.done_by(0).blocks(), 10u);
}

TEST(CoordinatorStateTest, KeepsTheFirstAndTheLastEvents) {
  ReplayedState state;
  const JobWriter job = state.Job();
  for (int i = 0; i < kMaxEvents + 10; ++i) {
    job.Make(
        [&](StateUpdate* update) { update->mutable_event_added()->set_kind(absl::StrCat(i)); });
  }
  const DurableJob& kept = job.job();
  ASSERT_EQ(kept.event_size(), kMaxEvents);
  EXPECT_EQ(kept.event(0).kind(), "0");
  EXPECT_EQ(kept.event(kMaxEvents / 2 - 1).kind(), absl::StrCat(kMaxEvents / 2 - 1));
  EXPECT_EQ(kept.event(kMaxEvents - 1).kind(), absl::StrCat(kMaxEvents + 9));
}

TEST(CoordinatorStateTest, ExcludedWorkersRise) {
  ReplayedState state;
  const JobWriter job = state.Job();
  for (const uint32_t worker : {7, 2, 5, 2}) {
    job.Make([&](StateUpdate* update) { update->mutable_worker_excluded()->set_worker(worker); });
  }
  EXPECT_THAT(job.job().excluded(), ElementsAre(2, 5, 7));
}

TEST(CoordinatorStateTest, ASubmissionIsKnownByItsClientId) {
  ReplayedState state;
  StateUpdate update = Submitted("j-1", 1);
  update.mutable_job_submitted()->set_client_id("drawn");
  state.writer()->Apply(update);
  state.writer()->Apply(Submitted("j-2", 2));
  EXPECT_EQ(state.writer()->state().FindClient("drawn")->id(), "j-1");
  EXPECT_EQ(state.writer()->state().FindClient("other"), nullptr);
  EXPECT_EQ(state.writer()->state().FindClient(""), nullptr);
}

// A map's order is not said, so that equal states could differ in their bytes.
void ExpectNoMaps(const google::protobuf::Descriptor* message, std::set<std::string>* seen) {
  if (!seen->insert(message->full_name()).second) {
    return;
  }
  for (int i = 0; i < message->field_count(); ++i) {
    EXPECT_FALSE(message->field(i)->is_map()) << message->field(i)->full_name();
    if (message->field(i)->message_type() != nullptr) {
      ExpectNoMaps(message->field(i)->message_type(), seen);
    }
  }
}

TEST(CoordinatorStateTest, NothingStoredHasAMap) {
  std::set<std::string> seen;
  ExpectNoMaps(StateUpdate::descriptor(), &seen);
  ExpectNoMaps(CoordinatorSnapshot::descriptor(), &seen);
  EXPECT_GT(seen.size(), 40u);
}

}  // namespace
}  // namespace monsoon
