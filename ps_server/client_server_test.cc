// Clients and servers together in one process, over each transport.
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "common/model/initializer.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Vector = std::vector<float>;

Vector Ramp(size_t size, float scale) {
  Vector values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = scale * static_cast<float>(static_cast<int>(i % 97) - 48);
  }
  return values;
}

ShardJobStatus StatusOf(TestShards* shards, uint32_t shard) {
  const absl::StatusOr<ShardStatusReply> reply = shards->control(shard)->GetStatus("test");
  EXPECT_OK(reply);
  return reply.ok() && reply->job_size() == 1 ? reply->job(0) : ShardJobStatus();
}

class ClientServerTest : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(Transports, ClientServerTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(ClientServerTest, FetchesTheInitialParametersWithTheSameBitsForAnyShardCount) {
  for (uint32_t count : {1u, 2u, 3u, 7u, 16u}) {
    ASSERT_OK_AND_ASSIGN(auto shards,
                         TestShards::Start({.shards = count, .transport = GetParam()}));
    ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
    ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
    Vector parameters(job.map.size(), -1.0f);
    FetchMarks marks;
    FetchStats stats;
    ASSERT_OK(client->Fetch(parameters, &marks, &stats));
    Vector expected(job.map.size());
    Initialize(job.layout, 1, 0, expected);
    EXPECT_EQ(parameters, expected);
    EXPECT_EQ(stats.bytes, expected.size() * 4);
    EXPECT_EQ(stats.rpcs, GetParam() == Transport::GRPC ? count : 0);
    EXPECT_EQ(stats.retries, 0u);
    ASSERT_EQ(marks.shard.size(), count);
    EXPECT_EQ(marks.shard[0][0].shard_epoch, shards->server(0)->shard_epoch());
  }
}

TEST_P(ClientServerTest, FinalWeightsHaveTheSameBitsForAnyShardCount) {
  Vector reference;
  for (uint32_t count : {1u, 2u, 3u, 7u, 16u}) {
    ASSERT_OK_AND_ASSIGN(auto shards,
                         TestShards::Start({.shards = count, .transport = GetParam()}));
    ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
    ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
    Vector parameters(job.map.size());
    for (int step = 0; step < 20; ++step) {
      FetchMarks marks;
      ASSERT_OK(client->Fetch(parameters, &marks, nullptr));
      Vector gradient(parameters.size());
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = 0.3f * parameters[i] + 0.01f * static_cast<float>((i * 7 + step) % 13);
      }
      ASSERT_OK_AND_ASSIGN(const auto result, client->Push(gradient, marks));
      EXPECT_EQ(result.staleness, 0);
      EXPECT_EQ(result.sequence, static_cast<uint64_t>(step) + 1);
      EXPECT_EQ(result.duplicates, 0u);
    }
    ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
    if (reference.empty()) {
      reference = parameters;
    }
    EXPECT_EQ(parameters, reference) << count << " shards";
  }
}

TEST_P(ClientServerTest, LargeModelsTravelInSeveralFrames) {
  TestJobOptions options;
  options.model = TestModel(1024, 1500);  // 6 MB
  options.optimizer = TestSgd(1.0);
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(options));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  Vector before(job.map.size()), after(job.map.size());
  ASSERT_OK(client->Fetch(before, nullptr, nullptr));
  const Vector gradient = Ramp(job.map.size(), 0.25f);
  ASSERT_OK_AND_ASSIGN(const auto result, client->Push(gradient, {}));
  EXPECT_EQ(result.staleness, -1);
  EXPECT_EQ(result.rpcs, 6u);  // 3 stripes of 1 MiB a shard
  ASSERT_OK(client->Fetch(after, nullptr, nullptr));
  for (size_t i = 0; i < after.size(); ++i) {
    ASSERT_EQ(after[i], before[i] - gradient[i]) << i;
  }
}

