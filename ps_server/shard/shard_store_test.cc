// Slices that only store: the workers have the optimizer, and write what comes of their steps.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/testing/status_matchers.h"
#include "common/transport/shm/shared_slice.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/shard_store_fixture.h"
#include "ps_server/shard/spare_room.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

auto Refused(const std::string& a, const std::string& b = "") {
  return StatusIs(absl::StatusCode::kFailedPrecondition,
                  AllOf(HasSubstr("job job-1"), HasSubstr(a), HasSubstr(b)));
}
auto Invalid(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

TEST_F(ShardStoreTest, TakesNoPushes) {
  const std::string before = Snapshot();
  PushVerdict verdict = PushOne(MakePush(1, 1), Vector(kStripe, 1.0f));
  EXPECT_EQ(verdict.verdict(), REFUSED_REQUEST);
  EXPECT_THAT(verdict.message(), HasSubstr("the job's shards only store"));
  EXPECT_EQ(verdict.version(), 0u);
  Vector bad(kStripe, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(PushOne(MakePush(1, 1), bad).verdict(), REFUSED_REQUEST) << "nothing is consumed";
  ContributeRequest contribute;
  *contribute.mutable_session() = session_;
  contribute.set_layout_hash(request_.layout_hash());
  contribute.set_evaluation(1);
  ContributeRecord* const record = contribute.add_record();
  record->set_shard_epoch(kEpoch);
  record->set_length(kStripe * sizeof(float));
  const Vector gradient(kStripe);
  const ByteChunk chunk = std::as_bytes(std::span(gradient));
  ChunkCursor cursor({&chunk, 1});
  ASSERT_OK_AND_ASSIGN(const PushReply reply, shard_.Contribute(contribute, &cursor, &scratch_));
  EXPECT_EQ(reply.verdict(0).verdict(), REFUSED_REQUEST);
  EXPECT_THAT(reply.verdict(0).message(), HasSubstr("the job's shards only store"));
  EXPECT_EQ(Snapshot(), before);
  EXPECT_EQ(Status().applied(), 0u);
}

TEST_F(ShardStoreTest, WhatIsWrittenIsReadOnceItIsAdopted) {
  const std::string before = Snapshot();
  EXPECT_EQ(Status().adopted(), 0u);
  ASSERT_OK(WriteAll(3, 40));
  ASSERT_OK(Seal(3));
  EXPECT_EQ(Snapshot(), before);
  EXPECT_EQ(Status().version_max(), 0u);
  EXPECT_EQ(Status().adopted(), 0u);
  ASSERT_OK(Adopt(3));
  ExpectIs(3, 40);
  EXPECT_EQ(Status().version_min(), 40u);
  EXPECT_EQ(Status().adopted(), 3u);
}

TEST_F(ShardStoreTest, TheNextWriteTakesItsPlaceAsOne) {
  Store(1, 10);
  ASSERT_OK(WriteAll(2, 20));
  ExpectIs(1, 10);
  ASSERT_OK(Seal(2));
  ExpectIs(1, 10);
  ASSERT_OK(Adopt(2));
  ExpectIs(2, 20);
  // The same steps once more: its version stays, and what is in it is new.
  Store(5, 20);
  ExpectIs(5, 20);
  EXPECT_EQ(Status().adopted(), 5u);
}

// Or they would take a stripe that is half copied for a whole one.
TEST_F(ShardStoreTest, ReadersOfSharedMemorySeeAnAdoptionAsOneChangeOfEachStripe) {
  Store(1, 10);
  SharedSlice* const slice = shard_.FindJob("job-1")->stripes()->slice();
  std::vector<uint64_t> before;
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    before.push_back(slice->header(stripe)->sequence);
  }
  ASSERT_OK(WriteAll(2, 20));
  ASSERT_OK(Seal(2));
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    EXPECT_EQ(slice->header(stripe)->sequence, before[stripe]) << "nothing is theirs yet";
  }
  ASSERT_OK(Adopt(2));
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    EXPECT_EQ(slice->header(stripe)->sequence, before[stripe] + 2);
    EXPECT_EQ(slice->header(stripe)->version, 20u);
    EXPECT_EQ(slice->stripe(stripe)[5], ValueOf(2, 0, stripe));
  }
}

