// Changes of public copies through clients and servers: everybody has the same bits, in the
// bytes that were promised.
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using Vector = std::vector<float>;

TestJobOptions ChangesJob(WireFormat format = INT4) {
  TestJobOptions job = SmallJob();  // 16 stripes of 256 floats
  job.fetch_changes = format;
  return job;
}
constexpr uint64_t kWhole = 4096 * sizeof(float);
constexpr uint64_t kInt4 = 16 * (4 + 128);

Vector Gradient(uint64_t push) {
  Vector gradient(4096);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = 0.1f * std::sin(static_cast<float>(i * 7 + push * 13));
  }
  return gradient;
}

class ChangesTest : public ::testing::TestWithParam<Transport> {
 protected:
  void Start(const TestJobOptions& options, const std::string& folder = "") {
    ASSERT_OK_AND_ASSIGN(
        shards_, TestShards::Start({.shards = 2, .transport = GetParam(), .state_dir = folder}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(options));
  }
  // Its parameters, and how many bytes brought them.
  std::pair<Vector, uint64_t> Fetch(ParameterClient* client) {
    Vector w(job_.map.size());
    FetchStats stats;
    EXPECT_OK(client->Fetch(w, &marks_, &stats));
    return {std::move(w), stats.bytes};
  }

  std::unique_ptr<TestShards> shards_;
  TestJob job_;
  FetchMarks marks_;
};

TEST_P(ChangesTest, AFetchBringsWhatHasChangedSinceTheLastOne) {
  Start(ChangesJob());
  auto one = *shards_->Join(job_, 0);
  auto two = *shards_->Join(job_, 1);
  auto reader = *shards_->Reader(job_);
  EXPECT_FALSE(one->combines());
  const auto [begin, bytes] = Fetch(one.get());
  EXPECT_EQ(bytes, kWhole);
  Vector exact(job_.map.size());
  ASSERT_OK(reader->Fetch(exact, nullptr, nullptr));
  EXPECT_EQ(begin, exact);
  EXPECT_EQ(Fetch(one.get()).second, 0u);  // nothing has
  FetchStats stats;
  EXPECT_FALSE(one->FetchMapped(exact, &marks_, &stats));

  for (uint64_t push = 1; push <= 3; ++push) {
    ASSERT_OK(one->Push(Gradient(push), marks_));
    const auto [w, bytes_of_one] = Fetch(one.get());
    EXPECT_EQ(bytes_of_one, kInt4);
    EXPECT_EQ(marks_.shard[1][3].version, push);
    EXPECT_EQ(marks_.shard[1][3].applied_sequence, push);
    ASSERT_OK(reader->Fetch(exact, nullptr, nullptr));
    for (size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(w[i], exact[i], 0.05 / 7) << "a half of 4 bits' step, of a change of 0.05";
    }
  }
  // Who comes later has the copy whole, the same one, and follows it.
  const Vector of_one = Fetch(one.get()).first;
  EXPECT_EQ(Fetch(two.get()), std::pair(of_one, kWhole));
  EXPECT_EQ(Fetch(one.get()).second, 0u);
  for (uint64_t push = 4; push <= 6; ++push) {
    ASSERT_OK(two->Push(Gradient(push), marks_));
    EXPECT_EQ(Fetch(two.get()).second, kInt4);
  }
  EXPECT_EQ(Fetch(one.get()), std::pair(Fetch(two.get()).first, 3 * kInt4));
  // A way of more bytes than the whole is not kept.
  for (uint64_t push = 7; push <= 14; ++push) {
    ASSERT_OK(two->Push(Gradient(push), marks_));
    EXPECT_EQ(Fetch(two.get()).second, kInt4);
  }
  EXPECT_EQ(Fetch(one.get()), std::pair(Fetch(two.get()).first, kWhole));
  // Evaluations judge the parameters themselves.
  Vector judged(job_.map.size());
  ASSERT_OK(one->FetchExact(judged, nullptr, nullptr));
  ASSERT_OK(reader->Fetch(exact, nullptr, nullptr));
  EXPECT_EQ(judged, exact);
}

TEST_P(ChangesTest, InRoundsEachRoundIsOneChange) {
  TestJobOptions options = ChangesJob(INT8);
  options.rounds.emplace();
  Start(options);
  constexpr uint32_t kWorkers = 3;
  constexpr int kRounds = 20;
  std::vector<std::unique_ptr<ParameterClient>> clients;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    clients.push_back(*shards_->Join(job_, worker));
  }
  std::vector<std::vector<Vector>> seen(kWorkers);
  std::vector<uint64_t> bytes(kWorkers);
  std::vector<std::jthread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker] {
      Vector w(job_.map.size());
      FetchMarks marks;
      FetchStats stats;
      for (int round = 0; round < kRounds; ++round) {
        ASSERT_OK(clients[worker]->Fetch(w, &marks, &stats));
        ASSERT_EQ(marks.shard[0][0].version, static_cast<uint64_t>(round));
        bytes[worker] += stats.bytes;
        seen[worker].push_back(w);
        ASSERT_OK(
            clients[worker]->Push(Gradient(worker + 10 * static_cast<uint64_t>(round)), marks));
      }
    });
  }
  threads.clear();
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    EXPECT_EQ(seen[worker], seen[0]);
    EXPECT_EQ(bytes[worker], kWhole + (kRounds - 1) * 16 * (4 + 256));
  }
}