// Two replicas in a fixed order: the figures are known exactly.
TEST_P(ClientServerTest, ScriptedScheduleGivesExactStatistics) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto a, shards->Join(job, 0));
  ASSERT_OK_AND_ASSIGN(auto b, shards->Join(job, 1));
  Vector parameters(job.map.size());
  const Vector gradient = Ramp(job.map.size(), 1e-3f);
  FetchMarks marks_a, marks_b;
  FetchStats stats;
  ASSERT_OK(a->Fetch(parameters, &marks_a, nullptr));
  ASSERT_OK(b->Fetch(parameters, &marks_b, nullptr));
  EXPECT_EQ(a->Push(gradient, marks_a)->staleness, 0);
  EXPECT_EQ(a->Push(gradient, marks_a)->staleness, 1);  // its own push counts
  EXPECT_EQ(b->Push(gradient, marks_b)->staleness, 2);
  EXPECT_EQ(b->Push(gradient, {})->staleness, -1);
  ASSERT_OK(a->Fetch(parameters, &marks_a, &stats));
  EXPECT_EQ(stats.fetch_width, 0u);
  EXPECT_EQ(marks_a.shard[1][3].version, 4u);
  EXPECT_EQ(marks_a.shard[1][3].applied_sequence, 2u);
  EXPECT_EQ(a->Push(gradient, marks_a)->staleness, 0);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const ShardJobStatus status = StatusOf(shards.get(), shard);
    EXPECT_EQ(status.stripes(), 8u);
    EXPECT_EQ(status.version_min(), 5u);
    EXPECT_EQ(status.version_max(), 5u);
    EXPECT_EQ(status.applied(), 5u * 8);
    const std::map<uint64_t, uint64_t> histogram(status.staleness().begin(),
                                                 status.staleness().end());
    EXPECT_EQ(histogram, (std::map<uint64_t, uint64_t>{{0, 16}, {1, 8}, {2, 8}}));
    EXPECT_EQ(status.staleness_unknown(), 8u);
    EXPECT_EQ(status.fetched_stripes(), 3u * 8);
    EXPECT_EQ(status.bytes_fetched(), 3u * 2048 * 4);
    EXPECT_EQ(status.bytes_pushed(), 5u * 2048 * 4);
  }
}

TEST_P(ClientServerTest, NonFiniteGradientLeavesNoTrace) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  Vector gradient(job.map.size(), 1.0f);
  gradient[1234] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(client->Push(gradient, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1234")));
  EXPECT_EQ(StatusOf(shards.get(), 0).bytes_pushed(), 0u);
  gradient[1234] = 1.0f;
  ASSERT_OK_AND_ASSIGN(const auto result, client->Push(gradient, {}));
  EXPECT_EQ(result.sequence, 1u);
}

// Every answer and many requests are lost on both sides, and still each push
// counts exactly once.
TEST_P(ClientServerTest, LostFramesCountExactlyOnce) {
  FaultOptions server_fault;
  server_fault.drop = 0.15;
  server_fault.seed = 3;
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 3, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(
      auto lossy, TestShards::Start({.shards = 3, .fault = server_fault, .transport = GetParam()}));
  constexpr int kPushes = 30;
  Vector results[2];
  uint32_t retries = 0;
  uint64_t duplicates = 0;
  for (int run = 0; run < 2; ++run) {
    TestShards* servers = run == 0 ? shards.get() : lossy.get();
    absl::StatusOr<TestJob> job = absl::UnavailableError("not tried");
    absl::StatusOr<ParameterClientOptions> options = job.status();
    // Control calls get lost too; they are safe to repeat.
    for (int attempt = 0; attempt < 50 && !options.ok(); ++attempt) {
      job = servers->CreateJob(SmallJob());
      options = job.ok() ? servers->OpenSession(*job, 0) : job.status();
    }
    ASSERT_OK(options);
    if (run == 1) {
      options->fault.drop = 0.1;
      options->fault.seed = 5;
    }
    ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(*options));
    for (int i = 0; i < kPushes; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto result,
                           client->Push(Ramp(job->map.size(), 1e-3f * (i + 1)), {}));
      retries += result.retries;
      duplicates += result.duplicates;
    }
    results[run].resize(job->map.size());
    FetchMarks marks;
    ASSERT_OK(client->Fetch(results[run], &marks, nullptr));
    for (const auto& shard : marks.shard) {
      for (const StripeMark& mark : shard) {
        EXPECT_EQ(mark.version, static_cast<uint64_t>(kPushes));
        EXPECT_EQ(mark.applied_sequence, static_cast<uint64_t>(kPushes));
      }
    }
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_GT(retries, 0u);
  EXPECT_GT(duplicates, 0u);
}

TEST_P(ClientServerTest, ADelayIsPaidOnceForAllShards) {
  FaultOptions fault;
  fault.delay_ms = 50;
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 8, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
  options.fault = fault;
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
  Vector parameters(job.map.size());
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
  const auto taken = std::chrono::steady_clock::now() - start;
  EXPECT_GE(taken, std::chrono::milliseconds(50));
  EXPECT_LT(taken, std::chrono::milliseconds(8 * 50));
}

