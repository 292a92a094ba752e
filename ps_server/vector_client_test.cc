// Vectors and contributions over gRPC: clients and servers in one process.
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

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

constexpr uint32_t kContributions = 12;

// What a coordinator does: each operation goes to all shards, until it is
// answered, and the scalars are added in the order of the shards.
class Driver {
 public:
  Driver(TestShards* shards, std::string job, uint32_t count)
      : shards_(shards), job_(std::move(job)), count_(count) {}

  absl::StatusOr<VectorReply> Run(VectorRequest request) {
    request.set_job(job_);
    request.set_op_id(++last_);
    VectorReply sum;
    for (uint32_t shard = 0; shard < count_; ++shard) {
      request.set_shard_epoch(shards_->server(shard)->shard_epoch());
      absl::StatusOr<VectorReply> reply = shards_->control(shard)->Vector(request);
      for (int attempt = 0; attempt < 50 && absl::IsUnavailable(reply.status()); ++attempt) {
        reply = shards_->control(shard)->Vector(request);
      }
      if (!reply.ok()) {
        --last_;
        return reply.status();
      }
      sum.mutable_scalar()->Resize(reply->scalar_size(), 0.0);
      for (int k = 0; k < reply->scalar_size(); ++k) {
        sum.set_scalar(k, sum.scalar(k) + reply->scalar(k));
      }
      sum.set_evaluate_again(sum.evaluate_again() || reply->evaluate_again());
    }
    return sum;
  }

  absl::Status Open(uint64_t evaluation, bool probe) {
    VectorRequest request;
    request.mutable_open_evaluation()->set_evaluation(evaluation);
    request.mutable_open_evaluation()->set_contributions(probe ? 1 : kContributions);
    request.mutable_open_evaluation()->set_probe(probe);
    return Run(request).status();
  }

  absl::StatusOr<VectorReply> Close(uint64_t evaluation, const std::string& out) {
    VectorRequest request;
    request.mutable_close_evaluation()->set_evaluation(evaluation);
    request.mutable_close_evaluation()->set_out(out);
    request.mutable_close_evaluation()->set_factor(1.0 / 3.0);
    return Run(request);
  }

  absl::Status Uniform(const std::string& out) {
    VectorRequest request;
    request.mutable_uniform()->set_out(out);
    request.mutable_uniform()->set_seed(4);
    request.mutable_uniform()->set_low(-1.0);
    request.mutable_uniform()->set_high(1.0);
    return Run(request).status();
  }

 private:
  TestShards* const shards_;
  const std::string job_;
  const uint32_t count_;
  uint64_t last_ = 0;
};

Vector GradientOf(uint32_t contribution, size_t size) {
  Vector values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = 0.37f * static_cast<float>((i * 31 + contribution * 17) % 101) - 13.7f;
  }
  return values;
}

struct Session {
  TestJob job;
  std::unique_ptr<ParameterClient> client;
};

// Control calls may get lost; they are safe to repeat.
absl::StatusOr<Session> Join(TestShards* shards, uint32_t worker, FaultOptions fault = {}) {
  absl::Status status;
  for (int attempt = 0; attempt < 50; ++attempt) {
    absl::StatusOr<TestJob> job = shards->CreateJob(SmallJob());
    absl::StatusOr<ParameterClientOptions> options =
        job.ok() ? shards->OpenSession(*job, worker) : job.status();
    if (!options.ok()) {
      status = options.status();
      continue;
    }
    options->fault = fault;
    absl::StatusOr<std::unique_ptr<ParameterClient>> client = ParameterClient::Create(*options);
    return client.ok() ? absl::StatusOr<Session>(Session{*std::move(job), *std::move(client)})
                       : client.status();
  }
  return status;
}

class VectorClientTest : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(Transports, VectorClientTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(VectorClientTest, VectorsHaveTheSameBitsForAnyShardCount) {
  Vector reference;
  for (const uint32_t count : {1u, 2u, 3u, 7u}) {
    ASSERT_OK_AND_ASSIGN(auto shards,
                         TestShards::Start({.shards = count, .transport = GetParam()}));
    ASSERT_OK_AND_ASSIGN(const Session session, Join(shards.get(), 0));
    Driver driver(shards.get(), session.job.name, count);
    ASSERT_OK(driver.Uniform("u"));
    Vector vector(session.job.map.size());
    FetchStats stats;
    ASSERT_OK(session.client->FetchVector("u", vector, &stats));
    EXPECT_EQ(stats.bytes, vector.size() * sizeof(float));
    EXPECT_EQ(stats.rpcs, count);
    if (reference.empty()) {
      reference = vector;
    }
    EXPECT_EQ(vector, reference) << count;
    VectorRequest dot;
    dot.mutable_dot()->set_x("u");
    dot.mutable_dot()->set_y("u");
    ASSERT_OK_AND_ASSIGN(const VectorReply reply, driver.Run(dot));
    double expected = 0.0;
    for (const float value : vector) {
      expected += static_cast<double>(value) * static_cast<double>(value);
    }
    EXPECT_NEAR(reply.scalar(0), expected, expected * 1e-12);
    // Without a session too.
    ASSERT_OK_AND_ASSIGN(auto reader, shards->Reader(session.job));
    Vector read(vector.size());
    ASSERT_OK(reader->FetchVector("u", read, nullptr));
    EXPECT_EQ(read, vector);
  }
}

TEST_P(VectorClientTest, AMissingVectorIsNamedAndIsNoLostSession) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const Session session, Join(shards.get(), 0));
  Vector vector(session.job.map.size());
  const absl::Status status = session.client->FetchVector("w7", vector, nullptr);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("ps/"), HasSubstr("\"w7\""))));
  EXPECT_FALSE(IsSessionLost(status));
  EXPECT_EQ(session.client->FetchVector("", vector, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  SessionKey key;
  key.set_job(session.job.name);
  key.set_incarnation(1);
  ASSERT_OK(Driver(shards.get(), session.job.name, 2).Uniform("w7"));
  ASSERT_OK(session.client->FetchVector("w7", vector, nullptr));
  ASSERT_OK(shards->control(1)->CloseSession(key));
  EXPECT_TRUE(IsSessionLost(session.client->FetchVector("w7", vector, nullptr)));
  EXPECT_TRUE(IsSessionLost(session.client->Contribute(1, 0, vector).status()));
}

TEST_P(VectorClientTest, TheDriversErrorsArriveWithTheirCodes) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const Session session, Join(shards.get(), 0));
  Driver driver(shards.get(), session.job.name, 1);
  ASSERT_OK(driver.Uniform("u"));
  EXPECT_THAT(driver.Uniform("u"), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("\"u\"")));
  VectorRequest request;
  request.set_job(session.job.name);
  request.set_op_id(2);
  request.set_shard_epoch(shards->server(0)->shard_epoch() + 1);
  request.mutable_only_free();
  EXPECT_THAT(shards->control(0)->Vector(request),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("epoch")));
}

