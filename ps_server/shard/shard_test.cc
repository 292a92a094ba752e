#include "ps_server/shard/shard.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/model/initializer.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/protocol.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ShardTest, FillsItsSliceFromTheSeed) {
  const auto layout = ParameterLayout::Create(request_.model());
  Vector expected(kFloats);
  Initialize(*layout, 9, 0, expected);
  EXPECT_EQ(Parameters(), expected);
}

TEST_F(ShardTest, AppliesAPush) {
  const Vector before = Parameters();
  const PushVerdict verdict = PushOne(MakePush(2, 1), Vector(kStripe, 3.0f));
  EXPECT_EQ(verdict.verdict(), APPLIED);
  EXPECT_EQ(verdict.stripe(), 2u);
  EXPECT_EQ(verdict.sequence(), 1u);
  EXPECT_EQ(verdict.version(), 1u);
  EXPECT_EQ(verdict.staleness(), -1);
  const Vector after = Parameters();
  for (size_t i = 0; i < kFloats; ++i) {
    // Adagrad: 0.5 * 3 / (3 + 1).
    const float moved = i / kStripe == 2 ? 0.375f : 0.0f;
    EXPECT_EQ(after[i], before[i] - moved) << i;
  }
}

// Weights [16, 15] fill the first 240 floats, biases the rest of the last stripe.
TEST_F(ShardTest, BiasesOfAStripeDoNotDecayWhereTheJobSaysSo) {
  request_.set_job("decay");
  request_.mutable_model()->set_input_shape(0, 15);
  request_.mutable_model()->mutable_layer(0)->mutable_dense()->set_no_bias(false);
  request_.set_layout_hash(ParameterLayout::Create(request_.model())->Hash());
  request_.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  request_.mutable_optimizer()->set_weight_decay(0.5);
  request_.mutable_optimizer()->set_weight_decay_weights_only(true);
  session_.set_job("decay");
  ASSERT_OK(shard_.CreateJob(request_));
  ASSERT_OK(shard_.OpenSession(session_));
  const auto parameters = [this] {
    AlignedFloats out(kFloats);
    EXPECT_OK(shard_.FindJob("decay")->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr,
                                                              FLOAT32, &out));
    return Vector(out.span().begin(), out.span().end());
  };
  const Vector before = parameters();
  EXPECT_EQ(PushOne(MakePush(2, 1), Vector(kStripe, 0.0f)).verdict(), APPLIED);
  EXPECT_EQ(PushOne(MakePush(3, 1), Vector(kStripe, 0.0f)).verdict(), APPLIED);
  const Vector after = parameters();
  for (size_t i = 0; i < kFloats; ++i) {
    const bool decayed = i >= 2 * kStripe && i < 240;
    EXPECT_EQ(after[i], decayed ? 0.5f * before[i] : before[i]) << i;
    EXPECT_NE(before[i], 0.0f);
  }
}

TEST_F(ShardTest, AMalformedRecordOfALossyFormatChangesNothing) {
  const std::string before = Snapshot();
  // Two TOP_K entries with one index.
  const auto push = [&](uint64_t sequence, uint32_t first, uint32_t second, uint32_t length) {
    PushRequest request = MakePush(2, sequence);
    request.mutable_record(0)->set_format(TOP_K);
    request.mutable_record(0)->set_length(length);
    Vector payload(length / sizeof(float), 3.0f);
    payload[0] = std::bit_cast<float>(first);
    payload[1] = std::bit_cast<float>(second);
    return PushOne(request, payload);
  };
  PushVerdict verdict = push(1, 7, 7, 16);
  EXPECT_EQ(verdict.verdict(), REFUSED_INVALID);
  EXPECT_THAT(verdict.message(), HasSubstr("entry 1 of 2 has index 7"));
  EXPECT_EQ(push(1, 5, 7, 16).verdict(), REFUSED_INVALID);  // the sequence is consumed
  EXPECT_EQ(push(2, 7, 1000000, 16).verdict(), REFUSED_INVALID);
  verdict = push(3, 1, 2, 12);
  EXPECT_EQ(verdict.verdict(), REFUSED_INVALID);
  EXPECT_THAT(verdict.message(), HasSubstr("64 values, the record: 12 bytes are not 1 to"));
  EXPECT_EQ(Snapshot(), before);
  EXPECT_EQ(push(4, 5, 7, 16).verdict(), APPLIED);
  EXPECT_NE(Snapshot(), before);
}

