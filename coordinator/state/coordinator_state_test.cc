#include "coordinator/state/coordinator_state.h"

#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
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

StateUpdate Ordered(uint64_t generation, int64_t at_ns, bool at_end = false) {
  StateUpdate update;
  update.set_job("j-1");
  CheckpointOrdered* const order = update.mutable_checkpoint_ordered();
  order->set_generation(generation);
  order->set_at_ns(at_ns);
  order->set_at_end(at_end);
  order->mutable_context()->set_reason("every 10 s");
  order->mutable_context()->mutable_downpour()->set_steps(generation);
  return update;
}

StateUpdate Held(uint64_t generation, int64_t at_ns) {
  StateUpdate update;
  update.set_job("j-1");
  update.mutable_checkpoint_held()->set_generation(generation);
  update.mutable_checkpoint_held()->set_at_ns(at_ns);
  return update;
}

StateUpdate Requested(uint64_t generation) {
  StateUpdate update;
  update.set_job("j-1");
  update.mutable_checkpoint_requested()->set_generation(generation);
  return update;
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

TEST(CoordinatorStateTest, ASessionDoesNotChangeHands) {
  ReplayedState state;
  state.writer()->Apply(Submitted("j-1", 1));
  const auto session = [](DurableSession::State stands, const std::string& name, char key) {
    StateUpdate update = Session(3, 1, stands);
    MemberIdentity* const member = update.mutable_session_changed()->mutable_member();
    member->set_identity("monsoon://c/worker/" + name);
    member->set_key(std::string(32, key));
    return update;
  };
  state.writer()->Apply(session(DurableSession::OPENING, "3", 'a'));
  ExpectRefused(&state, session(DurableSession::OPEN, "4", 'a'), "not what follows");
  ExpectRefused(&state, session(DurableSession::OPEN, "3", 'b'), "not what follows");
  ExpectRefused(&state, Session(3, 1, DurableSession::OPEN), "not what follows");
  state.writer()->Apply(session(DurableSession::OPEN, "3", 'a'));
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

TEST(CoordinatorStateTest, OneGenerationIsUnderWayAtATime) {
  ReplayedState state;
  StateWriter* const writer = state.writer();
  writer->Apply(Submitted("j-1", 1));
  ExpectRefused(&state, Ordered(0, 5), "generation 0 was given out");
  ExpectRefused(&state, Held(0, 5), "not the generation that is under way");
  writer->Apply(Ordered(3, 5));
  const CheckpointState& checkpoint = writer->state().FindJob("j-1")->checkpoint();
  EXPECT_EQ(checkpoint.last(), 3u);
  EXPECT_EQ(checkpoint.ordered(), 3u);
  EXPECT_EQ(checkpoint.held(), 0u);
  EXPECT_EQ(checkpoint.context().downpour().steps(), 3u);
  ExpectRefused(&state, Ordered(4, 6), "generation 3 is under way");
  ExpectRefused(&state, Held(2, 6), "not the generation that is under way");
  writer->Apply(Held(3, 9));
  EXPECT_EQ(checkpoint.ordered(), 0u);
  EXPECT_EQ(checkpoint.held(), 3u);
  EXPECT_EQ(checkpoint.held_ordered_ns(), 5);
  EXPECT_EQ(checkpoint.held_ns(), 9);
  ExpectRefused(&state, Held(3, 10), "not the generation that is under way");
  ExpectRefused(&state, Ordered(3, 10), "generation 3 was given out");
  writer->Apply(Requested(4));
  ExpectRefused(&state, Requested(4), "it was asked for before");
  writer->Apply(Ordered(4, 11, /*at_end=*/true));
  EXPECT_TRUE(checkpoint.at_end());
  EXPECT_EQ(checkpoint.held(), 3u);
  EXPECT_EQ(checkpoint.requested(), 4u);
}

TEST(CoordinatorStateTest, GenerationsAreNeverGivenTwice) {
  ReplayedState state;
  StateWriter* const writer = state.writer();
  writer->Apply(Submitted("j-1", 1));
  for (const JobStage stage : {JOB_CREATING, JOB_READY, JOB_ACTIVE}) {
    writer->Apply(Stage(stage));
  }
  writer->Apply(Ordered(1, 5));
  writer->Apply(Held(1, 6));
  writer->Apply(Requested(2));
  writer->Apply(Ordered(2, 7));
  writer->Apply(Stage(JOB_QUEUED));
  const CheckpointState& checkpoint = writer->state().FindJob("j-1")->checkpoint();
  EXPECT_EQ(checkpoint.ordered(), 0u);
  EXPECT_EQ(checkpoint.held(), 0u);
  EXPECT_FALSE(checkpoint.has_context());
  EXPECT_EQ(checkpoint.last(), 2u);
  EXPECT_EQ(checkpoint.requested(), 2u);
  ExpectRefused(&state, Held(2, 8), "not the generation that is under way");
  ExpectRefused(&state, Ordered(2, 8), "generation 2 was given out");
  writer->Apply(Ordered(3, 8));
}

TEST(CoordinatorStateTest, AResumedJobBeginsWithWhatWasDone) {
  ReplayedState state;
  StateUpdate submitted = Submitted("j-1", 1);
  submitted.mutable_job_submitted()->mutable_resume()->set_source_job("i-7");
  submitted.mutable_job_submitted()->mutable_resume()->set_generation(4);
  state.writer()->Apply(submitted);
  EXPECT_EQ(state.writer()->state().FindJob("j-1")->resume().source_job(), "i-7");
  StateUpdate begun;
  begun.set_job("j-1");
  DownpourProgress* const resumed = begun.mutable_procedure_begun()->mutable_resumed();
  resumed->set_steps(100);
  resumed->set_epochs_done(2);
  resumed->set_blocks_done(11);
  resumed->set_examples_done(110);
  EpochCursor* const cursor = resumed->add_epoch();
  cursor->set_epoch(2);
  cursor->set_blocks(5);
  cursor->add_done()->set_first(1);
  cursor->mutable_done(0)->set_end(2);
  state.writer()->Apply(begun);
  EXPECT_EQ(Cursors(state.writer()->state()), "2:[1,2)");
  ExpectRefused(&state, Done(1, 3), "done already");
  ExpectRefused(&state, Done(2, 1), "done already");
  for (const uint32_t block : {0u, 2u, 3u, 4u}) {
    state.writer()->Apply(Done(2, block));
  }
  const DownpourState& downpour = state.writer()->state().FindJob("j-1")->downpour();
  EXPECT_EQ(downpour.epochs_done(), 3u);
  EXPECT_EQ(downpour.blocks_done(), 15u);
  EXPECT_EQ(downpour.examples_done(), 150u);
  EXPECT_EQ(downpour.steps(), 100u);
}

StateUpdate Lost(uint32_t shard, uint32_t worker, uint64_t from, std::optional<uint64_t> to) {
  StateUpdate update;
  update.set_job("j-1");
  LostPushes* const lost = update.mutable_pushes_lost();
  lost->set_shard(shard);
  lost->set_worker(worker);
  lost->set_incarnation(1);
  lost->set_from(from);
  lost->set_records(10);
  if (to) {
    lost->set_to(*to);
  } else {
    lost->set_to_at_least(15);
  }
  return update;
}

TEST(CoordinatorStateTest, WhatIsLostIsKeptOnceForEachSessionAndShard) {
  ReplayedState state;
  state.writer()->Apply(Submitted("j-1", 1));
  state.writer()->Apply(Lost(0, 2, 13, 20));
  state.writer()->Apply(Lost(0, 3, 1, 2));
  state.writer()->Apply(Lost(0, 2, 11, 20));
  const DurableJob& job = *state.writer()->state().FindJob("j-1");
  ASSERT_EQ(job.lost_size(), 2);
  EXPECT_EQ(job.lost(0).from(), 11u);
  EXPECT_EQ(job.lost(0).to(), 20u);
  EXPECT_EQ(job.lost(0).records(), 10u);
  StateUpdate rows = Lost(0, 2, 12, 20);
  rows.mutable_pushes_lost()->set_records(3);
  rows.mutable_pushes_lost()->set_row_pushes(9);
  state.writer()->Apply(rows);
  EXPECT_EQ(job.lost(0).records(), 10u);
  EXPECT_EQ(job.lost(0).row_pushes(), 9u);
  state.writer()->Apply(Lost(0, 2, 12, std::nullopt));
  EXPECT_EQ(job.lost(0).row_pushes(), 9u);
  EXPECT_EQ(job.lost(0).from(), 11u);
  EXPECT_FALSE(job.lost(0).has_to());
  EXPECT_EQ(job.lost(0).to_at_least(), 20u);
  ExpectRefused(&state, Lost(1, 2, 1, 2), "no such shard");
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

TEST(CoordinatorStateTest, FiguresOfEqualSessionsHaveEqualBytes) {
  std::set<std::string> bytes;
  for (const bool rising : {true, false}) {
    ReplayedState state;
    const JobWriter job = state.Job();
    for (uint64_t i = 0; i < 100; ++i) {
      job.Make([&](StateUpdate* update) {
        update->mutable_session_counted()->set_worker(1);
        (*update->mutable_session_counted()
              ->mutable_stats()
              ->mutable_staleness())[rising ? i : 99 - i] = 1;
      });
    }
    bytes.insert(state.writer()->state().Serialize());
  }
  EXPECT_EQ(bytes.size(), 1u);
}

TEST(CoordinatorStateTest, BlocksAreHeldFromTheAnswerUntilTheyAreDone) {
  ReplayedState state;
  const ProcedureWriter procedure = state.Begun();
  procedure.Make([](StateUpdate* update) { update->mutable_replica_added()->set_worker(2); });
  for (uint32_t block = 0; block < 3; ++block) {
    procedure.Make([&](StateUpdate* update) {
      update->mutable_replica_told()->set_worker(2);
      BlockId* const id =
          update->mutable_replica_told()->mutable_last_reply()->mutable_train()->add_block();
      id->set_epoch(0);
      id->set_block(block);
    });
  }
  state.writer()->Apply(Done(0, 1));
  const auto& held = procedure.state().replica(0).held();
  ASSERT_EQ(held.size(), 2);
  EXPECT_EQ(held[0].block(), 0u);
  EXPECT_EQ(held[1].block(), 2u);
}

TEST(CoordinatorStateTest, WhatPromisesNothingMayLag) {
  StateUpdate told;
  NextWorkReply* const reply = told.mutable_replica_told()->mutable_last_reply();
  reply->mutable_wait();
  EXPECT_TRUE(MayLag(told));
  reply->mutable_train();
  EXPECT_FALSE(MayLag(told));
  reply->mutable_finish();
  EXPECT_FALSE(MayLag(told));
  EXPECT_FALSE(MayLag(Done(0, 0)));
  EXPECT_FALSE(MayLag(Stage(JOB_ENDED)));
  EXPECT_FALSE(MayLag(Session(0, 1, DurableSession::OPEN)));
  StateUpdate steps;
  steps.mutable_steps_counted();
  EXPECT_TRUE(MayLag(steps));
}

TEST(CoordinatorStateTest, NothingStoredHasAMap) {
  // But for these, whose keys Serialize writes in rising order.
  std::set<std::string> seen = {ReplicaStats::descriptor()->full_name()};
  ExpectNoMaps(StateUpdate::descriptor(), &seen);
  ExpectNoMaps(CoordinatorSnapshot::descriptor(), &seen);
  EXPECT_GT(seen.size(), 40u);
}

TEST(CoordinatorStateTest, RemembersTheNewestLives) {
  CoordinatorState state;
  StateUpdate update;
  for (uint64_t life = 1; life <= kMaxLives + 3; ++life) {
    update.mutable_life_begun()->set_term(10 * life);
    update.mutable_life_begun()->set_begin(life);
    ASSERT_OK(state.Apply(update));
  }
  EXPECT_THAT(state.Apply(update), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("the life of term 2590 does not come")));
  ASSERT_EQ(state.snapshot().life_size(), kMaxLives);
  EXPECT_EQ(state.snapshot().life(0).begin(), 4u);
  EXPECT_EQ(state.snapshot().life().rbegin()->term(), 2590u);
}

}  // namespace
}  // namespace monsoon