TEST_F(ShardStoreTest, AVersionNeverGoesBack) {
  Store(1, 10);
  Store(2, 7);
  EXPECT_EQ(Fetch(0).values, SlotOf(2, 0));
  EXPECT_EQ(Fetch(0).versions, std::vector<uint64_t>(kStripes, 10));
}

TEST_F(ShardStoreTest, ASealSaysWhatIsMissing) {
  ASSERT_OK(Write(1, 0, 5));
  ASSERT_OK(Write(1, 1, 5, 0, 2));
  ASSERT_OK(Write(1, 2, 5));
  EXPECT_THAT(Seal(1), Refused("write 1 lacks stripe 2 of slot 1 and 1 more", "write all again"));
  ASSERT_OK(Write(1, 1, 5, 2, 3));
  EXPECT_THAT(Seal(1), Refused("write 1 lacks stripe 3 of slot 1:"));
  EXPECT_THAT(Adopt(1), Refused("write 1 is not here whole: it is not sealed"));
  ASSERT_OK(Write(1, 1, 5, 3, 4));
  EXPECT_OK(Seal(1));
}

TEST_F(ShardStoreTest, ASealIsOfAllSlots) {
  ASSERT_OK(WriteAll(1, 5));
  for (const uint64_t wrong : {ChecksumOf(1, 1), ChecksumOf(1, 2), ChecksumOf(2), uint64_t{0}}) {
    EXPECT_THAT(Seal(1, wrong), Refused("write 1 has checksum", "write all again"));
    EXPECT_THAT(Adopt(1), Refused("it is not sealed"));
  }
  // A stripe that is another write's, as a late frame of it would leave it.
  WriteRequest request = RequestOf(1);
  request.set_slot(2);
  request.add_record()->set_stripe(1);
  request.mutable_record(0)->set_length(kStripe * sizeof(float));
  ASSERT_OK(Send(request, Vector(kStripe, ValueOf(2, 2, 1))));
  EXPECT_THAT(Seal(1), Refused("write 1 has checksum"));
  ASSERT_OK(Write(1, 2, 5, 1, 2));
  EXPECT_OK(Seal(1));
}

TEST_F(ShardStoreTest, AllOfItIsSafeToRepeat) {
  ASSERT_OK(WriteAll(4, 5));
  ASSERT_OK(WriteAll(4, 5));
  ASSERT_OK(Seal(4));
  ASSERT_OK(Seal(4));
  EXPECT_THAT(Seal(4, ChecksumOf(5)), Refused("write 4 is sealed with checksum", "not"));
  // Another shard's seal did not come through: all is written again, and sealed again.
  ASSERT_OK(WriteAll(4, 6));
  ASSERT_OK(Seal(4));
  ASSERT_OK(Adopt(4));
  ExpectIs(4, 5);
  ASSERT_OK(WriteAll(4, 6));
  ASSERT_OK(Seal(4));
  ASSERT_OK(Adopt(4));
  ExpectIs(4, 5);
  ASSERT_OK(Adopt(3)) << "a later one was adopted";
  EXPECT_EQ(Status().adopted(), 4u);
}

TEST_F(ShardStoreTest, AnEarlierWriteComesLate) {
  ASSERT_OK(WriteAll(6, 5));
  EXPECT_THAT(Write(5, 0, 5), Refused("write 5 comes late", "write 6 has begun"));
  EXPECT_THAT(Seal(5), Refused("write 5 comes late", "write 6 has begun"));
  ASSERT_OK(Seal(6));
  EXPECT_THAT(Adopt(5), Refused("write 5 is not here whole: the last one is 6"));
  ASSERT_OK(Adopt(6));
  EXPECT_THAT(Write(5, 0, 5), Refused("write 5 comes late", "write 6 has begun"));
  ExpectIs(6, 5);
}