TEST_F(ShardTest, AFloatMayStraddleTwoChunks) {
  PushRequest request = MakePush(0, 1);
  AddRecord(&request, 1, 1);
  Vector gradient(2 * kStripe);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(i) - 60.5f;
  }
  ASSERT_OK(Push(request, gradient));
  const std::string whole = Snapshot();
  for (size_t chunk : {1u, 3u, 7u, 255u, 257u}) {
    ASSERT_OK(shard_.DeleteJob("job-1"));
    ASSERT_OK(shard_.CreateJob(request_));
    ASSERT_OK(shard_.OpenSession(session_));
    ASSERT_OK(Push(request, gradient, chunk));
    EXPECT_EQ(Snapshot(), whole) << chunk;
  }
}

TEST_F(ShardTest, ARepeatedSequenceIsAcknowledgedAndNotApplied) {
  const Vector gradient(kStripe, 1.0f);
  EXPECT_EQ(PushOne(MakePush(0, 1), gradient).verdict(), APPLIED);
  EXPECT_EQ(PushOne(MakePush(0, 2), gradient).verdict(), APPLIED);
  const std::string before = Snapshot();
  for (uint64_t sequence : {1u, 2u}) {
    const PushVerdict verdict = PushOne(MakePush(0, sequence), gradient);
    EXPECT_EQ(verdict.verdict(), DUPLICATE);
    EXPECT_EQ(verdict.version(), 2u);
  }
  EXPECT_EQ(Snapshot(), before);
  EXPECT_EQ(Status().duplicates(), 2u);
  EXPECT_EQ(Status().applied(), 2u);
}

TEST_F(ShardTest, AGapIsRefusedWithTheExpectedNumber) {
  const Vector gradient(kStripe, 1.0f);
  EXPECT_EQ(PushOne(MakePush(0, 1), gradient).verdict(), APPLIED);
  const std::string before = Snapshot();
  const PushVerdict verdict = PushOne(MakePush(0, 3), gradient);
  EXPECT_EQ(verdict.verdict(), REFUSED_GAP);
  EXPECT_EQ(verdict.expected_sequence(), 2u);
  EXPECT_EQ(Snapshot(), before);
  // Not skipped: 2 is still next.
  EXPECT_EQ(PushOne(MakePush(0, 2), gradient).verdict(), APPLIED);
}

TEST_F(ShardTest, BadContentChangesNoBitConsumesItsSequenceAndIsRefusedAgain) {
  const Vector good(kStripe, 1.0f);
  EXPECT_EQ(PushOne(MakePush(1, 1), good).verdict(), APPLIED);
  const std::string before = Snapshot();
  uint64_t sequence = 2;
  using Limits = std::numeric_limits<float>;
  for (float bad :
       {Limits::quiet_NaN(), Limits::signaling_NaN(), Limits::infinity(), -Limits::infinity()}) {
    Vector gradient = good;
    gradient[17] = bad;
    for (int repetition = 0; repetition < 2; ++repetition) {
      // The second time with good content: the first verdict stands.
      const PushVerdict verdict = PushOne(MakePush(1, sequence), repetition == 0 ? gradient : good);
      EXPECT_EQ(verdict.verdict(), REFUSED_INVALID);
      EXPECT_THAT(verdict.message(), AllOf(HasSubstr("stripe 1"), HasSubstr("flat index 81")));
      EXPECT_EQ(verdict.version(), 1u);
    }
    ++sequence;
  }
  for (size_t length : {kStripe - 1, kStripe + 1, size_t{0}}) {
    PushRequest request = MakePush(1, sequence++);
    request.mutable_record(0)->set_length(static_cast<uint32_t>(length * sizeof(float)));
    const PushVerdict verdict = PushOne(request, Vector(length, 1.0f));
    EXPECT_EQ(verdict.verdict(), REFUSED_INVALID);
    EXPECT_THAT(verdict.message(), HasSubstr("bytes instead of 256"));
  }
  EXPECT_EQ(Snapshot(), before);
  EXPECT_EQ(Status().version_max(), 1u);
  EXPECT_EQ(Status().refused(), 4u * 2 + 3);
  EXPECT_EQ(PushOne(MakePush(1, sequence), good).verdict(), APPLIED);
}

