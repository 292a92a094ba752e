// Contributions and vector operations as a shard's callers see them.
#include <limits>
#include <string>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/shard.h"
#include "ps_server/vector/named_vectors.h"
#include "ps_server/vector/operation_log.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Vector = std::vector<float>;

constexpr uint64_t kEpoch = 5;
constexpr size_t kStripe = 64;  // floats
constexpr uint32_t kStripes = 4;
constexpr size_t kFloats = kStripe * kStripes;

// A job of four stripes, an open session and an open evaluation of three
// contributions.
class ShardContributeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CreateShardJobRequest request;
    request.set_job("job-1");
    request.mutable_model()->add_input_shape(16);
    Dense* dense = request.mutable_model()->add_layer()->mutable_dense();
    dense->set_units(16);
    dense->set_no_bias(true);
    request.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
    request.set_shards(1);
    request.set_max_stripe_bytes(kStripe * sizeof(float));
    hash_ = ParameterLayout::Create(request.model())->Hash();
    request.set_layout_hash(hash_);
    ASSERT_OK(shard_.CreateJob(request));
    session_.set_job("job-1");
    session_.set_worker(1);
    session_.set_incarnation(1);
    ASSERT_OK(shard_.OpenSession(session_));
    VectorRequest open = Operation();
    open.mutable_open_evaluation()->set_evaluation(1);
    open.mutable_open_evaluation()->set_contributions(3);
    ASSERT_OK(shard_.Vector(open));
  }

  VectorRequest Operation() {
    VectorRequest request;
    request.set_job("job-1");
    request.set_shard_epoch(kEpoch);
    request.set_op_id(next_operation_++);
    return request;
  }

  ContributeRequest Request(uint32_t contribution, const std::vector<uint32_t>& stripes) const {
    ContributeRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(hash_);
    request.set_evaluation(1);
    request.set_contribution(contribution);
    for (const uint32_t stripe : stripes) {
      ContributeRecord* record = request.add_record();
      record->set_stripe(stripe);
      record->set_shard_epoch(kEpoch);
      record->set_length(kStripe * sizeof(float));
    }
    return request;
  }

  absl::StatusOr<PushReply> Contribute(const ContributeRequest& request, const Vector& payload) {
    const ByteChunk chunk = std::as_bytes(std::span(payload));
    ChunkCursor cursor(std::span(&chunk, 1));
    return shard_.Contribute(request, &cursor, &scratch_);
  }

  // The verdict of a request with one record.
  PushVerdict One(const ContributeRequest& request, const Vector& payload) {
    const absl::StatusOr<PushReply> reply = Contribute(request, payload);
    EXPECT_OK(reply);
    return reply.ok() && reply->verdict_size() == 1 ? reply->verdict(0) : PushVerdict();
  }

  // What a close says of the incomplete evaluation.
  std::string CloseError() {
    VectorRequest close = Operation();
    --next_operation_;  // it fails
    close.mutable_close_evaluation()->set_evaluation(1);
    close.mutable_close_evaluation()->set_out("g");
    close.mutable_close_evaluation()->set_factor(1.0);
    return std::string(shard_.Vector(close).status().message());
  }

  Shard shard_{{"test", 3, kEpoch, /*memory_limit_bytes=*/1 << 20}};
  SessionKey session_;
  uint64_t hash_ = 0;
  uint64_t next_operation_ = 1;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

TEST_F(ShardContributeTest, EachStripeCountsAContributionOnce) {
  ASSERT_OK_AND_ASSIGN(const PushReply reply,
                       Contribute(Request(0, {0, 2}), Vector(2 * kStripe, 1.0f)));
  ASSERT_EQ(reply.verdict_size(), 2);
  EXPECT_EQ(reply.verdict(0).verdict(), APPLIED);
  EXPECT_EQ(reply.verdict(1).verdict(), APPLIED);
  EXPECT_EQ(reply.verdict(1).stripe(), 2u);
  EXPECT_EQ(reply.verdict(1).staleness(), -1);
  ASSERT_OK_AND_ASSIGN(const PushReply again,
                       Contribute(Request(0, {0, 1, 2, 3}), Vector(kFloats, 7.0f)));
  EXPECT_EQ(again.verdict(0).verdict(), DUPLICATE);
  EXPECT_EQ(again.verdict(1).verdict(), APPLIED);
  EXPECT_EQ(again.verdict(2).verdict(), DUPLICATE);
  EXPECT_EQ(again.verdict(3).verdict(), APPLIED);
  const ShardJobStatus status = shard_.GetStatus({})->job(0);
  EXPECT_EQ(status.applied(), 4u);
  EXPECT_EQ(status.duplicates(), 2u);
  EXPECT_EQ(status.version_max(), 0u);  // parameters have not changed
}