TEST_P(ClientServerTest, AClosedSessionIsRefusedAndTold) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 4));
  const Vector gradient(job.map.size(), 1.0f);
  ASSERT_OK(client->Push(gradient, {}));
  SessionKey session;
  session.set_job(job.name);
  session.set_worker(4);
  session.set_incarnation(1);
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_OK_AND_ASSIGN(const CloseSessionReply reply, shards->control(1)->CloseSession(session));
    EXPECT_EQ(reply.applied(), 8u);
  }
  const absl::Status push = client->Push(gradient, {}).status();
  EXPECT_THAT(push, StatusIs(absl::StatusCode::kFailedPrecondition,
                             AllOf(HasSubstr("ps/1"), HasSubstr("worker/4#1"))));
  EXPECT_TRUE(IsSessionLost(push));
  Vector parameters(job.map.size());
  EXPECT_TRUE(IsSessionLost(client->Fetch(parameters, nullptr, nullptr)));
  EXPECT_FALSE(IsSessionLost(absl::FailedPreconditionError("another")));
  EXPECT_THAT(shards->control(1)->OpenSession(session),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("closed")));
  // It comes back as a new incarnation.
  ASSERT_OK_AND_ASSIGN(auto again, shards->Join(job, 4, 2));
  ASSERT_OK(again->Push(gradient, {}));
}

TEST_P(ClientServerTest, ARestartedShardIsNoticed) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  const Vector gradient(job.map.size(), 1.0f);
  ASSERT_OK(client->Push(gradient, {}));
  ASSERT_OK(shards->Restart(1));
  const absl::Status push = client->Push(gradient, {}).status();
  EXPECT_TRUE(IsSessionLost(push)) << push;
  EXPECT_THAT(push, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ps/1")));
  Vector parameters(job.map.size());
  EXPECT_TRUE(IsSessionLost(client->Fetch(parameters, nullptr, nullptr)));
}

TEST_P(ClientServerTest, AnAbsentShardIsNamedAtTheDeadline) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
  options.addresses[1] = "unix:monsoon-nobody-is-here";
  options.deadline = absl::Milliseconds(300);
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
  Vector parameters(job.map.size());
  EXPECT_THAT(
      client->Fetch(parameters, nullptr, nullptr),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("ps/1 at unix:monsoon-nobody-is-here"), HasSubstr("last error"))));
  client->Cancel();
  EXPECT_THAT(client->Fetch(parameters, nullptr, nullptr),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
}

TEST_P(ClientServerTest, WritesBeforeTheFirstSessionOnly) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 3, .transport = GetParam()}));
  TestJobOptions options = SmallJob();
  options.written_by_client = true;
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(options));
  ASSERT_OK_AND_ASSIGN(auto writer, shards->Reader(job));
  Vector parameters(job.map.size(), -1.0f);
  ASSERT_OK(writer->Fetch(parameters, nullptr, nullptr));
  EXPECT_EQ(parameters, Vector(job.map.size(), 0.0f));
  const Vector written = Ramp(job.map.size(), 0.125f);
  ASSERT_OK(writer->Write(written));
  ASSERT_OK(writer->Write(written));
  ASSERT_OK(shards->Join(job, 0));
  EXPECT_THAT(writer->Write(Vector(job.map.size(), 7.0f)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("session")));
  ASSERT_OK(writer->Fetch(parameters, nullptr, nullptr));
  EXPECT_EQ(parameters, written);
}

TEST_P(ClientServerTest, ALaterWriterTakesOverAndSeals) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 3, .transport = GetParam()}));
  TestJobOptions options = SmallJob();
  options.model.Clear();
  ModelTensor* const tensor = options.model.add_tensor();
  tensor->set_name("wte.weight");
  tensor->add_shape(1008);
  options.written_by_client = true;
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(options));
  ASSERT_OK_AND_ASSIGN(auto first, shards->Reader(job));
  ASSERT_OK_AND_ASSIGN(auto second, shards->Reader(job));
  const auto of = [](uint64_t writer) {
    ParameterClient::WriteOptions options;
    options.writer = writer;
    return options;
  };
  const auto refused = [](const std::string& a, const std::string& b) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr("ps/"), HasSubstr(a), HasSubstr(b)));
  };
  const Vector early = Ramp(job.map.size(), 0.5f);
  const Vector late = Ramp(job.map.size(), 0.125f);
  Vector parameters(job.map.size());
  ASSERT_OK(first->Write(early, of(1)));
  EXPECT_THAT(first->Fetch(parameters, nullptr, nullptr), refused("writer 1", "sealed"));
  EXPECT_THAT(first->Seal(late, 1), refused("checksum", "writer 1"));
  ASSERT_OK(first->Seal(early, 1));
  ASSERT_OK(first->Seal(early, 1));
  ASSERT_OK(first->Fetch(parameters, nullptr, nullptr));
  EXPECT_EQ(parameters, early);
  ASSERT_OK(second->Write(late, of(2)));
  EXPECT_THAT(first->Fetch(parameters, nullptr, nullptr), refused("writer 2", "sealed"));
  EXPECT_THAT(first->Write(early, of(1)), refused("writer 1", "writer 2"));
  EXPECT_THAT(first->Seal(early, 1), refused("writer 1", "writer 2"));
  ASSERT_OK(second->Seal(late, 2));
  ASSERT_OK(shards->Join(job, 0));
  ASSERT_OK(first->Fetch(parameters, nullptr, nullptr));
  EXPECT_EQ(parameters, late);
}