TEST_F(ShardTest, WrongEpochHashSessionStripeOrFormatChangeNothing) {
  const Vector gradient(kStripe, 1.0f);
  const std::string before = Snapshot();
  PushRequest request = MakePush(0, 1);
  request.mutable_record(0)->set_shard_epoch(kEpoch + 1);
  EXPECT_EQ(PushOne(request, gradient).verdict(), REFUSED_EPOCH);
  request = MakePush(0, 1);
  request.set_layout_hash(1);
  EXPECT_EQ(PushOne(request, gradient).verdict(), REFUSED_REQUEST);
  request = MakePush(kStripes, 1);
  EXPECT_EQ(PushOne(request, gradient).verdict(), REFUSED_REQUEST);
  request = MakePush(0, 0);
  EXPECT_EQ(PushOne(request, gradient).verdict(), REFUSED_REQUEST);
  request = MakePush(0, 1);
  request.mutable_record(0)->set_format(static_cast<WireFormat>(9));
  EXPECT_EQ(PushOne(request, gradient).verdict(), REFUSED_REQUEST);
  for (auto change : {+[](SessionKey* key) { key->set_worker(2); },
                      +[](SessionKey* key) { key->set_incarnation(2); },
                      +[](SessionKey* key) { key->set_job("job-2"); }}) {
    request = MakePush(0, 1);
    change(request.mutable_session());
    EXPECT_EQ(PushOne(request, gradient).verdict(), REFUSED_SESSION);
  }
  EXPECT_EQ(Snapshot(), before);
  // None of them consumed the sequence.
  EXPECT_EQ(PushOne(MakePush(0, 1), gradient).verdict(), APPLIED);
}