TEST_F(ShardContributeTest, BadContentIsRefusedAndConsumesNothing) {
  const Vector good(kStripe, 1.0f);
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    Vector gradient = good;
    gradient[17] = bad;
    const PushVerdict verdict = One(Request(0, {1}), gradient);
    EXPECT_EQ(verdict.verdict(), REFUSED_INVALID);
    EXPECT_THAT(verdict.message(), AllOf(HasSubstr("stripe 1"), HasSubstr("flat index 81")));
  }
  ContributeRequest short_one = Request(0, {1});
  short_one.mutable_record(0)->set_length(4);
  EXPECT_EQ(One(short_one, Vector(1, 1.0f)).verdict(), REFUSED_INVALID);
  EXPECT_EQ(One(Request(0, {1}), good).verdict(), APPLIED);
}

TEST_F(ShardContributeTest, WrongHashStripeEpochSessionOrEvaluationChangeNothing) {
  const Vector gradient(kStripe, 1.0f);
  ContributeRequest request = Request(0, {0});
  request.set_layout_hash(hash_ + 1);
  EXPECT_EQ(One(request, gradient).verdict(), REFUSED_REQUEST);
  EXPECT_EQ(One(Request(0, {kStripes}), gradient).verdict(), REFUSED_REQUEST);
  EXPECT_EQ(One(Request(3, {0}), gradient).verdict(), REFUSED_REQUEST);
  request = Request(0, {0});
  request.set_evaluation(0);
  EXPECT_EQ(One(request, gradient).verdict(), REFUSED_REQUEST);
  request.set_evaluation(2);
  EXPECT_EQ(One(request, gradient).verdict(), REFUSED_CLOSED);
  request = Request(0, {0});
  request.mutable_record(0)->set_shard_epoch(kEpoch + 1);
  EXPECT_EQ(One(request, gradient).verdict(), REFUSED_EPOCH);
  for (auto change : {+[](SessionKey* key) { key->set_worker(2); },
                      +[](SessionKey* key) { key->set_incarnation(2); },
                      +[](SessionKey* key) { key->set_job("job-2"); }}) {
    request = Request(0, {0});
    change(request.mutable_session());
    EXPECT_EQ(One(request, gradient).verdict(), REFUSED_SESSION);
  }
  EXPECT_THAT(CloseError(), HasSubstr("contribution 0 is missing on stripe 0, which has 0 of 3"));
  EXPECT_EQ(One(Request(0, {0}), gradient).verdict(), APPLIED);
}

TEST_F(ShardContributeTest, AMalformedFrameChangesNothing) {
  EXPECT_THAT(Contribute(Request(0, {0, 1}), Vector(kStripe, 1.0f)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("512")));
  EXPECT_THAT(CloseError(), HasSubstr("which has 0 of 3"));
}

TEST_F(ShardContributeTest, AClosedSessionContributesNoMore) {
  const Vector gradient(kStripe, 1.0f);
  EXPECT_EQ(One(Request(0, {0}), gradient).verdict(), APPLIED);
  ASSERT_OK(shard_.CloseSession(session_));
  const PushVerdict verdict = One(Request(1, {0}), gradient);
  EXPECT_EQ(verdict.verdict(), REFUSED_SESSION);
  EXPECT_THAT(verdict.message(), HasSubstr("worker/1#1"));
}

TEST_F(ShardContributeTest, DrainingRefusesWithoutConsuming) {
  shard_.StartDraining();
  EXPECT_EQ(One(Request(0, {0}), Vector(kStripe, 1.0f)).verdict(), REFUSED_BUSY);
  EXPECT_EQ(shard_.Vector(Operation()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ShardContributeTest, OperationsNeedTheEpochAndTheJob) {
  VectorRequest request = Operation();
  request.mutable_only_free();
  request.set_shard_epoch(kEpoch + 1);
  EXPECT_THAT(shard_.Vector(request), StatusIs(absl::StatusCode::kAborted, HasSubstr("ps/3")));
  request.set_shard_epoch(kEpoch);
  request.set_job("job-2");
  EXPECT_THAT(shard_.Vector(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job-2")));
  request.set_job("job-1");
  ASSERT_OK(shard_.Vector(request));
}

TEST_F(ShardContributeTest, TheMemoryOfVectorsAndSumsIsCountedAndFreedWithTheJob) {
  const uint64_t before = shard_.GetStatus({})->memory_used_bytes();
  EXPECT_GE(before, kFloats * (sizeof(float) + sizeof(int64_t)));  // parameters and sums
  VectorRequest fill = Operation();
  fill.mutable_fill()->set_out("x");
  ASSERT_OK(shard_.Vector(fill));
  EXPECT_EQ(shard_.GetStatus({})->memory_used_bytes(),
            before + VectorCost(kFloats * sizeof(float)) + OperationLog::BytesFor(fill, 0));
  ASSERT_OK(shard_.DeleteJob("job-1"));
  EXPECT_EQ(shard_.GetStatus({})->memory_used_bytes(), 0u);
}

}  // namespace
}  // namespace monsoon
