#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

constexpr uint64_t kStripes = 16;

class DrainTest : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(Transports, DrainTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

// Replicas push without a pause while the server drains. What was acknowledged
// was applied, and what was applied was acknowledged.
TEST_P(DrainTest, EveryPushInFlightIsAcknowledgedOrRefused) {
  for (uint32_t delay_ms : {0u, 5u}) {
    ASSERT_OK_AND_ASSIGN(
        auto shards,
        TestShards::Start({.shards = 1, .fault = {.delay_ms = delay_ms}, .transport = GetParam()}));
    TestJobOptions options = SmallJob();
    options.max_stripe_bytes = 64 * 64 * 4 / kStripes;
    ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(options));
    constexpr uint32_t kReplicas = 3;
    std::atomic<uint64_t> acknowledged{0};
    std::atomic<uint32_t> warm{0};
    std::vector<std::unique_ptr<ParameterClient>> clients;
    std::vector<std::jthread> replicas;
    for (uint32_t worker = 0; worker < kReplicas; ++worker) {
      ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, worker));
      clients.push_back(std::move(client));
    }
    for (uint32_t worker = 0; worker < kReplicas; ++worker) {
      replicas.emplace_back([&, client = clients[worker].get()] {
        const std::vector<float> gradient(job.map.size(), 1.0f);
        for (int pushes = 1; client->Push(gradient, {}).ok(); ++pushes) {
          ++acknowledged;
          if (pushes == 5) {
            ++warm;
          }
        }
      });
    }
    while (warm < kReplicas) {
      std::this_thread::yield();
    }
    const auto start = std::chrono::steady_clock::now();
    shards->server(0)->Drain(absl::Seconds(5));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(7));
    for (auto& client : clients) {
      client->Cancel();
    }
    replicas.clear();
    const ShardStatusReply status = shards->server(0)->GetStatus();
    ASSERT_EQ(status.job_size(), 1);
    EXPECT_TRUE(status.draining());
    EXPECT_EQ(status.job(0).applied(), acknowledged * kStripes);
    EXPECT_EQ(status.job(0).version_min(), acknowledged);
  }
}

}  // namespace
}  // namespace monsoon