TEST_F(ShardTest, AMalformedFrameChangesNothing) {
  const std::string before = Snapshot();
  PushRequest request = MakePush(0, 1);
  EXPECT_THAT(Push(request, Vector(kStripe + 1, 1.0f)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("260")));
  EXPECT_THAT(Push(request, Vector(kStripe - 1, 1.0f)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("252")));
  request.mutable_record(0)->set_length(0);
  for (int i = 0; i < kMaxFrameRecords; ++i) {
    AddRecord(&request, 0, 1)->set_length(0);
  }
  EXPECT_THAT(Push(request, {}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limit")));
  EXPECT_EQ(Snapshot(), before);
}

TEST_F(ShardTest, EachRecordHasItsOwnVerdict) {
  PushRequest request = MakePush(0, 1);
  AddRecord(&request, 1, 5);                      // a gap
  AddRecord(&request, 2, 1)->set_shard_epoch(1);  // an old epoch
  AddRecord(&request, 3, 1);                      // a NaN
  AddRecord(&request, 0, 2);
  Vector payload(5 * kStripe, 2.0f);
  payload[3 * kStripe] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_OK_AND_ASSIGN(const PushReply reply, Push(request, payload));
  ASSERT_EQ(reply.verdict_size(), 5);
  EXPECT_EQ(reply.verdict(0).verdict(), APPLIED);
  EXPECT_EQ(reply.verdict(1).verdict(), REFUSED_GAP);
  EXPECT_EQ(reply.verdict(2).verdict(), REFUSED_EPOCH);
  EXPECT_EQ(reply.verdict(3).verdict(), REFUSED_INVALID);
  EXPECT_EQ(reply.verdict(4).verdict(), APPLIED);
  EXPECT_EQ(reply.verdict(4).version(), 2u);
  EXPECT_EQ(Status().version_min(), 0u);
  EXPECT_EQ(Status().version_max(), 2u);
}

TEST_F(ShardTest, StalenessIsTheVersionMinusTheBase) {
  const Vector gradient(kStripe, 1.0f);
  const struct {
    uint64_t base_shard_epoch, base_version;
    int64_t staleness;
  } kSchedule[] = {{kEpoch, 0, 0},  {kEpoch, 0, 1},      {kEpoch, 0, 2},
                   {kEpoch, 3, 0},  {kEpoch - 1, 0, -1}, {0, 0, -1},
                   {kEpoch, 7, -1}, {kEpoch, 6, 1},      {kEpoch, 0, 8}};
  uint64_t sequence = 1;
  for (const auto& step : kSchedule) {
    PushRequest request = MakePush(0, sequence++);
    request.mutable_record(0)->set_base_shard_epoch(step.base_shard_epoch);
    request.mutable_record(0)->set_base_version(step.base_version);
    EXPECT_EQ(PushOne(request, gradient).staleness(), step.staleness) << sequence;
    // A duplicate is no sample.
    EXPECT_EQ(PushOne(request, gradient).staleness(), -1);
  }
  const ShardJobStatus status = Status();
  const std::map<uint64_t, uint64_t> histogram(status.staleness().begin(),
                                               status.staleness().end());
  EXPECT_EQ(histogram, (std::map<uint64_t, uint64_t>{{0, 2}, {1, 2}, {2, 1}, {8, 1}}));
  EXPECT_EQ(status.staleness_unknown(), 3u);
}

TEST_F(ShardTest, ANewIncarnationClosesTheOlderOne) {
  const Vector gradient(kStripe, 1.0f);
  EXPECT_EQ(PushOne(MakePush(0, 1), gradient).verdict(), APPLIED);
  const PushRequest old = MakePush(0, 2);
  session_.set_incarnation(2);
  ASSERT_OK_AND_ASSIGN(const OpenSessionReply reply, shard_.OpenSession(session_));
  EXPECT_EQ(reply.shard_epoch(), kEpoch);
  ASSERT_OK(shard_.OpenSession(session_));
  EXPECT_EQ(PushOne(old, gradient).verdict(), REFUSED_SESSION);
  EXPECT_EQ(PushOne(MakePush(0, 1), gradient).verdict(), APPLIED);
  session_.set_incarnation(1);
  EXPECT_EQ(shard_.OpenSession(session_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shard_.CloseSession(session_)->applied(), 1u);
}

// Ids and incarnations begin again with each life of the coordinator.
TEST_F(ShardTest, AKeyThatReturnsInAnotherTermIsAnotherJobs) {
  const Vector g(kStripe, 1.0f);
  EXPECT_EQ(PushOne(MakePush(0, 1), g).verdict(), APPLIED);
  request_.set_job_term(8);
  request_.set_term(8);
  ASSERT_OK(shard_.CreateJob(request_));
  session_.set_job_term(8);
  EXPECT_EQ(PushOne(MakePush(0, 1), g).verdict(), REFUSED_SESSION);
  ASSERT_OK_AND_ASSIGN(const OpenSessionReply opened, shard_.OpenSession(session_, 8));
  EXPECT_FALSE(opened.resumed());
  // Not a duplicate of the other job's.
  const PushVerdict verdict = PushOne(MakePush(0, 1), g);
  EXPECT_EQ(verdict.verdict(), APPLIED);
  EXPECT_EQ(verdict.version(), 1u);
  ASSERT_OK(shard_.DeleteJob("job-1", 8, 8));
  EXPECT_NE(shard_.FindJob("job-1"), nullptr);  // The older one stays.
}

// Else a late copy of the call that took an older slice away takes this one.
TEST_F(ShardTest, ACallThatWasOvertakenIsRefused) {
  const auto late =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("call 7 was served before it"));
  ASSERT_OK(shard_.DeleteJob("job-1", 0, /*term=*/5, /*call=*/6));
  request_.set_term(5);
  request_.set_call(7);
  ASSERT_OK(shard_.CreateJob(request_));
  ASSERT_OK(shard_.CreateJob(request_)) << "the same once more";
  EXPECT_THAT(shard_.DeleteJob("job-1", 0, 5, 6), late);
  request_.set_call(5);
  EXPECT_THAT(shard_.CreateJob(request_), late);
  EXPECT_NE(shard_.FindJob("job-1"), nullptr);
  // The next coordinator counts from the beginning.
  ASSERT_OK(shard_.DeleteJob("job-1", 0, 6, 1));
  EXPECT_EQ(shard_.FindJob("job-1"), nullptr);
}

// Else a session of the slice before is opened in this one, whose initial parameters nobody could
// write any more.
TEST_F(ShardTest, ACallOfASessionThatWasOvertakenIsRefused) {
  const auto late =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("call 11 was served before it"));
  ASSERT_OK(shard_.OpenSession(session_, /*term=*/5, /*call=*/8));
  ASSERT_OK(shard_.DeleteJob("job-1", 0, 5, 10));
  request_.set_term(5);
  request_.set_call(11);
  ASSERT_OK(shard_.CreateJob(request_));
  EXPECT_THAT(shard_.OpenSession(session_, 5, 8), late);
  EXPECT_THAT(shard_.CloseSession(session_, 5, 9), late);
  // One that is meant for this slice, which has neither had the session nor closed it.
  ASSERT_OK_AND_ASSIGN(OpenSessionReply opened, shard_.OpenSession(session_, 5, 12));
  EXPECT_FALSE(opened.resumed());
  ASSERT_OK_AND_ASSIGN(opened, shard_.OpenSession(session_, 5, 12));
  EXPECT_TRUE(opened.resumed()) << "the same once more";
}

TEST_F(ShardTest, ACoordinatorThatWasReplacedIsNotObeyed) {
  ASSERT_OK(shard_.DeleteJob("no-such-job", 0, 5));
  EXPECT_EQ(shard_.GetStatus({})->term(), 5u);
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("obeys the coordinator of term 5"));
  request_.set_term(4);
  EXPECT_THAT(shard_.CreateJob(request_), refused);
  EXPECT_THAT(shard_.DeleteJob("job-1", 0, 4), refused);
  EXPECT_THAT(shard_.OpenSession(session_, 4), refused);
  EXPECT_THAT(shard_.CloseSession(session_, 4), refused);
  VectorRequest vector;
  vector.set_term(4);
  EXPECT_THAT(shard_.Vector(vector), refused);
  // The data of a session that is open goes on.
  EXPECT_EQ(PushOne(MakePush(0, 1), Vector(kStripe, 1.0f)).verdict(), APPLIED);
}