TEST_P(ClientServerTest, AnErrorThatQuotesALongNameIsAnswered) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  Vector parameters(job.map.size());
  // A header has room for the question, but not for the question and an answer.
  for (const size_t longest : {65'400, 65'504, 65'506, 65'508}) {
    TestJob unknown = job;
    unknown.name.clear();
    while (unknown.name.size() + 2 <= longest) unknown.name += "ä";
    ASSERT_OK_AND_ASSIGN(auto reader, shards->Reader(unknown));
    const absl::Status status = reader->Fetch(parameters, nullptr, nullptr);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("ä...")));
    EXPECT_LT(status.message().size(), 2000u);
  }
  ASSERT_OK_AND_ASSIGN(auto reader, shards->Reader(job));
  EXPECT_OK(reader->Fetch(parameters, nullptr, nullptr));
}

// Its sequence may be applied on other shards: it is not like a gradient that the
// client itself refuses, whose sequence the next one takes.
TEST_P(ClientServerTest, APushThatAShardDoesNotUnderstandIsNoInvalidGradient) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
  ++options.layout_hash;
  options.transport = GetParam();
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
  EXPECT_THAT(client->Push(Vector(job.map.size(), 1.0f), {}).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("layout")));
}

TEST_P(ClientServerTest, FetchAndPushRunAtOnce) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  constexpr uint64_t kPushes = 50;
  std::atomic<bool> done{false};
  std::jthread pusher([&] {
    const Vector gradient(job.map.size(), 1.0f);
    for (uint64_t i = 0; i < kPushes; ++i) {
      EXPECT_OK(client->Push(gradient, {}));
    }
    done = true;
  });
  Vector parameters(job.map.size());
  std::vector<std::vector<StripeMark>> last(2, std::vector<StripeMark>(8));
  while (!done) {
    FetchMarks marks;
    ASSERT_OK(client->Fetch(parameters, &marks, nullptr));
    for (uint32_t shard = 0; shard < 2; ++shard) {
      for (uint32_t stripe = 0; stripe < 8; ++stripe) {
        EXPECT_GE(marks.shard[shard][stripe].version, last[shard][stripe].version);
        EXPECT_EQ(marks.shard[shard][stripe].version, marks.shard[shard][stripe].applied_sequence);
      }
    }
    last = marks.shard;
  }
}

TEST_P(ClientServerTest, ASessionThatKeepsNoPushesKnowsWhichShardDoesNotAnswer) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
  options.deadline = absl::Milliseconds(1500);
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
  const Vector gradient(job.map.size(), 1.0f);
  ASSERT_OK(client->Push(gradient, {}));
  EXPECT_EQ(client->kept().silent_shard, std::nullopt);
  shards->Stop(1);
  EXPECT_EQ(client->Push(gradient, {}).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->kept().silent_shard, 1u);
}

TEST_P(ClientServerTest, StatusChecksProtocolAndCluster) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1, .transport = GetParam()}));
  EXPECT_THAT(shards->control(0)->GetStatus("other"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("\"test\""), HasSubstr("\"other\""))));
  ASSERT_OK_AND_ASSIGN(const ShardStatusReply status, shards->control(0)->GetStatus(""));
  EXPECT_EQ(status.cluster(), "test");
  EXPECT_EQ(status.shard_epoch(), shards->server(0)->shard_epoch());
  EXPECT_NE(status.shard_epoch(), 0u);
  EXPECT_GT(status.rss_bytes(), 0u);
  EXPECT_GT(status.pid(), 0u);
}

}  // namespace
}  // namespace monsoon