TEST_P(VectorClientTest, ClosedEvaluationsAndBadGradientsAreTold) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(const Session session, Join(shards.get(), 0));
  Driver driver(shards.get(), session.job.name, 2);
  Vector gradient = GradientOf(0, session.job.map.size());
  ASSERT_OK_AND_ASSIGN(const auto early, session.client->Contribute(1, 0, gradient));
  EXPECT_TRUE(early.closed);
  ASSERT_OK(driver.Open(1, /*probe=*/true));
  ASSERT_OK_AND_ASSIGN(const auto first, session.client->Contribute(1, 0, gradient));
  EXPECT_FALSE(first.closed);
  EXPECT_EQ(first.duplicates, 0u);
  EXPECT_EQ(first.rpcs, 2u);
  EXPECT_GT(first.bytes, gradient.size() * sizeof(float));
  ASSERT_OK_AND_ASSIGN(const auto again, session.client->Contribute(1, 0, gradient));
  EXPECT_EQ(again.duplicates, 16u);
  EXPECT_THAT(session.client->Contribute(1, 1, gradient),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("contribution 1 of 1")));
  gradient[77] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(session.client->Contribute(1, 0, gradient),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("flat index 77")));
  ASSERT_OK(driver.Close(1, "g"));
  gradient[77] = 0.0f;
  ASSERT_OK_AND_ASSIGN(const auto late, session.client->Contribute(1, 0, gradient));
  EXPECT_TRUE(late.closed);
}

// Two replicas send all contributions, in different orders; the second time
// many frames and answers are lost on both sides. Each counts once.
TEST_P(VectorClientTest, LostFramesAndBackupCopiesGiveTheSameBits) {
  FaultOptions server_fault;
  server_fault.drop = 0.1;
  server_fault.seed = 3;
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 3, .transport = GetParam()}));
  ASSERT_OK_AND_ASSIGN(
      auto lossy, TestShards::Start({.shards = 3, .fault = server_fault, .transport = GetParam()}));
  Vector results[2];
  std::atomic<uint32_t> retries{0};
  for (int run = 0; run < 2; ++run) {
    TestShards* const servers = run == 0 ? shards.get() : lossy.get();
    FaultOptions fault;
    fault.drop = run == 0 ? 0.0 : 0.1;
    fault.seed = 5;
    ASSERT_OK_AND_ASSIGN(const Session a, Join(servers, 0, fault));
    ASSERT_OK_AND_ASSIGN(const Session b, Join(servers, 1, fault));
    Driver driver(servers, a.job.name, 3);
    const size_t size = a.job.map.size();
    ASSERT_OK(driver.Open(1, /*probe=*/true));
    ASSERT_OK(a.client->Contribute(1, 0, GradientOf(0, size)));
    ASSERT_OK(driver.Close(1, "none"));
    ASSERT_OK(driver.Open(2, /*probe=*/false));
    std::vector<std::jthread> threads;
    for (const bool reversed : {false, true}) {
      threads.emplace_back([&, reversed] {
        for (uint32_t i = 0; i < kContributions; ++i) {
          const uint32_t id = reversed ? kContributions - 1 - i : i;
          ParameterClient* const client = (reversed ? b : a).client.get();
          const auto result = client->Contribute(2, id, GradientOf(id, size));
          EXPECT_OK(result);
          retries += result.ok() ? result->retries : 0;
        }
      });
    }
    threads.clear();
    ASSERT_OK_AND_ASSIGN(const VectorReply reply, driver.Close(2, "g"));
    EXPECT_FALSE(reply.evaluate_again());
    results[run].resize(size);
    ASSERT_OK(a.client->FetchVector("g", results[run], nullptr));
  }
  EXPECT_GT(retries, 0u);
  EXPECT_EQ(results[0], results[1]);
  for (size_t i = 0; i < results[0].size(); ++i) {
    double sum = 0.0;
    for (uint32_t c = 0; c < kContributions; ++c) {
      sum += static_cast<double>(0.37f * static_cast<float>((i * 31 + c * 17) % 101) - 13.7f);
    }
    EXPECT_NEAR(results[0][i], sum / 3.0, 1e-5) << i;
  }
}

}  // namespace
}  // namespace monsoon