TEST_F(ShardTest, AnOpenSessionIsResumedWithWhatItHasApplied) {
  EXPECT_EQ(PushOne(MakePush(0, 1), Vector(kStripe, 1.0f)).verdict(), APPLIED);
  EXPECT_EQ(PushOne(MakePush(1, 1), Vector(kStripe, 1.0f)).verdict(), APPLIED);
  ASSERT_OK_AND_ASSIGN(const OpenSessionReply reply, shard_.OpenSession(session_));
  EXPECT_TRUE(reply.resumed());
  EXPECT_EQ(reply.applied(), 2u);
}

TEST_F(ShardTest, CreateJobIsSafeToRepeatAndRefusesOtherContent) {
  ASSERT_OK_AND_ASSIGN(const CreateShardJobReply reply, shard_.CreateJob(request_));
  EXPECT_EQ(reply.shard_epoch(), kEpoch);
  EXPECT_EQ(reply.end(), kFloats);
  EXPECT_EQ(reply.stripes(), kStripes);
  EXPECT_EQ(reply.stripe_bytes(), kStripe * 4);
  request_.set_seed(10);
  EXPECT_THAT(shard_.CreateJob(request_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("job-1")));
  request_.set_job("job-2");
  request_.set_layout_hash(5);
  EXPECT_THAT(shard_.CreateJob(request_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layout")));
  request_.set_layout_hash(ParameterLayout::Create(request_.model())->Hash());
  request_.set_shard(1);
  EXPECT_THAT(shard_.CreateJob(request_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shard 1 of 1")));
}

TEST_F(ShardTest, AJobOverTheMemoryIsRefusedWithTheSum) {
  CreateShardJobRequest large = request_;
  large.set_job("large");
  large.mutable_model()->mutable_layer(0)->mutable_dense()->set_units(8192);
  large.set_layout_hash(ParameterLayout::Create(large.model())->Hash());
  const uint64_t needed = PlanJob(large)->memory_bytes;
  EXPECT_GT(needed, 16u * 8192 * sizeof(float) * 2);
  Shard shard({"test", 2, kEpoch, needed});
  ASSERT_OK(shard.CreateJob(request_));
  const uint64_t used = shard.GetStatus({})->memory_used_bytes();
  EXPECT_EQ(used, PlanJob(request_)->memory_bytes);
  EXPECT_THAT(shard.CreateJob(large), StatusIs(absl::StatusCode::kResourceExhausted,
                                               AllOf(HasSubstr(std::to_string(used + needed)),
                                                     HasSubstr("memory_limit_mib"))));
  ASSERT_OK(shard.DeleteJob("job-1"));
  ASSERT_OK(shard.DeleteJob("job-1"));
  EXPECT_EQ(shard.GetStatus({})->memory_used_bytes(), 0u);
  ASSERT_OK(shard.CreateJob(large));
  EXPECT_EQ(shard.GetStatus({})->memory_used_bytes(), needed);
}

TEST_F(ShardTest, DrainingRefusesWithoutConsuming) {
  const Vector gradient(kStripe, 1.0f);
  const std::string before = Snapshot();
  shard_.StartDraining();
  EXPECT_EQ(PushOne(MakePush(0, 1), gradient).verdict(), REFUSED_BUSY);
  EXPECT_EQ(Snapshot(), before);
  EXPECT_EQ(shard_.OpenSession(session_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(shard_.GetStatus({})->draining());
}

TEST_F(ShardTest, FetchIsChecked) {
  FetchRequest fetch;
  *fetch.mutable_session() = session_;
  fetch.set_layout_hash(request_.layout_hash());
  fetch.set_stripe_count(kStripes);
  ASSERT_OK(shard_.StartFetch(fetch));
  for (const WireFormat format : {TOP_K, INT4, TOP_K_2BIT, static_cast<WireFormat>(9)}) {
    fetch.set_format(format);
    EXPECT_EQ(shard_.StartFetch(fetch).status().code(), absl::StatusCode::kInvalidArgument);
  }
  fetch.set_format(INT8);
  ASSERT_OK(shard_.StartFetch(fetch));
  fetch.set_first_stripe(1);
  EXPECT_EQ(shard_.StartFetch(fetch).status().code(), absl::StatusCode::kInvalidArgument);
  fetch.set_first_stripe(UINT32_MAX);
  EXPECT_EQ(shard_.StartFetch(fetch).status().code(), absl::StatusCode::kInvalidArgument);
  fetch.set_first_stripe(0);
  fetch.set_layout_hash(3);
  EXPECT_EQ(shard_.StartFetch(fetch).status().code(), absl::StatusCode::kInvalidArgument);
  fetch.mutable_session()->set_job("nope");
  EXPECT_EQ(shard_.StartFetch(fetch).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ShardTest, StatusRefusesOtherProtocolsAndClusters) {
  ShardStatusRequest request;
  request.set_protocol_version(kProtocolVersion + 1);
  EXPECT_THAT(shard_.GetStatus(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol")));
  request.set_protocol_version(kProtocolVersion);
  request.set_cluster("test");
  ASSERT_OK(shard_.GetStatus(request));
  request.set_cluster("toast");
  EXPECT_THAT(shard_.GetStatus(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("\"toast\"")));
}

}  // namespace
}  // namespace monsoon