TEST_F(ShardStoreTest, ALaterWriteDiscardsWhatIsThere) {
  ASSERT_OK(WriteAll(1, 5));
  ASSERT_OK(Seal(1));
  ASSERT_OK(Write(2, 0, 6));
  EXPECT_THAT(Adopt(1), Refused("write 1 is not here whole: the last one is 2"));
  EXPECT_THAT(Seal(2), Refused("write 2 lacks stripe 0 of slot 1 and 7 more"));
  EXPECT_THAT(Adopt(2), Refused("write 2 is not here whole: it is not sealed"));
  EXPECT_EQ(Status().adopted(), 0u);
  ASSERT_OK(WriteAll(2, 6));
  ASSERT_OK(Seal(2));
  ASSERT_OK(Adopt(2));
  ExpectIs(2, 6);
}

TEST_F(ShardStoreTest, VersionsAreOfTheWriteToo) {
  ASSERT_OK(Write(1, 0, 90));
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    WriteRequest request = RequestOf(2);
    request.set_slot(slot);
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      FetchRecord* const record = request.add_record();
      record->set_stripe(stripe);
      record->set_length(kStripe * sizeof(float));
      record->set_version(50);
    }
    ASSERT_OK(Send(request, SlotOf(2, slot)));
  }
  ASSERT_OK(Seal(2));
  ASSERT_OK(Adopt(2));
  ExpectIs(2, 0);  // without set_version
}

TEST_F(ShardStoreTest, NothingWasWritten) {
  EXPECT_THAT(Adopt(1), Refused("write 1 is not here whole: nothing was written in this life"));
  EXPECT_THAT(Seal(1), Refused("seals write 1, of which it has written nothing here"));
  EXPECT_OK(Adopt(0));
}

TEST_F(ShardStoreTest, AClosedSessionCannotWrite) {
  ASSERT_OK(Write(1, 0, 5));
  SessionKey other = session_;
  other.set_worker(2);
  ASSERT_OK(shard_.OpenSession(other));
  ASSERT_OK(shard_.CloseSession(session_));
  EXPECT_THAT(Write(1, 1, 5), Refused("worker/1#1", "not open"));
  EXPECT_THAT(Write(2, 0, 5), Refused("worker/1#1", "not open"));
  EXPECT_THAT(Seal(1), Refused("worker/1#1", "not open"));
  session_ = other;
  ASSERT_OK(WriteAll(2, 5));
  ASSERT_OK(Seal(2));
  // What it has sealed is whole, whether its worker is there or not.
  ASSERT_OK(shard_.CloseSession(session_));
  ASSERT_OK(Adopt(2));
  EXPECT_EQ(Status().adopted(), 2u);
}

TEST_F(ShardStoreTest, TwoSessionsDoNotMixUnderOneNumber) {
  ASSERT_OK(WriteAll(1, 5));
  SessionKey first = session_;
  session_.set_worker(2);
  ASSERT_OK(shard_.OpenSession(session_));
  ASSERT_OK(Write(1, 2, 5));
  EXPECT_THAT(Seal(1), Refused("write 1 lacks stripe 0 of slot 0 and 7 more"));
  ASSERT_OK(WriteAll(1, 5));
  ASSERT_OK(Seal(1));
  std::swap(first, session_);
  EXPECT_THAT(Seal(1), Refused("worker/1#1 seals write 1", "is 1 of worker/2#1"));
  ASSERT_OK(Adopt(1));
  EXPECT_THAT(Write(1, 0, 5), Refused("write 1 is worker/2#1's, and was adopted"));
  ASSERT_OK(Adopt(1));
  ExpectIs(1, 5);
}

