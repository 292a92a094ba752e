// Parts of jobs whose shards only store: each holds one write whole.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/xxh3.h"
#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/checkpoint/keeper_fixture.h"
#include "ps_server/checkpoint/write_part.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint32_t kSlots = 2;  // parameters and momentum
constexpr size_t kSlice = kStripes * kStripe;

// Write n has n in all parameters and n + 0.5 in the state, at version 10 n.
class StoredPartTest : public CheckpointKeeperTest {
 protected:
  static CreateShardJobRequest Create() {
    CreateShardJobRequest create = MakeCreate("sync-1");
    create.mutable_optimizer()->mutable_momentum()->set_rate(0.1);
    create.set_store_only(true);
    return create;
  }
  void SetUp() override {
    ASSERT_OK(shard_->CreateJob(Create()));
    session_.set_job("sync-1");
    session_.set_job_term(3);
    session_.set_incarnation(1);
    ASSERT_OK(shard_->OpenSession(session_));
    job_ = shard_->FindJob("sync-1", 3);
  }
  void TearDown() override { job_.reset(); }

  static std::vector<float> ValuesOf(uint64_t number, uint32_t slot) {
    return std::vector<float>(kSlice, static_cast<float>(number) + 0.5f * static_cast<float>(slot));
  }

  absl::Status Send(const WriteRequest& request, std::span<const float> payload) {
    const ByteChunk chunk = std::as_bytes(payload);
    ChunkCursor cursor({&chunk, 1});
    return shard_->Write(request, &cursor, &scratch_).status();
  }
  void WriteAndSeal(uint64_t number) {
    WriteRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(layout_hash_);
    request.set_writer(number);
    request.set_set_version(true);
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      FetchRecord* const record = request.add_record();
      record->set_stripe(stripe);
      record->set_length(kStripe * sizeof(float));
      record->set_version(10 * number);
    }
    Xxh3 hash;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      request.set_slot(slot);
      const std::vector<float> values = ValuesOf(number, slot);
      ASSERT_OK(Send(request, values));
      hash.Add(std::as_bytes(std::span(values)));
    }
    request.clear_record();
    request.mutable_seal()->set_checksum(hash.Digest());
    ASSERT_OK(Send(request, {}));
  }
  absl::Status Adopt(uint64_t number) {
    AdoptRequest request;
    request.set_job("sync-1");
    request.set_job_term(3);
    request.set_write(number);
    return shard_->Adopt(request).status();
  }
  void Store(uint64_t number) {
    WriteAndSeal(number);
    ASSERT_OK(Adopt(number));
  }

  absl::StatusOr<RestoreShardJobReply> Restore() {
    RestoreShardJobRequest request;
    *request.mutable_create() = Create();
    *request.add_session() = session_;
    return keeper_->Restore(shard_.get(), request);
  }
  void ExpectIs(uint64_t number) {
    const std::shared_ptr<ShardJob> job = shard_->FindJob("sync-1", 3);
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      AlignedFloats floats(kSlice);
      const auto copied =
          job->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr, FLOAT32, &floats, slot);
      ASSERT_OK(copied);
      EXPECT_THAT(floats.span(), Each(ValuesOf(number, slot)[0])) << slot;
      for (const FetchRecord& record : copied->records) {
        EXPECT_EQ(record.version(), 10 * number);
      }
    }
  }

  std::shared_ptr<ShardJob> job_;
};

TEST_F(StoredPartTest, ARestoredSliceHasWhatWasAdopted) {
  Store(1);
  WriteAndSeal(2);
  Write(job_, 1);
  const uint64_t memory = StatusOf("sync-1").memory_bytes();
  job_.reset();
  Restart();
  ASSERT_OK(Restore());
  ExpectIs(1);
  EXPECT_EQ(StatusOf("sync-1").adopted(), 0u);
  EXPECT_EQ(StatusOf("sync-1").memory_bytes(), memory);
  EXPECT_THAT(Adopt(2), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("nothing was written in this life of the slice")));
  Store(3);
  ExpectIs(3);
  EXPECT_EQ(StatusOf("sync-1").adopted(), 3u);
}

// The next write is there, sealed, and is ordered to be adopted before each of the part's stripes.
TEST_F(StoredPartTest, APartHasNoStripeOfTheNextWrite) {
  Store(1);
  WriteAndSeal(2);
  int tried = 0;
  ASSERT_OK(WritePart(
      &storage_, kStateDir, *job_, OrderOf("sync-1", 1), [] { return absl::OkStatus(); },
      [&] {
        EXPECT_THAT(Adopt(2), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("is being cut")));
        ++tried;
        return true;
      }));
  EXPECT_EQ(tried, static_cast<int>(kStripes));
  ASSERT_OK(Adopt(2));
  ExpectIs(2);
  job_.reset();
  Restart();
  ASSERT_OK(Restore());
  ExpectIs(1);
}

TEST_F(StoredPartTest, APartThatIsGivenUpLetsAdoptionsGoOn) {
  Store(1);
  WriteAndSeal(2);
  EXPECT_FALSE(WritePart(
                   &storage_, kStateDir, *job_, OrderOf("sync-1", 1),
                   [] { return absl::OkStatus(); }, [] { return false; })
                   .ok());
  EXPECT_OK(Adopt(2));
}

// What an order's context says of the job is of the write that was there when it was given.
TEST_F(StoredPartTest, AServerThatStopsWritesNoGenerationOfALaterWrite) {
  Store(1);
  Write(job_, 1);
  Store(2);
  ASSERT_OK(keeper_->Flush(kPatience));
  EXPECT_EQ(StatusOf("sync-1").generation(), 1u);
  job_.reset();
  Restart();
  ASSERT_OK(Restore());
  ExpectIs(1);
}

}  // namespace
}  // namespace monsoon
