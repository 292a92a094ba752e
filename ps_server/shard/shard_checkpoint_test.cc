// What a checkpoint holds of a shard's job, and what becomes of it.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shard_fixture.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

// What a checkpoint of the job would hold.
struct Cut {
  Vector parameters = Vector(kFloats), state = Vector(kFloats);
  std::vector<StripeRecord> stripes;
};

Cut CutOf(const ShardJob& job) {
  Cut cut;
  for (uint32_t stripe = 0; stripe < job.stripes().count(); ++stripe) {
    cut.stripes.push_back(job.checkpoint().CutStripe(
        stripe, std::span(cut.parameters).subspan(stripe * kStripe, kStripe),
        std::span(cut.state).subspan(stripe * kStripe, kStripe)));
  }
  return cut;
}

TEST_F(ShardTest, ACutHoldsFloatsStateVersionsAndWindows) {
  ASSERT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  ASSERT_EQ(PushOne(MakePush(1, 2), Vector(kStripe, -4.0f)).verdict(), APPLIED);
  Vector bad(kStripe, 1.0f);
  bad[5] = std::numeric_limits<float>::infinity();
  ASSERT_EQ(PushOne(MakePush(1, 3), bad).verdict(), REFUSED_INVALID);
  ASSERT_EQ(PushOne(MakePush(2, 1), Vector(kStripe, 1.0f)).verdict(), APPLIED);
  const auto job = shard_.FindJob("job-1");
  const Cut cut = CutOf(*job);
  EXPECT_EQ(cut.parameters, Parameters());
  for (size_t i = 0; i < kStripe; ++i) {
    EXPECT_EQ(cut.state[i], 0.0f);
    EXPECT_EQ(cut.state[kStripe + i], 25.0f);  // 9 + 16
    EXPECT_EQ(cut.state[2 * kStripe + i], 1.0f);
  }
  ASSERT_EQ(cut.stripes.size(), kStripes);
  EXPECT_EQ(cut.stripes[0].version(), 0u);
  EXPECT_EQ(cut.stripes[1].version(), 2u);
  ASSERT_EQ(cut.stripes[1].session_size(), 1);
  const SessionWindowRecord& window = cut.stripes[1].session(0);
  EXPECT_EQ(window.worker(), 1u);
  EXPECT_EQ(window.incarnation(), 1u);
  EXPECT_EQ(window.last(), 3u);
  EXPECT_EQ(window.applied(), 2u);
  ASSERT_EQ(window.refusal_size(), 1);
  EXPECT_EQ(window.refusal(0).sequence(), 3u);
  EXPECT_THAT(window.refusal(0).message(), HasSubstr("inf"));

  ASSERT_OK(shard_.CloseSession(session_));
  const ShardCheckpoint whole = job->checkpoint()->Cut();
  EXPECT_EQ(whole.create().SerializeAsString(), job->request().SerializeAsString());
  EXPECT_EQ(whole.shard_epoch(), kEpoch);
  EXPECT_EQ(whole.state_slots(), 1u);
  EXPECT_EQ(whole.applied(), 3u);
  EXPECT_EQ(whole.refused(), 1u);
  ASSERT_EQ(whole.closed_size(), 1);
  EXPECT_EQ(whole.closed(0).worker(), 1u);
  EXPECT_EQ(whole.closed(0).applied(), 3u);
  EXPECT_EQ(CutOf(*job).stripes[1].session_size(), 0);
}

// Writes all of `values` to the new job "job-2".
absl::Status WriteAll(Shard* shard, CreateShardJobRequest create, uint32_t slot,
                      const Vector& values, const std::vector<StripeRecord>& stripes) {
  WriteRequest request;
  request.set_job(create.job());
  request.set_layout_hash(create.layout_hash());
  request.set_slot(slot);
  request.set_set_version(true);
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    FetchRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_version(stripes[stripe].version());
    record->set_length(kStripe * sizeof(float));
  }
  const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(values))};
  ChunkCursor cursor(chunks);
  AlignedFloats scratch(kMaxFramePayloadBytes / sizeof(float));
  return shard->Write(request, &cursor, &scratch).status();
}

