// Clients with several connections to a shard, over gRPC: their frames are spread, and whatever
// becomes of some of the connections, what is fetched and pushed is the same as with one.
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using Vector = std::vector<float>;

constexpr uint32_t kConnections = 4;
constexpr int kMostDescriptors = 4096;

// 12 frames a push and a fetch, in stripes of 256 KiB.
TestJobOptions LargeJob() {
  TestJobOptions options;
  options.model = TestModel(256, 12 << 10);
  options.optimizer = TestSgd(0.5);
  options.max_stripe_bytes = 256 << 10;
  return options;
}

TestShardsOptions Several(uint32_t shards = 1) {
  TestShardsOptions options;
  options.shards = shards;
  options.link = TestLink::kTcp;
  options.transport = Transport::GRPC;
  options.connections = kConnections;
  return options;
}

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(absl::string_view(address).substr(address.rfind(':') + 1), &port));
  return port;
}

// This process's ends of connections to a server at the port, which may be in it too.
std::vector<int> ConnectionsTo(int port) {
  std::vector<int> found;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    sockaddr_in6 peer = {};  // gRPC's sockets are of both versions
    socklen_t length = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.sin6_family == AF_INET6 && ntohs(peer.sin6_port) == port) {
      found.push_back(fd);
    }
  }
  return found;
}

Vector Ramp(uint64_t size, float step) {
  Vector ramp(size);
  for (uint64_t i = 0; i < size; ++i) {
    ramp[i] = step * static_cast<float>(i % 1000);
  }
  return ramp;
}

// Trains a little; the parameters at the end. `at`: the step that is being made; null: not asked.
absl::StatusOr<Vector> Train(ParameterClient* client, const TestJob& job, int steps,
                             std::atomic<int>* at = nullptr) {
  Vector parameters(job.map.size());
  for (int step = 1; step <= steps; ++step) {
    if (at != nullptr) {
      *at = step;
    }
    ASSIGN_OR_RETURN(const auto result,
                     client->Push(Ramp(job.map.size(), 1e-3f * static_cast<float>(step)), {}));
    if (result.sequence != static_cast<uint64_t>(step) || result.refused_invalid != 0) {
      return absl::InternalError(result.first_refusal);
    }
    FetchMarks marks;
    RETURN_IF_ERROR(client->Fetch(parameters, &marks, nullptr));
    for (const auto& shard : marks.shard) {
      for (const StripeMark& mark : shard) {
        if (mark.version != static_cast<uint64_t>(step)) {
          return absl::InternalError("a push did not count once");
        }
      }
    }
  }
  return parameters;
}

// By one connection, without trouble.
Vector Expected(int steps) {
  TestShardsOptions options = Several();
  options.connections = 1;
  const auto shards = TestShards::Start(options).value();
  const TestJob job = shards->CreateJob(LargeJob()).value();
  return Train(shards->Join(job, 0)->get(), job, steps).value();
}

TEST(ConnectionsTest, FetchesAndPushesHaveSoManyEach) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(Several()));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(LargeJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  const int port = PortOf(shards->addresses()[0]);
  const size_t others = ConnectionsTo(port).size();
  ASSERT_OK_AND_ASSIGN(const Vector parameters, Train(client.get(), job, 1));
  EXPECT_EQ(ConnectionsTo(port).size() - others, 2 * kConnections);
  EXPECT_EQ(parameters, Expected(1));
}

TEST(ConnectionsTest, OneFrameTakesOneConnection) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(Several()));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  const int port = PortOf(shards->addresses()[0]);
  const size_t others = ConnectionsTo(port).size();
  ASSERT_OK(Train(client.get(), job, 1));
  EXPECT_EQ(ConnectionsTo(port).size() - others, 2u);
}

TEST(ConnectionsTest, SeveralShardsGiveTheSameBits) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(Several(/*shards=*/3)));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(LargeJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  ASSERT_OK_AND_ASSIGN(Vector parameters, Train(client.get(), job, 2));
  const Vector expected = Expected(2);
  parameters.resize(expected.size());  // each shard's part is padded
  EXPECT_EQ(parameters, expected);
}

