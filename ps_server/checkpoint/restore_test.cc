// Slices made again from what is on the disk (CheckpointKeeper::Restore).

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/xxh3.h"
#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class RestoreTest : public CheckpointKeeperTest {
 protected:
  // Generation g holds 2 g pushes; one more is nowhere.
  void WriteGenerations(uint64_t first, uint64_t last) {
    const auto job = shard_->FindJob("a-1", 3);
    for (uint64_t generation = first; generation <= last; ++generation) {
      while (sequence_ < 2 * generation) {
        Push();
      }
      Write(job, generation);
    }
    Push();
  }

  RestoreShardJobRequest Request(uint64_t least_generation = 0) const {
    RestoreShardJobRequest request;
    *request.mutable_create() = MakeCreate("a-1");
    request.set_least_generation(least_generation);
    *request.add_session() = session_;
    return request;
  }

  absl::StatusOr<RestoreShardJobReply> Restore(const RestoreShardJobRequest& request) {
    return keeper_->Restore(shard_.get(), request);
  }

  // What every float of the slice is.
  float Parameter() {
    const auto job = shard_->FindJob("a-1", 3);
    AlignedFloats floats(kStripes * kStripe);
    EXPECT_OK(job->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr, FLOAT32, &floats));
    for (const float value : floats.span()) {
      EXPECT_EQ(value, floats.span()[0]);
    }
    return floats.span()[0];
  }

  StripeMarks Marks() {
    MarksRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(MakeCreate("").layout_hash());
    request.set_first_stripe(1);
    request.set_stripe_count(1);
    const absl::StatusOr<MarksReply> reply = shard_->Marks(request);
    EXPECT_OK(reply);
    return reply.ok() ? reply->stripe(0) : StripeMarks();
  }

  std::string Folder() const { return JobFolder(kStateDir, "a-1", 3); }
  std::vector<std::string> Files() const {
    const auto files = storage_.List(Folder());
    return files.ok() ? *files : std::vector<std::string>();
  }
  std::string PartFile(uint64_t generation, uint64_t epoch, const std::string& ending) const {
    return absl::StrCat(Folder(), "/ps-0-of-1.g", generation, ".e", epoch, ending);
  }
  // On the disk, the newest first.
  std::vector<uint64_t> Generations() const {
    std::vector<uint64_t> generations;
    const auto found = ListGenerations(&storage_, Folder());
    EXPECT_OK(found);
    for (const GenerationParts& parts : *found) {
      generations.push_back(parts.generation);
    }
    return generations;
  }
  // Turns over a bit of the floats.
  // A bit of the byte `at` of its tensors.
  void Rot(uint64_t generation, uint64_t epoch, uint64_t at = 5) {
    const std::string path = PartFile(generation, epoch, ".safetensors");
    uint64_t head = 0;
    ASSERT_OK((*storage_.Open(path))->ReadAt(0, std::as_writable_bytes(std::span(&head, 1))));
    storage_.CorruptByte(path, sizeof(head) + head + at, 3);
  }
};

// Only the coordinator knows which generations all shards have: what a shard writes by
// itself when it stops takes none of these away, however often it does.
TEST_F(RestoreTest, GenerationsOfItsOwnRemoveNoneThatWereOrdered) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  ASSERT_OK(keeper_->Flush(kPatience));
  EXPECT_THAT(Generations(), ElementsAre(3, 2, 1));
  for (const std::vector<uint64_t>& kept :
       {std::vector<uint64_t>{4, 3, 2, 1}, std::vector<uint64_t>{5, 4, 2, 1}}) {
    Restart();
    ASSERT_OK(Restore(Request()));
    EXPECT_EQ(Parameter(), static_cast<float>(sequence_));
    Push();
    ASSERT_OK(keeper_->Flush(kPatience));
    EXPECT_EQ(Generations(), kept);
  }
  Restart();
  ASSERT_OK(Restore(Request()));
  // Generation 2 is the newest that all shards are known to have, until 6 is.
  Write(shard_->FindJob("a-1", 3), 6);
  EXPECT_THAT(Generations(), ElementsAre(6, 5, 2));
  Push();
  Write(shard_->FindJob("a-1", 3), 7);
  EXPECT_THAT(Generations(), ElementsAre(7, 6));
  EXPECT_THAT(Files(), SizeIs(4));
}