TEST_F(ShardTest, WrittenStateAndVersionsGoOnAsTheJobTheyCameFrom) {
  ASSERT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  const Cut cut = CutOf(*shard_.FindJob("job-1"));
  CreateShardJobRequest copy = request_;
  copy.set_job("job-2");
  copy.set_written_by_client(true);
  ASSERT_OK(shard_.CreateJob(copy));
  ASSERT_OK(WriteAll(&shard_, copy, 0, cut.parameters, cut.stripes));
  ASSERT_OK(WriteAll(&shard_, copy, 1, cut.state, cut.stripes));
  EXPECT_EQ(Snapshot("job-2"), Snapshot());
  EXPECT_EQ(CutOf(*shard_.FindJob("job-2")).stripes[1].version(), 1u);
  // A version never goes back.
  std::vector<StripeRecord> older(kStripes);
  ASSERT_OK(WriteAll(&shard_, copy, 0, cut.parameters, older));
  EXPECT_EQ(CutOf(*shard_.FindJob("job-2")).stripes[1].version(), 1u);
  // The next push does the same to both.
  session_.set_job("job-2");
  ASSERT_OK(shard_.OpenSession(session_));
  EXPECT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 2.0f)).version(), 2u);
  session_.set_job("job-1");
  EXPECT_EQ(PushOne(MakePush(1, 2), Vector(kStripe, 2.0f)).version(), 2u);
  EXPECT_EQ(Snapshot("job-2"), Snapshot());
}

TEST_F(ShardTest, BothSlotsOfAdamAreWrittenCutAndRestored) {
  CreateShardJobRequest first = request_;
  first.set_job("job-2");
  first.mutable_optimizer()->mutable_adam()->set_rate(0.5);
  ASSERT_OK(shard_.CreateJob(first));
  session_.set_job("job-2");
  ASSERT_OK(shard_.OpenSession(session_));
  ASSERT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  // Slot after slot in each stripe: m = 0.1 * 3, v = 0.001 * 9.
  Vector parameters(kStripe), state(2 * kStripe);
  const StripeRecord cut = shard_.FindJob("job-2")->checkpoint()->CutStripe(1, parameters, state);
  EXPECT_FLOAT_EQ(state[0], 0.3f);
  EXPECT_FLOAT_EQ(state[kStripe], 0.009f);
  CreateShardJobRequest copy = first;
  copy.set_job("job-3");
  copy.set_written_by_client(true);
  ASSERT_OK(shard_.CreateJob(copy));
  std::vector<StripeRecord> stripes(kStripes);
  stripes[1].set_version(cut.version());
  Vector all(kFloats), slot[2] = {Vector(kFloats), Vector(kFloats)};
  AlignedFloats out(kFloats);
  ASSERT_OK(shard_.FindJob("job-2")->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr,
                                                            FLOAT32, &out));
  std::ranges::copy(out.span(), all.begin());
  for (size_t i = 0; i < 2; ++i) {
    std::copy_n(state.begin() + static_cast<ptrdiff_t>(i * kStripe), kStripe,
                slot[i].begin() + kStripe);
  }
  ASSERT_OK(WriteAll(&shard_, copy, 0, all, stripes));
  ASSERT_OK(WriteAll(&shard_, copy, 1, slot[0], stripes));
  ASSERT_OK(WriteAll(&shard_, copy, 2, slot[1], stripes));
  EXPECT_THAT(WriteAll(&shard_, copy, 3, all, stripes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slot 3")));
  EXPECT_EQ(Snapshot("job-3"), Snapshot("job-2"));
  EXPECT_FLOAT_EQ(shard_.FindJob("job-3")->checkpoint()->RestoredState(1, kStripe + 5)[0], 0.009f);
}

TEST_F(ShardTest, RefusesStateThatTheOptimizerDoesNotHave) {
  CreateShardJobRequest copy = request_;
  copy.set_job("job-2");
  copy.set_written_by_client(true);
  copy.mutable_optimizer()->mutable_sgd()->set_rate(1);
  ASSERT_OK(shard_.CreateJob(copy));
  const std::string before = Snapshot("job-2");
  EXPECT_THAT(
      WriteAll(&shard_, copy, 1, Vector(kFloats, 1.0f), std::vector<StripeRecord>(kStripes)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slot 1")));
  EXPECT_EQ(Snapshot("job-2"), before);
}

MarksRequest MarksOf(const SessionKey& session, uint64_t layout_hash, uint32_t first,
                     uint32_t count) {
  MarksRequest request;
  *request.mutable_session() = session;
  request.set_layout_hash(layout_hash);
  request.set_first_stripe(first);
  request.set_stripe_count(count);
  return request;
}

// What the older of two generations holds is durable; there is none before there are
// two.
TEST_F(ShardTest, MarksTellWhatIsAppliedWrittenAndDurable) {
  const auto job = shard_.FindJob("job-1");
  const auto marks = [&] {
    std::vector<std::vector<uint64_t>> all;
    const auto reply = shard_.Marks(MarksOf(session_, request_.layout_hash(), 0, kStripes));
    EXPECT_OK(reply);
    EXPECT_EQ(reply->shard_epoch(), kEpoch);
    for (const StripeMarks& stripe : reply->stripe()) {
      all.push_back({stripe.applied(), stripe.written(), stripe.durable()});
    }
    return all;
  };
  EXPECT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 1.0f)).durable_sequence(), 0u);
  EXPECT_EQ(marks()[1], (std::vector<uint64_t>{1, 0, 0}));
  const Cut first = CutOf(*job);
  PushOne(MakePush(1, 2), Vector(kStripe, 1.0f));
  job->checkpoint()->NoteWritten(1, first.stripes);
  EXPECT_EQ(marks()[1], (std::vector<uint64_t>{2, 1, 0}));
  const Cut second = CutOf(*job);
  PushOne(MakePush(1, 3), Vector(kStripe, 1.0f));
  job->checkpoint()->NoteWritten(2, second.stripes);
  EXPECT_EQ(marks()[1], (std::vector<uint64_t>{3, 2, 1}));
  EXPECT_EQ(marks()[0], (std::vector<uint64_t>{0, 0, 0}));
  EXPECT_EQ(PushOne(MakePush(1, 4), Vector(kStripe, 1.0f)).durable_sequence(), 1u);
  // A session that the newest generation does not know has nothing there.
  session_.set_worker(2);
  ASSERT_OK(shard_.OpenSession(session_));
  PushOne(MakePush(1, 1), Vector(kStripe, 1.0f));
  job->checkpoint()->NoteWritten(2, second.stripes);
  EXPECT_EQ(marks()[1], (std::vector<uint64_t>{1, 0, 0}));
}