// Cut again and again, some in the middle of an exchange; but not so often that a slow build has no
// connection for as long as an exchange takes.
TEST(ConnectionsTest, WhatACutConnectionHadIsRepeatedAndCountsOnce) {
  constexpr int kSteps = 8;
  constexpr int kCutsInAStep = 12;
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(Several()));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(LargeJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  const int port = PortOf(shards->addresses()[0]);
  std::atomic<bool> over{false};
  std::atomic<int> step{0};
  int cuts = 0;
  std::thread cutter([&] {
    for (size_t next = 0; !over; ++next) {
      const std::vector<int> connections = ConnectionsTo(port);
      if (!connections.empty() && cuts < step * kCutsInAStep) {
        cuts += shutdown(connections[next % connections.size()], SHUT_RDWR) == 0 ? 1 : 0;
      }
      std::this_thread::yield();
    }
  });
  const absl::StatusOr<Vector> parameters = Train(client.get(), job, kSteps, &step);
  over = true;
  cutter.join();
  ASSERT_OK(parameters);
  EXPECT_GE(cuts, kSteps);
  EXPECT_EQ(*parameters, Expected(kSteps));
}

TEST(ConnectionsTest, LostFramesCountOnce) {
  constexpr int kSteps = 5;
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(Several()));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(LargeJob()));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
  options.fault.drop = 0.1;
  options.fault.seed = 5;
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
  ASSERT_OK_AND_ASSIGN(const Vector parameters, Train(client.get(), job, kSteps));
  EXPECT_EQ(parameters, Expected(kSteps));
}

TEST(ConnectionsTest, AServerThatAdmitsFewStreamsServesByThose) {
  TestShardsOptions options = Several();
  options.message_memory_bytes = 1 << 20;  // room for three, and one turn
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(options));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(LargeJob()));
  ASSERT_OK_AND_ASSIGN(auto writer, shards->Join(job, 0));
  const Vector gradient = Ramp(job.map.size(), 1e-3f);
  ASSERT_OK_AND_ASSIGN(const auto refused, writer->Push(gradient, {}));
  EXPECT_GT(refused.retries, 0u);
  EXPECT_EQ(refused.duplicates, 0u);
  // It has learnt how many there are.
  ASSERT_OK_AND_ASSIGN(const auto served, writer->Push(gradient, {}));
  EXPECT_EQ(served.retries, 0u);
  EXPECT_EQ(served.duplicates, 0u);
}

TEST(ConnectionsTest, AShardThatWasStartedAnewIsToldOfAsWithOne) {
  TestShardsOptions options = Several();
  options.link = TestLink::kUnix;  // whose address nobody else takes meanwhile
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(options));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(LargeJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  ASSERT_OK(Train(client.get(), job, 1));
  ASSERT_OK(shards->Restart(0));
  Vector parameters(job.map.size());
  EXPECT_TRUE(IsSessionLost(client->Fetch(parameters, nullptr, nullptr)));
  EXPECT_TRUE(IsSessionLost(client->Push(parameters, {}).status()));
  // The same client goes on with who reads, once the job is there again.
  ASSERT_OK(shards->CreateJob(LargeJob()).status());
  ASSERT_OK_AND_ASSIGN(auto reader, shards->Reader(job));
  ASSERT_OK(reader->Fetch(parameters, nullptr, nullptr));
  ASSERT_OK(shards->Restart(0));
  ASSERT_OK(shards->CreateJob(LargeJob()).status());
  Vector again(job.map.size());
  ASSERT_OK(reader->Fetch(again, nullptr, nullptr));
  EXPECT_EQ(again, parameters);
}

TEST(ConnectionsTest, WithoutAnyThereIsNoClient) {
  TestShardsOptions options = Several();
  options.connections = 0;
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start(options));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  EXPECT_EQ(shards->Join(job, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace monsoon
