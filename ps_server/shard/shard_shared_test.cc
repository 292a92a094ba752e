// What readers of the shard's shared memory see of pushes.
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/parameter_layout.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "common/transport/shm/memory_file.h"
#include "common/transport/shm/shared_slice.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shared_files.h"

namespace monsoon {
namespace {

using Vector = std::vector<float>;

constexpr uint64_t kEpoch = 77;
constexpr size_t kStripe = 64;  // floats
constexpr uint32_t kRefused = 2;

// A job of four stripes with an open session of worker 1, and its reader.
class ShardSharedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CreateShardJobRequest request;
    request.set_job("job-1");
    request.mutable_model()->add_input_shape(16);
    Dense* dense = request.mutable_model()->add_layer()->mutable_dense();
    dense->set_units(16);
    dense->set_no_bias(true);
    request.mutable_optimizer()->mutable_sgd()->set_rate(0.5);
    request.set_shards(1);
    request.set_max_stripe_bytes(kStripe * sizeof(float));
    layout_hash_ = ParameterLayout::Create(request.model())->Hash();
    request.set_layout_hash(layout_hash_);
    session_.set_job("job-1");
    session_.set_worker(1);
    session_.set_incarnation(1);
    ASSERT_OK(shard_.CreateJob(request));
    ASSERT_OK(shard_.OpenSession(session_));
    ASSERT_OK_AND_ASSIGN(const SliceFetches::Shared shared,
                         shard_.FindJob("job-1")->fetches()->Share(SessionId{1, 1}));
    ASSERT_OK_AND_ASSIGN(const MemoryFile file, MemoryFile::Adopt(UniqueFd(dup(shared.fd)), 1));
    ASSERT_OK_AND_ASSIGN(reader_, SliceReader::Open(file, shared.shape, shared.slot));
  }

  PushVerdict Push(uint32_t stripe, uint64_t sequence, const Vector& gradient) {
    PushRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(layout_hash_);
    PushRecord* record = request.add_record();
    record->set_stripe(stripe);
    record->set_sequence(sequence);
    record->set_shard_epoch(kEpoch);
    record->set_length(kStripe * sizeof(float));
    const ByteChunk chunk = std::as_bytes(std::span(gradient));
    ChunkCursor cursor({&chunk, 1});
    const absl::StatusOr<PushReply> reply = shard_.Push(request, &cursor, &scratch_);
    EXPECT_OK(reply);
    return reply.ok() ? reply->verdict(0) : PushVerdict();
  }

  struct Seen {
    SliceReader::Mark mark;
    Vector parameters = Vector(kStripe);
  };
  Seen Read(uint32_t stripe) {
    Seen seen;
    const auto mark = reader_->Read(stripe, seen.parameters);
    EXPECT_TRUE(mark.has_value());
    EXPECT_TRUE(reader_->valid());
    seen.mark = mark.value_or(SliceReader::Mark());
    return seen;
  }

  Shard shard_{{"test", 2, kEpoch, /*memory_limit_bytes=*/8 << 20}};
  SessionKey session_;
  uint64_t layout_hash_ = 0;
  std::unique_ptr<SliceReader> reader_;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

// It consumes its sequence, which readers must see, and moves neither a version
// nor a parameter.
TEST_F(ShardSharedTest, ARefusedRecordMovesOnlyTheSequence) {
  const Vector before = Read(kRefused).parameters;
  Vector gradient(kStripe, 1.0f);
  gradient[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Push(kRefused, 1, gradient).verdict(), REFUSED_INVALID);
  Seen seen = Read(kRefused);
  EXPECT_EQ(seen.mark.version, 0u);
  EXPECT_EQ(seen.mark.applied_sequence, 1u);
  EXPECT_EQ(seen.parameters, before);
  EXPECT_EQ(Read(kRefused + 1).mark.applied_sequence, 0u);
  // Its retry changes nothing more, and the next record is applied.
  EXPECT_EQ(Push(kRefused, 1, gradient).verdict(), REFUSED_INVALID);
  gradient[7] = 1.0f;
  EXPECT_EQ(Push(kRefused, 2, gradient).verdict(), APPLIED);
  seen = Read(kRefused);
  EXPECT_EQ(seen.mark.version, 1u);
  EXPECT_EQ(seen.mark.applied_sequence, 2u);
  for (size_t i = 0; i < kStripe; ++i) {
    EXPECT_EQ(seen.parameters[i], before[i] - 0.5f) << i;
  }
}

// Of jobs that have ended, and are listed still, the newest keep their descriptors.
TEST_F(ShardSharedTest, SlicesWithoutSessionsKeepFewDescriptors) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  ASSERT_OK(shard_.CloseSession(session_));
  const auto shared = [this](const std::string& job) {
    return shard_.FindJob(job)->fetches()->Share(std::nullopt).status().code();
  };
  CreateShardJobRequest request = shard_.FindJob("job-1")->request();
  std::ptrdiff_t most = 0;
  for (size_t i = 0; i < 3 * SharedFiles::kIdle; ++i) {
    request.set_job(absl::StrCat("next-", i));
    ASSERT_OK(shard_.CreateJob(request));
    if (i == SharedFiles::kIdle) {
      most = open_files();
    }
    EXPECT_EQ(shared(request.job()), absl::StatusCode::kOk) << i;
  }
  EXPECT_LE(open_files(), most);
  EXPECT_EQ(shared("job-1"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shared("next-0"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shared(absl::StrCat("next-", 2 * SharedFiles::kIdle)), absl::StatusCode::kOk);
}

TEST_F(ShardSharedTest, ASliceWithASessionKeepsItsDescriptor) {
  CreateShardJobRequest request = shard_.FindJob("job-1")->request();
  for (size_t i = 0; i < 2 * SharedFiles::kIdle; ++i) {
    request.set_job(absl::StrCat("next-", i));
    ASSERT_OK(shard_.CreateJob(request));
  }
  EXPECT_OK(shard_.FindJob("job-1")->fetches()->Share(SessionId{1, 1}));
}

TEST_F(ShardSharedTest, AClosedSessionReadsNoMore) {
  EXPECT_TRUE(reader_->valid());
  ASSERT_OK(shard_.CloseSession(session_));
  EXPECT_FALSE(reader_->valid());
}

}  // namespace
}  // namespace monsoon