TEST_P(ChangesTest, AFragmentHasChangesOfItsOwn) {
  Start(ChangesJob());
  Fragments fragments;
  fragments.set_count(2);
  fragments.set_order(Fragments::BY_STRIPE);
  ParameterClientOptions options = *shards_->OpenSession(job_, 0);
  ASSERT_OK_AND_ASSIGN(options.fragments, FragmentMap::Create(fragments, job_.layout, job_.map));
  auto client = *ParameterClient::Create(std::move(options));
  auto other = *shards_->Join(job_, 1);
  Vector w = Fetch(client.get()).first;
  FetchStats stats;
  for (uint64_t push = 1; push <= 6; ++push) {
    ASSERT_OK(client->Push(Gradient(push), {}));
    ASSERT_OK(client->FetchFragment((push - 1) % 2, w, &marks_, &stats));
    EXPECT_EQ(stats.bytes, kInt4 / 2);
  }
  EXPECT_EQ(w, Fetch(other.get()).first);
}

// The part holds the copy; what a life has told since is told again, whole.
TEST_P(ChangesTest, AShardThatComesBackHasACopyThatAllFollow) {
  const std::string folder = ::testing::TempDir() + "/changes_" + NameOf(GetParam());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  Start(ChangesJob(), folder);
  ParameterClientOptions options = *shards_->OpenSession(job_, 0);
  options.keep_bytes = uint64_t{64} << 20;
  options.deadline = absl::Seconds(20);
  auto client = *ParameterClient::Create(std::move(options));
  for (uint64_t push = 1; push <= 3; ++push) {
    ASSERT_OK(client->Push(Gradient(push), {}));
    Fetch(client.get());
  }
  const Vector before = Fetch(client.get()).first;
  ASSERT_OK(shards_->Checkpoint(job_.name, 1));
  ASSERT_OK(shards_->Restart(1));
  ASSERT_OK_AND_ASSIGN(const auto reply, shards_->Restore(ChangesJob(), 1));
  client->NameEpoch(1, reply.shard_epoch());
  ASSERT_OK(client->BringBack(absl::Seconds(20)));
  // Nothing was applied since: the copy is what it was, and its half comes whole.
  EXPECT_EQ(Fetch(client.get()), std::pair(before, kWhole / 2));
  ASSERT_OK(client->Push(Gradient(4), {}));
  EXPECT_EQ(Fetch(client.get()).second, kInt4);
}

TEST_P(ChangesTest, AJobWithoutThemRefusesThem) {
  Start(SmallJob());
  job_.fetch_changes = INT8;
  auto client = *shards_->Join(job_, 0);
  Vector w(job_.map.size());
  EXPECT_THAT(std::string(client->Fetch(w, nullptr, nullptr).message()),
              ::testing::HasSubstr("changes cannot be fetched: the job keeps no public copy"));
  TestJobOptions options = ChangesJob(TOP_K);
  options.name = "other-1";
  EXPECT_THAT(std::string(shards_->CreateJob(options).status().message()),
              ::testing::HasSubstr("changes cannot be fetched in format 4"));
}

INSTANTIATE_TEST_SUITE_P(Transports, ChangesTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace monsoon