TEST_F(RestoreTest, BothSlotsOfAdamComeBack) {
  CreateShardJobRequest create = MakeCreate("a-1");
  create.mutable_optimizer()->mutable_adam()->set_rate(0.5);
  ASSERT_OK(shard_->CreateJob(create));
  session_.set_job("a-1");
  session_.set_job_term(3);
  session_.set_incarnation(1);
  ASSERT_OK(shard_->OpenSession(session_));
  Push();
  Push(/*stripes=*/1);  // m and v differ from stripe to stripe
  const std::string before = shard_->FindJob("a-1", 3)->stripes()->Snapshot();
  Write(shard_->FindJob("a-1", 3), 1);
  Restart();
  RestoreShardJobRequest request = Request(1);
  *request.mutable_create() = create;
  ASSERT_OK(Restore(request));
  EXPECT_EQ(shard_->FindJob("a-1", 3)->stripes()->Snapshot(), before);
}

// A slice of a joined job that is there again was sealed when it was cut.
TEST_F(RestoreTest, WhatWasSealedStaysReadable) {
  CreateShardJobRequest create = MakeCreate("a-1");
  create.mutable_model()->Clear();
  ModelTensor* const tensor = create.mutable_model()->add_tensor();
  tensor->set_name("w");
  tensor->add_shape(kStripes * kStripe);
  create.set_layout_hash(ParameterLayout::Create(create.model())->Hash());
  ASSERT_OK(shard_->CreateJob(create));
  const std::vector<float> values(kStripes * kStripe, 2.0f);
  WriteRequest write;
  write.set_job("a-1");
  write.set_job_term(3);
  write.set_layout_hash(create.layout_hash());
  write.set_writer(1);
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    write.add_record()->set_stripe(stripe);
    write.mutable_record()->rbegin()->set_length(kStripe * sizeof(float));
  }
  const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(values))};
  ChunkCursor cursor(chunks);
  ASSERT_OK(shard_->Write(write, &cursor, &scratch_));
  write.clear_record();
  write.mutable_seal()->set_checksum(Xxh3::Of(std::as_bytes(std::span(values))));
  ASSERT_OK(shard_->Write(write, &cursor, &scratch_));
  Write(shard_->FindJob("a-1", 3), 1);
  Restart();
  RestoreShardJobRequest request;
  *request.mutable_create() = create;
  ASSERT_OK(Restore(request));
  EXPECT_OK(shard_->FindJob("a-1", 3)->writes()->CheckReadable());
  EXPECT_EQ(Parameter(), 2.0f);
  // A writer of the time before comes late.
  write.clear_seal();
  for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
    write.add_record()->set_stripe(stripe);
    write.mutable_record()->rbegin()->set_length(kStripe * sizeof(float));
  }
  ChunkCursor late(chunks);
  EXPECT_THAT(shard_->Write(write, &late, &scratch_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("restored")));
}

TEST_F(RestoreTest, GoesOnFromTheNewestPart) {
  MakeJob("a-1");
  WriteGenerations(1, 3);
  Restart();
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(Request(3)));
  EXPECT_EQ(reply.shard_epoch(), epoch_);
  EXPECT_EQ(reply.generation(), 3u);
  EXPECT_EQ(reply.parent_epoch(), kEpoch);
  EXPECT_THAT(reply.skipped(), IsEmpty());
  EXPECT_EQ(Parameter(), 6.0f);
  EXPECT_EQ(shard_->FindJob("a-1", 3)->checkpoint()->parent().generation, 3u);
  // The window goes on: what was not in it is sent again.
  sequence_ = 6;
  Push();
  EXPECT_EQ(Parameter(), 7.0f);
  // Asked again it says the same, and changes nothing.
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply again, Restore(Request(3)));
  EXPECT_EQ(again.SerializeAsString(), reply.SerializeAsString());
  EXPECT_EQ(Parameter(), 7.0f);
  RestoreShardJobRequest other = Request(3);
  other.mutable_create()->set_seed(99);
  EXPECT_THAT(Restore(other), StatusIs(absl::StatusCode::kAlreadyExists, _));
}

