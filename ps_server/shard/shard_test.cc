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

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Vector = std::vector<float>;

constexpr uint64_t kEpoch = 77;
constexpr size_t kStripe = 64;  // floats
constexpr uint32_t kStripes = 4;
constexpr size_t kFloats = kStripe * kStripes;

// One shard with a job of four stripes and an open session of worker 1.
class ShardTest : public ::testing::Test {
 protected:
  ShardTest() {
    request_.set_job("job-1");
    request_.mutable_model()->set_name("tiny");
    request_.mutable_model()->add_input_shape(16);
    Dense* dense = request_.mutable_model()->add_layer()->mutable_dense();
    dense->set_units(16);
    dense->set_no_bias(true);
    request_.set_seed(9);
    Adagrad* adagrad = request_.mutable_optimizer()->mutable_adagrad();
    adagrad->set_rate(0.5);
    adagrad->set_epsilon(1.0);
    request_.set_shards(1);
    request_.set_max_stripe_bytes(kStripe * 4);
    request_.set_layout_hash(ParameterLayout::Create(request_.model())->Hash());
    session_.set_job("job-1");
    session_.set_worker(1);
    session_.set_incarnation(1);
  }

  void SetUp() override {
    ASSERT_OK(shard_.CreateJob(request_));
    ASSERT_OK(shard_.OpenSession(session_));
  }

  PushRequest MakePush(uint32_t stripe, uint64_t sequence) {
    PushRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(request_.layout_hash());
    AddRecord(&request, stripe, sequence);
    return request;
  }

  static PushRecord* AddRecord(PushRequest* request, uint32_t stripe, uint64_t sequence) {
    PushRecord* record = request->add_record();
    record->set_stripe(stripe);
    record->set_sequence(sequence);
    record->set_shard_epoch(kEpoch);
    record->set_length(kStripe * sizeof(float));
    return record;
  }

  absl::StatusOr<PushReply> Push(const PushRequest& request, const Vector& payload,
                                 size_t chunk_bytes = SIZE_MAX) {
    const auto bytes = std::as_bytes(std::span(payload));
    std::vector<ByteChunk> chunks;
    for (size_t begin = 0; begin < bytes.size(); begin += chunk_bytes) {
      chunks.push_back(bytes.subspan(begin, std::min(chunk_bytes, bytes.size() - begin)));
    }
    ChunkCursor cursor(chunks);
    return shard_.Push(request, &cursor, &scratch_);
  }

  PushVerdict PushOne(const PushRequest& request, const Vector& payload) {
    const absl::StatusOr<PushReply> reply = Push(request, payload);
    EXPECT_OK(reply);
    return reply.ok() && reply->verdict_size() == 1 ? reply->verdict(0) : PushVerdict();
  }

  std::string Snapshot() { return shard_.FindJob("job-1")->Snapshot(); }

  ShardJobStatus Status() { return shard_.GetStatus({})->job(0); }

  Vector Parameters() {
    AlignedFloats out(kFloats);
    EXPECT_OK(
        shard_.FindJob("job-1")->CopyStripes(std::nullopt, 0, kStripes, nullptr, FLOAT32, &out));
    return Vector(out.span().begin(), out.span().end());
  }

  Shard shard_{{"test", 2, kEpoch, /*memory_limit_bytes=*/1 << 20}};
  CreateShardJobRequest request_;
  SessionKey session_;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

TEST_F(ShardTest, FillsItsSliceFromTheSeed) {
  const auto layout = ParameterLayout::Create(request_.model());
  Vector expected(kFloats);
  Initialize(*layout, 9, 0, expected);
  EXPECT_EQ(Parameters(), expected);
}

// What a checkpoint of the job would hold.
struct Cut {
  Vector parameters = Vector(kFloats), state = Vector(kFloats);
  std::vector<StripeRecord> stripes;
};

Cut CutOf(const ShardJob& job) {
  Cut cut;
  for (uint32_t stripe = 0; stripe < job.stripes(); ++stripe) {
    cut.stripes.push_back(
        job.CutStripe(stripe, std::span(cut.parameters).subspan(stripe * kStripe, kStripe),
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
  const ShardCheckpoint whole = job->CutJob();
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
  EXPECT_EQ(shard_.FindJob("job-2")->Snapshot(), Snapshot());
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
  EXPECT_EQ(shard_.FindJob("job-2")->Snapshot(), Snapshot());
}

TEST_F(ShardTest, RefusesStateThatTheOptimizerDoesNotHave) {
  CreateShardJobRequest copy = request_;
  copy.set_job("job-2");
  copy.set_written_by_client(true);
  copy.mutable_optimizer()->mutable_sgd()->set_rate(1);
  ASSERT_OK(shard_.CreateJob(copy));
  const std::string before = shard_.FindJob("job-2")->Snapshot();
  EXPECT_THAT(
      WriteAll(&shard_, copy, 1, Vector(kFloats, 1.0f), std::vector<StripeRecord>(kStripes)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slot 1")));
  EXPECT_EQ(shard_.FindJob("job-2")->Snapshot(), before);
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
  job->NoteWritten(first.stripes);
  EXPECT_EQ(marks()[1], (std::vector<uint64_t>{2, 1, 0}));
  const Cut second = CutOf(*job);
  PushOne(MakePush(1, 3), Vector(kStripe, 1.0f));
  job->NoteWritten(second.stripes);
  EXPECT_EQ(marks()[1], (std::vector<uint64_t>{3, 2, 1}));
  EXPECT_EQ(marks()[0], (std::vector<uint64_t>{0, 0, 0}));
  EXPECT_EQ(PushOne(MakePush(1, 4), Vector(kStripe, 1.0f)).durable_sequence(), 1u);
  // A session that the newest generation does not know has nothing there.
  session_.set_worker(2);
  ASSERT_OK(shard_.OpenSession(session_));
  PushOne(MakePush(1, 1), Vector(kStripe, 1.0f));
  job->NoteWritten(second.stripes);
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
    EXPECT_OK(
        shard_.FindJob("decay")->CopyStripes(std::nullopt, 0, kStripes, nullptr, FLOAT32, &out));
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