TEST_F(ShardStoreTest, WhatIsMalformedChangesNothing) {
  EXPECT_THAT(Write(0, 0, 5), Invalid("a session's write has a number"));
  EXPECT_THAT(Write(1, kSlots, 5), Invalid("slot 3, but its optimizer has 2 float(s)"));
  WriteRequest request = RequestOf(1);
  request.add_record()->set_stripe(kStripes);
  request.mutable_record(0)->set_length(kStripe * sizeof(float));
  EXPECT_THAT(Send(request, Vector(kStripe)), Invalid("stripe 4 of 4"));
  request.mutable_record(0)->set_stripe(1);
  Vector bad(kStripe);
  bad[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Send(request, bad), Invalid("the value at flat index 67 is inf"));
  request.set_layout_hash(1);
  EXPECT_THAT(Send(request, Vector(kStripe)), Invalid("layout"));
  request = RequestOf(1);
  request.mutable_session()->set_job("job-9");
  request.set_job("job-1");
  EXPECT_THAT(Send(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-9")));
  EXPECT_THAT(Seal(1), Refused("written nothing here (the last one is 0"));
}

TEST_F(ShardStoreTest, AJobWithShardsThatApplyHasNoSpareRoom) {
  CreateShardJobRequest create = request_;
  create.set_job("job-2");
  create.set_store_only(false);
  ASSERT_OK(shard_.CreateJob(create));
  session_.set_job("job-2");
  ASSERT_OK(shard_.OpenSession(session_));
  EXPECT_THAT(Write(1, 0, 5), Invalid("is of a job whose shards only store"));
  EXPECT_THAT(Seal(1), Invalid("is of a job whose shards only store"));
  AdoptRequest adopt;
  adopt.set_job("job-2");
  adopt.set_write(1);
  EXPECT_THAT(shard_.Adopt(adopt),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("none that only stores")));
  EXPECT_EQ(shard_.FindJob("job-2")->GetStatus().adopted(), 0u);
}

TEST_F(ShardStoreTest, AnAdoptionIsOfACoordinatorThatIsNotReplaced) {
  ASSERT_OK(WriteAll(1, 5));
  ASSERT_OK(Seal(1));
  ASSERT_OK(shard_.OpenSession(session_, /*term=*/4));
  EXPECT_THAT(Adopt(1, 3), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("term 4")));
  EXPECT_EQ(Status().adopted(), 0u);
  EXPECT_OK(Adopt(1, 4));
  AdoptRequest unknown;
  unknown.set_job("job-9");
  unknown.set_term(4);
  unknown.set_write(1);
  EXPECT_THAT(shard_.Adopt(unknown), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-9")));
  unknown.set_job("job-1");
  unknown.set_job_term(1);
  EXPECT_THAT(shard_.Adopt(unknown), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-1")));
  shard_.StartDraining();
  EXPECT_THAT(Adopt(1, 4), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("draining")));
}

TEST_F(ShardStoreTest, BeforeTheFirstSessionItIsWrittenAsEverySlice) {
  CreateShardJobRequest create = request_;
  create.set_job("job-2");
  create.set_written_by_client(true);
  ASSERT_OK(shard_.CreateJob(create));
  WriteRequest request;
  request.set_job("job-2");
  request.set_layout_hash(request_.layout_hash());
  request.set_set_version(true);
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    FetchRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_length(kStripe * sizeof(float));
    record->set_version(8);
  }
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    request.set_slot(slot);
    ASSERT_OK(Send(request, SlotOf(7, slot)));
  }
  ExpectIs(7, 8, "job-2");
  session_.set_job("job-2");
  ASSERT_OK(shard_.OpenSession(session_));
  EXPECT_THAT(Send(request, SlotOf(7, 0)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has had a session")));
  EXPECT_EQ(shard_.FindJob("job-2")->GetStatus().adopted(), 0u);
}

TEST_F(ShardStoreTest, ASlotOfTheStateIsFetchedAsItIs) {
  Store(1, 5);
  FetchRequest request = FetchOf(2);
  EXPECT_OK(shard_.StartFetch(request));
  request.set_read_only(true);
  EXPECT_OK(shard_.StartFetch(request));
  request.set_slot(3);
  EXPECT_THAT(shard_.StartFetch(request), Invalid("its optimizer has 2 float(s) of state"));
  request = FetchOf(1);
  request.set_after_round(true);
  EXPECT_THAT(shard_.StartFetch(request), Invalid("slot 1 cannot be fetched"));
  request = FetchOf(1);
  request.set_vector("search");
  EXPECT_THAT(shard_.StartFetch(request), Invalid("slot 1 cannot be fetched"));
  request = FetchOf(1);
  request.set_format(BFLOAT16);
  EXPECT_THAT(shard_.StartFetch(request), Invalid("FLOAT32"));
  AlignedFloats out(kFloats);
  EXPECT_THAT(shard_.FindJob("job-1")->fetches()->CopyStripes(SessionId{9, 1}, 0, kStripes, nullptr,
                                                              FLOAT32, &out, 1),
              Refused("worker/9#1", "not open"));
}

TEST_F(ShardStoreTest, ASlotAndChangesDoNotGoTogether) {
  CreateShardJobRequest create = request_;
  create.set_job("job-2");
  create.set_store_only(false);
  create.set_fetch_changes(BFLOAT16);
  ASSERT_OK(shard_.CreateJob(create));
  FetchRequest request = FetchOf(1);
  request.mutable_session()->set_job("job-2");
  EXPECT_OK(shard_.StartFetch(request)) << "state of any job";
  request.set_changes(true);
  EXPECT_THAT(shard_.StartFetch(request), Invalid("slot 1 cannot be fetched"));
}

TEST_F(ShardStoreTest, WhatPushesMoveIsNotToBeStored) {
  CreateShardJobRequest create = request_;
  create.set_job("job-2");
  create.mutable_rounds();
  EXPECT_THAT(shard_.CreateJob(create), Invalid("a slice that only stores has no rounds"));
  create.clear_rounds();
  create.set_fetch_changes(BFLOAT16);
  EXPECT_THAT(shard_.CreateJob(create), Invalid("no changes to fetch"));
}

TEST_F(ShardStoreTest, TheRoomIsCountedFromTheStart) {
  CreateShardJobRequest create = request_;
  create.set_store_only(false);
  ASSERT_OK_AND_ASSIGN(const ShardJobPlan without, PlanJob(create));
  ASSERT_OK_AND_ASSIGN(const ShardJobPlan with, PlanJob(request_));
  const uint64_t room = with.memory_bytes - without.memory_bytes;
  EXPECT_GE(room, SpareRoom::Bytes(kFloats, kStripes, kSlots - 1));
  EXPECT_GE(room, kSlots * kFloats * sizeof(float) + kStripes * sizeof(uint64_t));
  EXPECT_LE(room, kSlots * kFloats * sizeof(float) + 4096);
  EXPECT_EQ(Status().memory_bytes(), with.memory_bytes);
  const uint64_t used = shard_.GetStatus({})->memory_used_bytes();
  Store(1, 5);
  EXPECT_EQ(shard_.GetStatus({})->memory_used_bytes(), used);
}

TEST_F(ShardStoreTest, NothingIsAdoptedWhileAGenerationIsCut) {
  Store(1, 5);
  ASSERT_OK(WriteAll(2, 6));
  ASSERT_OK(Seal(2));
  const auto job = shard_.FindJob("job-1");
  {
    const SpareRoom::CutScope cut(job->spare());
    const SpareRoom::CutScope another(job->spare());
    EXPECT_THAT(Adopt(2), StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("a generation is being cut; write 2")));
    EXPECT_OK(Adopt(1)) << "there is nothing to be done";
    ExpectIs(1, 5);
    EXPECT_OK(Seal(2)) << "that goes on";
  }
  EXPECT_OK(Adopt(2));
  ExpectIs(2, 6);
}

TEST_F(ShardStoreTest, AnotherJobGoesOnFromWhatIsStored) {
  Store(1, 5);
  ASSERT_OK(WriteAll(2, 6));
  CreateShardJobRequest next = request_;
  next.set_job("job-2");
  next.set_written_by_client(true);
  next.mutable_source()->set_job("job-1");
  next.set_store_only(false);
  ASSERT_OK(shard_.CreateJob(next));
  ExpectIs(1, 5, "job-2");
  next.set_job("job-3");
  next.mutable_source()->set_job("job-2");
  next.set_store_only(true);
  ASSERT_OK(shard_.CreateJob(next));
  ExpectIs(1, 5, "job-3");
  EXPECT_EQ(shard_.FindJob("job-3")->GetStatus().adopted(), 0u);
}

}  // namespace
}  // namespace monsoon