TEST_F(RestoreTest, AJobThatBeganInThisLifeIsAnsweredAsSuch) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(Request()));
  EXPECT_EQ(reply.generation(), 0u);
  EXPECT_EQ(reply.parent_epoch(), 0u);
  EXPECT_EQ(Parameter(), 5.0f);
}

TEST_F(RestoreTest, ADamagedPartIsNamedAndTheOlderOneTaken) {
  MakeJob("a-1");
  WriteGenerations(1, 3);
  Rot(3, kEpoch);
  Restart();
  EXPECT_THAT(Restore(Request(3)),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("from generation 3 on"), HasSubstr("ps-0-of-1.g3.e7"))));
  EXPECT_EQ(shard_->FindJob("a-1", 3), nullptr);
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(Request(2)));
  EXPECT_EQ(reply.generation(), 2u);
  EXPECT_THAT(reply.skipped(), ElementsAre(HasSubstr("ps-0-of-1.g3.e7")));
  EXPECT_EQ(Parameter(), 4.0f);
  // With one good generation nothing may be forgotten by its sender.
  EXPECT_EQ(Marks().applied(), 4u);
  EXPECT_EQ(Marks().written(), 4u);
  EXPECT_EQ(Marks().durable(), 0u);
}

TEST_F(RestoreTest, WhereNoPartIsGoodAllAreNamed) {
  MakeJob("a-1");
  WriteGenerations(1, 3);
  Rot(2, kEpoch);
  Rot(3, kEpoch);
  Restart();
  // Written by the client: nobody else knows its initial parameters.
  EXPECT_THAT(Restore(Request()),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("ps-0-of-1.g2.e7"), HasSubstr("ps-0-of-1.g3.e7"))));
  EXPECT_EQ(shard_->GetStatus({})->memory_used_bytes(), 0u);
  EXPECT_THAT(Files(), SizeIs(4));
}

TEST_F(RestoreTest, APartOfAnotherJobIsNotTaken) {
  MakeJob("a-1");
  WriteGenerations(1, 1);
  Restart();
  RestoreShardJobRequest request = Request();
  request.mutable_create()->mutable_optimizer()->mutable_sgd()->set_rate(0.5);
  EXPECT_THAT(Restore(request),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("a job with other content")));
}

