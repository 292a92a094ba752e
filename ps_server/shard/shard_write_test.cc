// Several clients that write a slice's initial parameters one after another, and seals.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/xxh3.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/shard.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Vector = std::vector<float>;

constexpr size_t kStripe = 32;  // floats
constexpr uint32_t kStripes = 2;
constexpr size_t kFloats = kStripe * kStripes;

auto Refused(const std::string& a, const std::string& b) {
  return StatusIs(absl::StatusCode::kFailedPrecondition,
                  AllOf(HasSubstr("job gpt-1"), HasSubstr(a), HasSubstr(b)));
}

class ShardWriteTest : public ::testing::Test {
 protected:
  ShardWriteTest() {
    create_.set_job("gpt-1");
    ModelTensor* const tensor = create_.mutable_model()->add_tensor();
    tensor->set_name("wte");
    tensor->add_shape(kFloats - 3);  // the last three are padding
    create_.mutable_optimizer()->mutable_adagrad()->set_rate(0.5);
    create_.set_shards(1);
    create_.set_max_stripe_bytes(kStripe * sizeof(float));
    create_.set_layout_hash(ParameterLayout::Create(create_.model())->Hash());
    create_.set_written_by_client(true);
  }
  void SetUp() override { ASSERT_OK(shard_.CreateJob(create_)); }

  static Vector Values(float first) {
    Vector values(kFloats);
    for (size_t i = 0; i < kFloats - 3; ++i) {
      values[i] = first + static_cast<float>(i);
    }
    return values;
  }

  WriteRequest Request(uint64_t writer) const {
    WriteRequest request;
    request.set_job("gpt-1");
    request.set_layout_hash(create_.layout_hash());
    request.set_writer(writer);
    return request;
  }

  // The stripe's part of `values`.
  absl::Status Write(uint64_t writer, uint32_t stripe, const Vector& values, uint32_t slot = 0) {
    WriteRequest request = Request(writer);
    request.set_slot(slot);
    FetchRecord* const record = request.add_record();
    record->set_stripe(stripe);
    record->set_length(kStripe * sizeof(float));
    const auto part = std::span(values).subspan(stripe * kStripe, kStripe);
    const std::vector<ByteChunk> chunks = {std::as_bytes(part)};
    ChunkCursor cursor(chunks);
    return shard_.Write(request, &cursor, &scratch_).status();
  }
  absl::Status WriteAll(uint64_t writer, const Vector& values) {
    for (uint32_t stripe = 0; stripe < kStripes; ++stripe) {
      if (const absl::Status written = Write(writer, stripe, values); !written.ok()) {
        return written;
      }
    }
    return absl::OkStatus();
  }
  absl::Status Send(const WriteRequest& request) {
    ChunkCursor nothing({});
    return shard_.Write(request, &nothing, &scratch_).status();
  }
  absl::Status Seal(uint64_t writer, const Vector& values) {
    WriteRequest request = Request(writer);
    request.mutable_seal()->set_checksum(Xxh3::Of(std::as_bytes(std::span(values))));
    return Send(request);
  }

  absl::StatusOr<Vector> Fetch(bool read_only = true) {
    FetchRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(create_.layout_hash());
    request.set_stripe_count(kStripes);
    request.set_read_only(read_only);
    const auto job = shard_.StartFetch(request);
    if (!job.ok()) {
      return job.status();
    }
    AlignedFloats out(kFloats);
    const auto copied =
        (*job)->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr, FLOAT32, &out);
    if (!copied.ok()) {
      return copied.status();
    }
    return Vector(out.span().begin(), out.span().end());
  }

  static SessionKey Session() {
    SessionKey session;
    session.set_job("gpt-1");
    session.set_worker(3);
    session.set_incarnation(1);
    return session;
  }

  Shard shard_{{"test", 2, /*shard_epoch=*/77, /*memory_limit_bytes=*/1 << 20}};
  CreateShardJobRequest create_;
  SessionKey session_ = Session();
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