TEST_F(ShardTest, MarksAreOfOpenSessionsAndStripesThatAreThere) {
  const uint64_t hash = request_.layout_hash();
  EXPECT_THAT(shard_.Marks(MarksOf(session_, hash, 3, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stripes 3 .. 5 of 4")));
  EXPECT_THAT(shard_.Marks(MarksOf(session_, hash, UINT32_MAX, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(shard_.Marks(MarksOf(session_, hash, 0, 1025)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1024")));
  EXPECT_THAT(shard_.Marks(MarksOf(session_, hash + 1, 0, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layout")));
  ASSERT_OK(shard_.CloseSession(session_));
  EXPECT_THAT(shard_.Marks(MarksOf(session_, hash, 0, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not open")));
  session_.set_job("job-9");
  EXPECT_THAT(shard_.Marks(MarksOf(session_, hash, 0, 1)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-9")));
}

TEST_F(ShardTest, ACheckpointIsFencedAndNamesItsJob) {
  CheckpointRequest order;
  order.set_job("job-1");
  order.set_generation(1);
  order.set_term(5);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<ShardJob> job, shard_.StartCheckpoint(order));
  EXPECT_EQ(job, shard_.FindJob("job-1"));
  order.set_term(4);
  EXPECT_THAT(shard_.StartCheckpoint(order),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("obeys the coordinator of term 5")));
  order.set_term(5);
  order.set_generation(0);
  EXPECT_THAT(shard_.StartCheckpoint(order), StatusIs(absl::StatusCode::kInvalidArgument, _));
  order.set_generation(2);
  order.set_job("job-9");
  EXPECT_THAT(shard_.StartCheckpoint(order),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-9")));
}

// The part that these would make.
ShardCheckpoint ContentOf(const ShardJob& job, const Cut& cut) {
  ShardCheckpoint content = job.checkpoint().Cut();
  content.set_generation(6);
  for (const StripeRecord& stripe : cut.stripes) {
    *content.add_stripe() = stripe;
  }
  return content;
}

// Makes the job on `next` from it, as a reader of parts does.
absl::Status RestoreTo(Shard* next, const ShardCheckpoint& content, const Cut& cut,
                       const std::vector<SessionKey>& sessions,
                       const ShardCheckpoint* older = nullptr) {
  RestoreShardJobRequest request;
  *request.mutable_create() = content.create();
  for (const SessionKey& session : sessions) {
    *request.add_session() = session;
  }
  const auto restore = [&](const std::shared_ptr<ShardJob>& job, std::span<const SessionId> open,
                           absl::FunctionRef<bool()>) {
    for (size_t at = 0; at < kFloats; at += kStripe) {
      std::ranges::copy(std::span(cut.parameters).subspan(at, kStripe),
                        job->checkpoint()->RestoredParameters(at).begin());
      std::ranges::copy(std::span(cut.state).subspan(at, kStripe),
                        job->checkpoint()->RestoredState(0, at).begin());
    }
    return job->checkpoint()->Restore(content, older, open);
  };
  return next->RestoreJob(request, restore).status();
}

TEST_F(ShardTest, ARestoredJobGoesOnWhereItWasCut) {
  ASSERT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  Vector bad(kStripe, 1.0f);
  bad[5] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_EQ(PushOne(MakePush(1, 2), bad).verdict(), REFUSED_INVALID);
  SessionKey closed = session_;
  closed.set_worker(2);
  closed.set_incarnation(4);
  ASSERT_OK(shard_.OpenSession(closed));
  ASSERT_OK(shard_.CloseSession(closed));
  const auto job = shard_.FindJob("job-1");
  const Cut cut = CutOf(*job);
  const ShardCheckpoint content = ContentOf(*job, cut);
  const std::string before = Snapshot();
  const ShardJobStatus status = Status();
  // What comes after the cut is lost with this life.
  ASSERT_EQ(PushOne(MakePush(1, 3), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  ASSERT_EQ(PushOne(MakePush(2, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);

  constexpr uint64_t kNextEpoch = kEpoch + 1;
  Shard next({"test", 2, kNextEpoch, 1 << 20});
  ASSERT_OK(RestoreTo(&next, content, cut, {session_, closed}));
  const auto restored = next.FindJob("job-1");
  EXPECT_EQ(restored->stripes()->Snapshot(), before);
  const ShardJobStatus again = next.GetStatus({})->job(0);
  EXPECT_EQ(again.applied(), status.applied());
  EXPECT_EQ(again.refused(), status.refused());
  EXPECT_EQ(again.version_max(), 1u);
  EXPECT_EQ(again.staleness_unknown(), status.staleness_unknown());

  ASSERT_OK_AND_ASSIGN(const MarksReply marks,
                       next.Marks(MarksOf(session_, request_.layout_hash(), 0, kStripes)));
  EXPECT_EQ(marks.shard_epoch(), kNextEpoch);
  EXPECT_EQ(marks.parent_epoch(), kEpoch);
  EXPECT_EQ(marks.parent_generation(), 6u);
  EXPECT_EQ(marks.stripe(1).applied(), 2u);
  EXPECT_EQ(marks.stripe(1).written(), 2u);
  EXPECT_EQ(marks.stripe(1).durable(), 0u);
  EXPECT_EQ(marks.stripe(2).applied(), 0u);

  const auto push = [&](uint32_t stripe, uint64_t sequence, uint64_t epoch, const Vector& content) {
    PushRequest request = MakePush(stripe, sequence);
    request.mutable_record(0)->set_shard_epoch(epoch);
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(content))};
    ChunkCursor cursor(chunks);
    return next.Push(request, &cursor, &scratch_)->verdict(0);
  };
  const Vector ones(kStripe, 3.0f);
  EXPECT_EQ(push(1, 3, kEpoch, ones).verdict(), REFUSED_EPOCH);
  EXPECT_EQ(push(1, 1, kNextEpoch, ones).verdict(), DUPLICATE);
  EXPECT_EQ(push(1, 2, kNextEpoch, ones).verdict(), REFUSED_INVALID);  // as the first time
  EXPECT_EQ(push(1, 4, kNextEpoch, ones).verdict(), REFUSED_GAP);
  EXPECT_EQ(push(1, 3, kNextEpoch, ones).verdict(), APPLIED);
  EXPECT_EQ(push(2, 1, kNextEpoch, ones).verdict(), APPLIED);
  // The same bits as the life that did not end.
  EXPECT_EQ(restored->stripes()->Snapshot(), Snapshot());
  EXPECT_THAT(next.OpenSession(closed), StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

TEST_F(ShardTest, ASessionClosedWhileTheStripesWereCutStaysClosed) {
  ASSERT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  const auto job = shard_.FindJob("job-1");
  const Cut cut = CutOf(*job);
  ASSERT_OK(shard_.CloseSession(session_));
  Shard next({"test", 2, kEpoch + 1, 1 << 20});
  ASSERT_OK(RestoreTo(&next, ContentOf(*job, cut), cut, {session_}));
  EXPECT_THAT(next.Marks(MarksOf(session_, request_.layout_hash(), 0, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not open")));
  EXPECT_THAT(next.OpenSession(session_), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_EQ(next.CloseSession(session_)->applied(), 1u);
}

TEST_F(ShardTest, WhatDoesNotFitTheJobIsNotRestored) {
  const auto job = shard_.FindJob("job-1");
  const Cut cut = CutOf(*job);
  const ShardCheckpoint content = ContentOf(*job, cut);
  const auto restore = [&](const ShardCheckpoint& changed, const ShardCheckpoint* older) {
    Shard next({"test", 2, kEpoch + 1, 1 << 20});
    const absl::Status status = RestoreTo(&next, changed, cut, {session_}, older);
    EXPECT_EQ(next.FindJob("job-1"), nullptr);
    EXPECT_EQ(next.GetStatus({})->memory_used_bytes(), 0u);
    return status;
  };
  ShardCheckpoint stateless = content;
  stateless.set_state_slots(0);
  EXPECT_THAT(restore(stateless, nullptr), StatusIs(absl::StatusCode::kDataLoss, _));
  ShardCheckpoint fewer = content;
  fewer.mutable_stripe()->RemoveLast();
  EXPECT_THAT(restore(fewer, nullptr),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("generation 6 holds 3 stripes")));
  EXPECT_THAT(restore(content, &fewer),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("generation 6 holds 3 stripes")));
}

// What the request does not name is closed before anybody has the job, and what the part
// has not is opened.
TEST_F(ShardTest, ARestoredJobHasTheSessionsOfTheRequest) {
  ASSERT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  ASSERT_EQ(PushOne(MakePush(2, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  const auto job = shard_.FindJob("job-1");
  const Cut cut = CutOf(*job);
  Shard next({"test", 2, kEpoch + 1, 1 << 20});
  SessionKey later = session_;
  later.set_incarnation(3);
  SessionKey other = session_;
  other.set_worker(7);
  ASSERT_OK(RestoreTo(&next, ContentOf(*job, cut), cut, {later, session_, other}));
  const auto marks = [&](const SessionKey& session) {
    return next.Marks(MarksOf(session, request_.layout_hash(), 1, 1));
  };
  EXPECT_THAT(marks(session_), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_EQ(next.CloseSession(session_)->applied(), 2u);
  EXPECT_THAT(next.OpenSession(session_), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  for (const SessionKey& opened : {later, other}) {
    ASSERT_OK_AND_ASSIGN(const MarksReply reply, marks(opened));
    EXPECT_EQ(reply.stripe(0).applied(), 0u);
    EXPECT_TRUE(next.OpenSession(opened)->resumed());
  }
}

// Also when none of its sessions is open any more.
TEST_F(ShardTest, ARestoredJobIsNotWrittenAnyMore) {
  ASSERT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  const auto job = shard_.FindJob("job-1");
  const Cut cut = CutOf(*job);
  Shard next({"test", 2, kEpoch + 1, 1 << 20});
  ASSERT_OK(RestoreTo(&next, ContentOf(*job, cut), cut, {}));
  EXPECT_THAT(WriteAll(&next, request_, 0, cut.parameters, cut.stripes),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has had a session")));
}

// What the older of the two parts holds is durable, whatever it is that came between.
TEST_F(ShardTest, WhatTheOlderPartHoldsIsDurableAfterARestore) {
  const auto job = shard_.FindJob("job-1");
  const auto push = [&](uint64_t sequence) {
    ASSERT_EQ(PushOne(MakePush(1, sequence), Vector(kStripe, 3.0f)).verdict(), APPLIED);
  };
  push(1);
  push(2);
  const ShardCheckpoint older = ContentOf(*job, CutOf(*job));
  push(3);
  const Cut cut = CutOf(*job);
  const ShardCheckpoint newest = ContentOf(*job, cut);
  push(4);
  const ShardCheckpoint beyond = ContentOf(*job, CutOf(*job));
  const auto durable = [&](const ShardCheckpoint* before) {
    Shard next({"test", 2, kEpoch + 1, 1 << 20});
    EXPECT_OK(RestoreTo(&next, newest, cut, {session_}, before));
    const auto reply = next.Marks(MarksOf(session_, request_.layout_hash(), 0, kStripes));
    EXPECT_OK(reply);
    EXPECT_EQ(reply->stripe(0).durable(), 0u);
    EXPECT_EQ(reply->stripe(1).applied(), 3u);
    EXPECT_EQ(reply->stripe(1).written(), 3u);
    return reply->stripe(1).durable();
  };
  EXPECT_EQ(durable(nullptr), 0u);
  EXPECT_EQ(durable(&older), 2u);
  EXPECT_EQ(durable(&beyond), 3u);
}

TEST_F(ShardTest, ARequestToRestoreIsCheckedFirst) {
  RestoreShardJobRequest request;
  *request.mutable_create() = request_;
  request.mutable_create()->set_job("job-2");
  int restored = 0;
  const auto restore = [&](const std::shared_ptr<ShardJob>& job, std::span<const SessionId>,
                           absl::FunctionRef<bool()> go_on) {
    ++restored;
    return job->stripes()->Initialize(go_on);
  };
  SessionKey session = session_;
  *request.add_session() = session;
  EXPECT_THAT(
      shard_.RestoreJob(request, restore),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a session of job \"job-1\"")));
  request.clear_session();
  session.set_job("job-2");
  session.set_job_term(9);
  *request.add_session() = session;
  EXPECT_THAT(shard_.RestoreJob(request, restore),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of term 9")));
  session.clear_job_term();
  for (int i = 0; i <= kMaxRestoredSessions; ++i) {
    *request.add_session() = session;
  }
  EXPECT_THAT(shard_.RestoreJob(request, restore),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sessions to restore")));
  request.clear_session();
  request.mutable_create()->set_layout_hash(1);
  EXPECT_THAT(shard_.RestoreJob(request, restore),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layout")));
  request.mutable_create()->set_layout_hash(request_.layout_hash());
  EXPECT_EQ(restored, 0);
  request.mutable_create()->set_term(8);
  ASSERT_OK(shard_.RestoreJob(request, restore));
  EXPECT_EQ(restored, 1);
  // As CreateJob would have made it; and once.
  ASSERT_OK_AND_ASSIGN(const auto again, shard_.RestoreJob(request, restore));
  EXPECT_EQ(restored, 1);
  EXPECT_EQ(again, shard_.FindJob("job-2"));
  request.mutable_create()->set_seed(request_.seed() + 1);
  EXPECT_THAT(shard_.RestoreJob(request, restore), StatusIs(absl::StatusCode::kAlreadyExists, _));
  request.mutable_create()->set_term(7);
  EXPECT_THAT(shard_.RestoreJob(request, restore),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("term 8")));
}

}  // namespace
}  // namespace monsoon