TEST_F(RestoreTest, WithoutAPartAJobBeginsAnew) {
  CreateShardJobRequest create = MakeCreate("a-1");
  create.set_written_by_client(false);
  create.set_seed(5);
  create.mutable_optimizer()->mutable_adagrad()->set_rate(0.1);
  ASSERT_OK(shard_->CreateJob(create));
  const std::string initial = shard_->FindJob("a-1", 3)->stripes()->Snapshot();
  session_.set_job("a-1");
  session_.set_job_term(3);
  session_.set_incarnation(1);
  ASSERT_OK(shard_->OpenSession(session_));
  RestoreShardJobRequest request = Request();
  *request.mutable_create() = create;
  const auto restored = [&](uint64_t generation) {
    Restart();
    const auto reply = Restore(request);
    EXPECT_OK(reply);
    EXPECT_EQ(reply->generation(), generation);
    EXPECT_TRUE(shard_->OpenSession(session_)->resumed());
    return shard_->FindJob("a-1", 3)->stripes()->Snapshot();
  };
  EXPECT_EQ(restored(0), initial);
  Push();
  const std::string pushed = shard_->FindJob("a-1", 3)->stripes()->Snapshot();
  Write(shard_->FindJob("a-1", 3), 1);
  EXPECT_EQ(restored(1), pushed);
  // What a damaged part has left in the slice does not count: here all parameters and all
  // optimizer state but the last.
  Rot(1, epoch_ - 1, 2 * kStripes * kStripe * sizeof(float) - 2);
  EXPECT_EQ(restored(0), initial);
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply again, Restore(request));
  EXPECT_THAT(again.skipped(), ElementsAre(HasSubstr("g1.e")));
  request.set_least_generation(1);
  Restart();
  EXPECT_THAT(Restore(request), StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_F(RestoreTest, SessionsAreThoseOfTheRequest) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  Restart();
  RestoreShardJobRequest request = Request();
  request.mutable_session(0)->set_worker(4);
  ASSERT_OK(Restore(request));
  EXPECT_EQ(shard_->CloseSession(session_)->applied(), 4u * kStripes);
  EXPECT_THAT(shard_->OpenSession(session_), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_TRUE(shard_->OpenSession(request.session(0))->resumed());
  request.mutable_create()->set_term(2);
  session_ = request.session(0);
  EXPECT_EQ(Marks().applied(), 0u);
}

// The parts of earlier lives are this life's: their sizes, their numbers, and what goes
// when newer ones come.
TEST_F(RestoreTest, TakesOverWhatIsOnTheDisk) {
  MakeJob("a-1");
  WriteGenerations(1, 3);
  const ShardJobStatus before = StatusOf("a-1");
  Restart();
  ASSERT_OK(Restore(Request()));
  EXPECT_EQ(StatusOf("a-1").generation(), 3u);
  EXPECT_EQ(StatusOf("a-1").disk_bytes(), before.disk_bytes());
  EXPECT_EQ(Marks().written(), 6u);
  EXPECT_EQ(Marks().durable(), 4u);
  const auto job = shard_->FindJob("a-1", 3);
  EXPECT_THAT(keeper_->Order(job, OrderOf("a-1", 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ordered after 3")));
  const uint64_t operations = storage_.operations();
  Write(job, 3);  // it is there
  EXPECT_EQ(storage_.operations(), operations);
  sequence_ = 6;
  Push();
  Write(job, 4);
  EXPECT_THAT(Files(), ElementsAre("ps-0-of-1.g3.e7.manifest", "ps-0-of-1.g3.e7.safetensors",
                                   "ps-0-of-1.g4.e8.manifest", "ps-0-of-1.g4.e8.safetensors"));
  EXPECT_EQ(Marks().written(), 7u);
  EXPECT_EQ(Marks().durable(), 6u);
  ASSERT_OK(shard_->DeleteJob("a-1", 3));
  ASSERT_OK(keeper_->Delete("a-1", 3));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(RestoreTest, WhatADeadLifeLeftUnfinishedGoesWithTheNextPart) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  Rot(2, kEpoch);
  const std::string unfinished = absl::StrCat(Folder(), "/.tmp-ps-0-of-1.g3.e7.safetensors");
  const std::string without_manifest = PartFile(3, 6, ".safetensors");
  const std::string of_another = absl::StrCat(Folder(), "/.tmp-ps-1-of-2.g3.e7.safetensors");
  for (const std::string& path : {unfinished, without_manifest, of_another}) {
    ASSERT_OK(storage_.WriteAll(path, "half a part"));
  }
  Restart();
  ASSERT_OK(Restore(Request()));
  EXPECT_THAT(Files(), SizeIs(7));
  sequence_ = 2;
  Push();
  // The damaged one's number comes again, in a new life.
  Write(shard_->FindJob("a-1", 3), 2);
  EXPECT_THAT(Files(), ElementsAre(".tmp-ps-1-of-2.g3.e7.safetensors", "ps-0-of-1.g1.e7.manifest",
                                   "ps-0-of-1.g1.e7.safetensors", "ps-0-of-1.g2.e8.manifest",
                                   "ps-0-of-1.g2.e8.safetensors"));
  Restart();
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(Request()));
  EXPECT_EQ(reply.generation(), 2u);
  EXPECT_EQ(reply.parent_epoch(), kEpoch + 1);
  EXPECT_EQ(Parameter(), 3.0f);
}

TEST_F(RestoreTest, FlushGoesOnFromTheRestoredGeneration) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  Restart();
  ASSERT_OK(Restore(Request()));
  ASSERT_OK(keeper_->Flush(kPatience));
  EXPECT_EQ(StatusOf("a-1").generation(), 2u);  // nothing is newer
  sequence_ = 4;
  Push();
  ASSERT_OK(keeper_->Flush(kPatience));
  EXPECT_EQ(StatusOf("a-1").generation(), 3u);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Load("a-1"));
  EXPECT_EQ(loaded.parameters[0], 5.0f);
  EXPECT_EQ(loaded.content.parent_epoch(), kEpoch);
  EXPECT_EQ(loaded.content.parent_generation(), 2u);
  EXPECT_EQ(loaded.content.context().downpour().steps(), 20u);
}

TEST_F(RestoreTest, ADeletedJobLeavesNothingOfEarlierLives) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  Restart();
  ASSERT_OK(keeper_->Delete("a-1", 3));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_THAT(Restore(Request()), StatusIs(absl::StatusCode::kNotFound, Not(HasSubstr("ps-0"))));
}