TEST_F(ShardWriteTest, NobodyReadsWhatIsNotSealed) {
  const auto unsealed = Refused("cannot be read", "sealed");
  EXPECT_THAT(Fetch().status(), unsealed);
  ASSERT_OK(WriteAll(1, Values(1)));
  EXPECT_THAT(Fetch().status(), unsealed);
  CheckpointRequest checkpoint;
  checkpoint.set_job("gpt-1");
  checkpoint.set_generation(1);
  EXPECT_THAT(shard_.StartCheckpoint(checkpoint).status(), unsealed);
  EXPECT_EQ(shard_.FindJob("gpt-1")->fetches()->Share(std::nullopt).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(Seal(1, Values(1)));
  ASSERT_OK_AND_ASSIGN(const Vector read, Fetch());
  EXPECT_EQ(read, Values(1));
  EXPECT_OK(shard_.StartCheckpoint(checkpoint));
  // Another writer may still come: who maps the parameters would not learn of it.
  EXPECT_EQ(shard_.FindJob("gpt-1")->fetches()->Share(std::nullopt).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(shard_.OpenSession(session_));
  EXPECT_OK(Fetch(/*read_only=*/false));
}

TEST_F(ShardWriteTest, ASessionDoesNotStandForASeal) {
  ASSERT_OK(WriteAll(1, Values(1)));
  ASSERT_OK(shard_.OpenSession(session_));
  EXPECT_THAT(Fetch(/*read_only=*/false).status(), Refused("cannot be read", "writer 1"));
  EXPECT_THAT(Seal(1, Values(1)), Refused("session", "before"));
}

TEST_F(ShardWriteTest, OfTwoWritersTheLaterOneWins) {
  ASSERT_OK(Write(1, 0, Values(1)));
  ASSERT_OK(Write(2, 1, Values(200)));
  EXPECT_THAT(Write(1, 1, Values(1)), Refused("writer 1 comes late", "writer 2"));
  EXPECT_THAT(Seal(1, Values(1)), Refused("writer 1 comes late", "writer 2"));
  ASSERT_OK(Write(2, 0, Values(200)));
  EXPECT_THAT(Write(1, 0, Values(1)), Refused("writer 1", "writer 2"));
  ASSERT_OK(Seal(2, Values(200)));
  ASSERT_OK_AND_ASSIGN(const Vector read, Fetch());
  EXPECT_EQ(read, Values(200));
}

TEST_F(ShardWriteTest, AWriteAfterTheSealChangesNothing) {
  ASSERT_OK(WriteAll(2, Values(1)));
  ASSERT_OK(Seal(2, Values(1)));
  EXPECT_OK(Write(2, 0, Values(9)));
  EXPECT_THAT(Write(1, 0, Values(9)), Refused("writer 1", "writer 2"));
  EXPECT_OK(Write(2, 0, Values(9), /*slot=*/1));
  EXPECT_THAT(Seal(2, Values(9)), Refused("writer 2 has sealed", "checksum"));
  EXPECT_OK(Seal(2, Values(1)));
  ASSERT_OK_AND_ASSIGN(const Vector read, Fetch());
  EXPECT_EQ(read, Values(1));
}

TEST_F(ShardWriteTest, ALaterWriterBeginsAgain) {
  ASSERT_OK(WriteAll(1, Values(1)));
  ASSERT_OK(Seal(1, Values(1)));
  ASSERT_OK(Write(2, 1, Values(50)));
  EXPECT_THAT(Fetch().status(), Refused("cannot be read", "writer 2"));
  EXPECT_THAT(Seal(1, Values(1)), Refused("writer 1", "writer 2"));
  // What the first one wrote is still in the other stripe.
  EXPECT_THAT(Seal(2, Values(50)), Refused("checksum", "write all parameters again"));
  ASSERT_OK(Write(2, 0, Values(50)));
  ASSERT_OK(Seal(2, Values(50)));
  ASSERT_OK_AND_ASSIGN(const Vector read, Fetch());
  EXPECT_EQ(read, Values(50));
}

TEST_F(ShardWriteTest, AWrongChecksumSealsNothing) {
  ASSERT_OK(WriteAll(1, Values(1)));
  Vector other = Values(1);
  other[kFloats - 1] = 1.0f;  // padding counts
  WriteRequest request = Request(1);
  request.mutable_seal()->set_checksum(Xxh3::Of(std::as_bytes(std::span(other))));
  EXPECT_THAT(Send(request),
              Refused(absl::StrCat(absl::Hex(request.seal().checksum())), "writer 1"));
  EXPECT_THAT(Fetch().status(), Refused("cannot be read", "writer 1"));
  ASSERT_OK(Seal(1, Values(1)));
}

TEST_F(ShardWriteTest, ASealIsSafeToRepeatAlsoAfterTheFirstPush) {
  ASSERT_OK(WriteAll(1, Values(1)));
  ASSERT_OK(Seal(1, Values(1)));
  ASSERT_OK(Seal(1, Values(1)));
  EXPECT_THAT(Seal(1, Values(2)), Refused("has sealed", "checksum"));
  ASSERT_OK(shard_.OpenSession(session_));
  PushRequest push;
  *push.mutable_session() = session_;
  push.set_layout_hash(create_.layout_hash());
  PushRecord* const record = push.add_record();
  record->set_sequence(1);
  record->set_shard_epoch(77);
  record->set_length(kStripe * sizeof(float));
  const Vector gradient(kStripe, 1.0f);
  const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(gradient))};
  ChunkCursor cursor(chunks);
  ASSERT_OK_AND_ASSIGN(const PushReply reply, shard_.Push(push, &cursor, &scratch_));
  EXPECT_EQ(reply.verdict(0).verdict(), APPLIED);
  EXPECT_OK(Seal(1, Values(1)));
}