// A read that fails says nothing of the bytes: the part may be good the next time.
TEST_F(RestoreTest, AReadThatFailsOnceCostsNoPart) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  for (const uint64_t generation : {2, 1}) {
    for (const char* const ending : {".manifest", ".safetensors"}) {
      const std::string path = PartFile(generation, kEpoch, ending);
      uint64_t read = 0;
      bool failed = true;
      while (failed) {
        SCOPED_TRACE(absl::StrCat(path, ", read ", ++read));
        Restart();
        storage_.ClearFailure();
        storage_.FailReads(path, read, /*count=*/1, absl::UnavailableError("Input/output error"));
        absl::StatusOr<RestoreShardJobReply> reply = Restore(Request());
        failed = !reply.ok();
        if (failed) {
          EXPECT_THAT(reply, StatusIs(absl::StatusCode::kUnavailable,
                                      AllOf(HasSubstr("read " + path + ": Input/output error"),
                                            HasSubstr(PartFile(generation, kEpoch, ".manifest")))));
          EXPECT_EQ(shard_->FindJob("a-1", 3), nullptr);
          reply = Restore(Request());
        }
        ASSERT_OK(reply);
        EXPECT_EQ(reply->generation(), 2u);
        EXPECT_THAT(reply->skipped(), IsEmpty());
        EXPECT_EQ(Parameter(), 4.0f);
        EXPECT_EQ(Marks().durable(), 2u);
      }
      EXPECT_GT(read, 1u) << path << " is not read";
      EXPECT_THAT(Files(), SizeIs(4));
    }
  }
}

TEST_F(RestoreTest, APartThatCannotBeReadIsDoneWithoutOnceItsManifestIsGone) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  Restart();
  storage_.FailReads(PartFile(2, kEpoch, ".safetensors"), /*n=*/1, /*count=*/UINT64_MAX,
                     absl::PermissionDeniedError("Permission denied"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Restore(Request()),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Permission denied")));
  }
  ASSERT_OK(storage_.Remove(PartFile(2, kEpoch, ".manifest")));
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, Restore(Request()));
  EXPECT_EQ(reply.generation(), 1u);
  EXPECT_EQ(Parameter(), 2.0f);
}

TEST_F(RestoreTest, ADiskThatDoesNotSyncTheFolderIsToldAndAskedAgain) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  Restart();
  storage_.FailAfter(1, absl::UnavailableError("Input/output error"));
  EXPECT_THAT(Restore(Request()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Input/output")));
  EXPECT_EQ(shard_->FindJob("a-1", 3), nullptr);
  storage_.ClearFailure();
  ASSERT_OK(Restore(Request()));
  EXPECT_EQ(Parameter(), 4.0f);
}

// The part was written by a life that had other settings, and was made by those before.
TEST_F(RestoreTest, APartIsOfTheSameSliceWhateverItsSettingsHaveBecome) {
  MakeJob("a-1");
  WriteGenerations(1, 2);
  Restart();
  RestoreShardJobRequest request = Request();
  request.mutable_create()->mutable_optimizer()->mutable_sgd()->set_rate(0.5);
  EXPECT_THAT(Restore(request).status(), StatusIs(absl::StatusCode::kNotFound, _));
  request.mutable_create()->set_settings_revision(1);
  ASSERT_OK(Restore(request));
  EXPECT_EQ(Parameter(), 4.0f);
  sequence_ = 4;
  Push();
  EXPECT_EQ(Parameter(), 4.5f);
  const ShardStatusReply status = *shard_->GetStatus({});
  EXPECT_EQ(status.job(0).settings_revision(), 1u);
}

}  // namespace
}  // namespace monsoon