// They are replicas' values: no optimizer, decay, clip or rate.
TEST_F(ShardWriteTest, StatisticsGoTowardsWhatIsPushed) {
  create_.set_job("gpt-2");
  create_.mutable_model()->Clear();
  ModelTensor* const weight = create_.mutable_model()->add_tensor();
  weight->set_name("bn.weight");
  weight->add_shape(16);
  ModelTensor* const mean = create_.mutable_model()->add_tensor();
  mean->set_name("bn.running_mean");
  mean->add_shape(16);
  mean->set_kind(ModelTensor::STATISTIC);
  create_.mutable_optimizer()->set_clip_value(0.25);
  create_.mutable_optimizer()->set_weight_decay(0.5);
  create_.mutable_optimizer()->mutable_adagrad()->set_epsilon(1.0);
  create_.set_layout_hash(ParameterLayout::Create(create_.model())->Hash());
  create_.set_written_by_client(false);
  ASSERT_OK(shard_.CreateJob(create_));
  session_.set_job("gpt-2");
  ASSERT_OK(shard_.OpenSession(session_));
  PushRequest push;
  *push.mutable_session() = session_;
  push.set_layout_hash(create_.layout_hash());
  PushRecord* const record = push.add_record();
  record->set_shard_epoch(77);
  record->set_length(kStripe * sizeof(float));
  const Vector pushed(kStripe, 3.0f);
  record->set_base_shard_epoch(77);
  for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
    record->set_sequence(sequence);
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(pushed))};
    ChunkCursor cursor(chunks);
    ASSERT_OK_AND_ASSIGN(const PushReply reply, shard_.Push(push, &cursor, &scratch_));
    EXPECT_EQ(reply.verdict(0).verdict(), APPLIED);
  }
  Vector w(kStripe), state(kStripe);
  const StripeRecord cut = shard_.FindJob("gpt-2")->checkpoint()->CutStripe(0, w, state);
  EXPECT_EQ(cut.version(), 2u);
  // h = 0.0625; w = -0.5 * 0.25 / (0.25 + 1) = -0.1, then g = 0.25 - 0.05 = 0.2.
  EXPECT_FLOAT_EQ(state[0], 0.0625f + 0.04f);
  EXPECT_FLOAT_EQ(w[0], -0.1f - 0.5f * 0.2f / (std::sqrt(0.1025f) + 1));
  for (size_t i = 16; i < kStripe; ++i) {
    EXPECT_EQ(w[i], 3.0f);
    EXPECT_EQ(state[i], 0.0f);
  }
}

// Its slice is not there, or is made again without what was written.
TEST_F(ShardWriteTest, AShardThatWasStartedAnewSealsNothingThatItHasNot) {
  ASSERT_OK(shard_.DeleteJob("gpt-1"));
  EXPECT_EQ(Write(2, 0, Values(1)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Seal(2, Values(1)).code(), absl::StatusCode::kNotFound);
  ASSERT_OK(shard_.CreateJob(create_));
  // Not even if all that was written is zero.
  EXPECT_THAT(Seal(2, Vector(kFloats)), Refused("writer 2", "written nothing"));
  ASSERT_OK(Write(2, 1, Values(1)));
  EXPECT_THAT(Seal(2, Values(1)), Refused("checksum", "write all parameters again"));
}

TEST_F(ShardWriteTest, ASealComesWithoutRecords) {
  WriteRequest request = Request(1);
  request.mutable_seal()->set_checksum(1);
  request.add_record()->set_length(kStripe * sizeof(float));
  const Vector values(kStripe);
  const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(values))};
  ChunkCursor cursor(chunks);
  EXPECT_THAT(shard_.Write(request, &cursor, &scratch_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a seal with 1 records")));
}

}  // namespace
}  // namespace monsoon
