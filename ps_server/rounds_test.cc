// Rounds through clients and servers: several replicas in threads, shards in servers.
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
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

using ::testing::HasSubstr;
using Vector = std::vector<float>;

// Synchronous DiLoCo.
TestJobOptions SyncJob() {
  TestJobOptions job = SmallJob();
  job.optimizer.Clear();
  job.optimizer.mutable_nesterov()->set_rate(0.7);
  job.optimizer.mutable_nesterov()->set_momentum(0.9);
  job.rounds.emplace();
  return job;
}

// Of a replica that keeps its pushes until they are durable.
std::unique_ptr<ParameterClient> KeepingClient(TestShards& shards, const TestJob& job,
                                               uint32_t worker,
                                               uint64_t keep_bytes = uint64_t{64} << 20) {
  ParameterClientOptions options = *shards.OpenSession(job, worker);
  options.keep_bytes = keep_bytes;
  return *ParameterClient::Create(std::move(options));
}

// What replica `worker` makes of the parameters: a difference that depends on them.
Vector Difference(const Vector& base, uint32_t worker, int round) {
  Vector difference(base.size());
  for (size_t i = 0; i < base.size(); ++i) {
    const auto phase =
        static_cast<float>((i * 31 + worker * 17 + static_cast<size_t>(round) * 7) % 23);
    difference[i] = 0.05f * base[i] + 0.001f * (phase - 11.0f);
  }
  return difference;
}

// The parameters after `rounds` rounds of three replicas on so many shards.
Vector Train(uint32_t shard_count, Transport transport, int rounds) {
  TestShardsOptions options;
  options.shards = shard_count;
  options.transport = transport;
  auto shards = *TestShards::Start(options);
  const TestJob job = *shards->CreateJob(SyncJob());
  constexpr uint32_t kWorkers = 3;
  std::vector<std::unique_ptr<ParameterClient>> clients;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    clients.push_back(*shards->Join(job, worker));
  }
  std::vector<std::jthread> threads;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    threads.emplace_back([&, worker, client = clients[worker].get()] {
      Vector w(job.map.size());
      FetchMarks marks;
      for (int round = 0; round < rounds; ++round) {
        ASSERT_OK(client->Fetch(w, &marks, nullptr));
        for (const auto& shard : marks.shard) {
          for (const StripeMark& mark : shard) {
            // Exactly one round at a time, and what was pushed is in it.
            ASSERT_EQ(mark.version, static_cast<uint64_t>(round));
            ASSERT_EQ(mark.applied_sequence, static_cast<uint64_t>(round));
          }
        }
        const Vector difference = Difference(w, worker, round);
        GradientView push(difference);
        push.weight = 0.5f + static_cast<float>(worker);
        ASSERT_OK(client->Push(push, marks));
      }
    });
  }
  threads.clear();
  Vector w(job.map.size());
  EXPECT_OK(clients[0]->Fetch(w, nullptr, nullptr));
  return w;
}

TEST(RoundsTest, OneAndFourShardsGiveTheSameBits) {
  constexpr int kRounds = 30;
  const Vector one = Train(1, Transport::AUTO, kRounds);
  EXPECT_EQ(Train(4, Transport::AUTO, kRounds), one);
  EXPECT_EQ(Train(4, Transport::GRPC, kRounds), one);
}

TEST(RoundsTest, AFetchWaitsForTheRoundAndSaysForWhom) {
  auto shards = *TestShards::Start({.shards = 2});
  const TestJob job = *shards->CreateJob(SyncJob());
  ParameterClientOptions options = *shards->OpenSession(job, 0);
  options.deadline = absl::Milliseconds(200);
  auto impatient = *ParameterClient::Create(options);
  auto other = *shards->Join(job, 1);
  auto idle = *shards->Join(job, 2);
  Vector w(job.map.size());
  ASSERT_OK(impatient->Fetch(w, nullptr, nullptr));  // has pushed nothing
  const Vector one(job.map.size(), 1.0f);
  ASSERT_OK(impatient->Push(one, {}));
  const absl::Status waits = impatient->Fetch(w, nullptr, nullptr);
  EXPECT_TRUE(IsRoundOpen(waits)) << waits;
  EXPECT_THAT(std::string(waits.message()), HasSubstr("round 1 waits for worker/1, worker/2"));
  // Mapped parameters would not tell.
  FetchStats stats;
  FetchMarks marks;
  EXPECT_FALSE(impatient->FetchMapped(w, &marks, &stats));
  EXPECT_FALSE(impatient->combines());

  ASSERT_OK(idle->Pass());
  EXPECT_TRUE(IsRoundOpen(impatient->Fetch(w, nullptr, nullptr)));
  ASSERT_OK(other->Push(one, {}));
  ASSERT_OK(impatient->Fetch(w, &marks, nullptr));
  EXPECT_EQ(marks.shard[0][0].version, 1u);
}

TEST(RoundsTest, ADifferenceCountsWithTheWeightThatItWasPushedWith) {
  auto shards = *TestShards::Start({.shards = 2});
  TestJobOptions options = SyncJob();
  options.optimizer = TestSgd(1.0);
  const TestJob job = *shards->CreateJob(options);
  auto heavy = *shards->Join(job, 0);
  auto light = *shards->Join(job, 1);
  Vector before(job.map.size()), after(job.map.size());
  ASSERT_OK(heavy->Fetch(before, nullptr, nullptr));
  const Vector one(job.map.size(), 1.0f), five(job.map.size(), 5.0f);
  GradientView push(one);
  push.weight = 3;
  ASSERT_OK(heavy->Push(push, {}));
  push = GradientView(five);
  ASSERT_OK(light->Push(push, {}));
  ASSERT_OK(heavy->Fetch(after, nullptr, nullptr));
  for (size_t i = 0; i < after.size(); ++i) {
    ASSERT_EQ(after[i], before[i] - 2) << i;  // (3 * 1 + 5) / 4
  }
}

// What came in several rounds is sent again, and is in as many.
TEST(RoundsTest, AfterARestartDifferencesAreInRoundsOfTheirOwnAgain) {
  constexpr uint64_t kRounds = 6;
  const std::string folder = ::testing::TempDir() + "/rounds_come_again";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  auto shards = *TestShards::Start({.shards = 1, .state_dir = folder});
  const TestJob job = *shards->CreateJob(SyncJob());
  const std::array clients = {KeepingClient(*shards, job, 0), KeepingClient(*shards, job, 1)};
  Vector w(job.map.size());
  for (uint64_t round = 0; round < kRounds; ++round) {
    FetchMarks marks[2];
    for (int worker : {0, 1}) ASSERT_OK(clients[worker]->Fetch(w, &marks[worker], nullptr));
    for (uint32_t worker : {0u, 1u}) {
      ASSERT_OK(
          clients[worker]->Push(Difference(w, worker, static_cast<int>(round)), marks[worker]));
    }
    if (round == 0) {
      ASSERT_OK(shards->Checkpoint(job.name, 1));
    }
  }
  ASSERT_OK(clients[0]->Fetch(w, nullptr, nullptr));

  ASSERT_OK(shards->Restart(0));
  ASSERT_OK_AND_ASSIGN(const auto reply, shards->Restore(SyncJob(), 0, /*workers=*/2));
  std::vector<std::jthread> threads;
  for (const auto& client : clients) {
    threads.emplace_back([&reply, client = client.get()] {
      client->NameEpoch(0, reply.shard_epoch());
      EXPECT_OK(client->BringBack(absl::Seconds(20)));
      EXPECT_EQ(client->away(), std::nullopt);
    });
  }
  threads.clear();
  Vector again(job.map.size());
  FetchMarks marks;
  ASSERT_OK(clients[0]->Fetch(again, &marks, nullptr));
  EXPECT_EQ(marks.shard[0][0].version, kRounds);
  EXPECT_EQ(again, w);
}

// One replica is four differences ahead on a shard that takes them one a round again, and the
// other, whose turn each of these rounds waits for, waits for a round of the other shard.
TEST(RoundsTest, NoWaitForOneShardHoldsUpAnother) {
  const std::string folder = ::testing::TempDir() + "/rounds_circle";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  auto shards = *TestShards::Start({.shards = 2, .state_dir = folder});
  const TestJob job = *shards->CreateJob(SyncJob());
  const std::array clients = {KeepingClient(*shards, job, 0), KeepingClient(*shards, job, 1)};
  ParameterClient& ahead = *clients[0];
  ParameterClient& other = *clients[1];
  Vector w(job.map.size());
  FetchMarks marks;
  ASSERT_OK(ahead.Fetch(w, &marks, nullptr));
  ASSERT_OK(other.Fetch(w, &marks, nullptr));
  for (int push = 0; push < 5; ++push) ASSERT_OK(ahead.Push(Difference(w, 0, push), marks));
  ASSERT_OK(other.Push(Difference(w, 1, 0), marks));
  ASSERT_OK(other.Fetch(w, &marks, nullptr));
  EXPECT_EQ(marks.shard[1][0].version, 1u);  // all of them in one round
  ASSERT_OK(other.Push(Difference(w, 1, 1), marks));

  ASSERT_OK(shards->Restart(0));
  ASSERT_OK_AND_ASSIGN(const auto reply, shards->Restore(SyncJob(), 0, /*workers=*/2));
  for (const auto& client : clients) client->NameEpoch(0, reply.shard_epoch());
  std::jthread returns([&] {
    EXPECT_OK(ahead.BringBack(absl::Seconds(60)));
    EXPECT_EQ(ahead.away(), std::nullopt);
    EXPECT_EQ(ahead.acknowledged(), 5u);
    EXPECT_OK(ahead.Pass());  // as one that has nothing to do
  });
  for (int push = 2; push < 4; ++push) {
    absl::Status fetched;
    do {
      fetched = other.Fetch(w, &marks, nullptr);
    } while (absl::IsUnavailable(fetched));
    ASSERT_OK(fetched);
    ASSERT_OK(other.Push(Difference(w, 1, push), marks));
  }
  returns.join();
}

// One replica waits for a checkpoint before it may push, the checkpoint for what the other sends
// again, and that for a difference of the first.
TEST(RoundsTest, AReplicaWithoutRoomHoldsUpNoRound) {
  const std::string folder = ::testing::TempDir() + "/rounds_without_room";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  auto shards = *TestShards::Start({.shards = 1, .state_dir = folder});
  const TestJob job = *shards->CreateJob(SyncJob());
  Vector w(job.map.size());
  const auto full = KeepingClient(*shards, job, 0, 2 * w.size() * sizeof(float));
  const auto ahead = KeepingClient(*shards, job, 1);
  FetchMarks marks;
  ASSERT_OK(full->Fetch(w, &marks, nullptr));
  for (int push = 0; push < 2; ++push) ASSERT_OK(full->Push(Difference(w, 0, push), marks));
  for (int push = 0; push < 4; ++push) ASSERT_OK(ahead->Push(Difference(w, 1, push), marks));
  ASSERT_OK(shards->Restart(0));
  ASSERT_OK_AND_ASSIGN(const auto reply, shards->Restore(SyncJob(), 0, /*workers=*/2));
  full->NameEpoch(0, reply.shard_epoch());
  ahead->NameEpoch(0, reply.shard_epoch());
  std::jthread pushes([&] {
    absl::Status pushed;
    do {
      pushed = full->Push(Difference(w, 0, 2), marks).status();
    } while (absl::IsDeadlineExceeded(pushed));
    EXPECT_OK(pushed);
  });
  EXPECT_OK(ahead->BringBack(absl::Seconds(60)));
  EXPECT_EQ(ahead->away(), std::nullopt);
  EXPECT_OK(shards->Checkpoint(job.name, 1));
  EXPECT_OK(shards->Checkpoint(job.name, 2));
}

TEST(RoundsTest, AReplicaThatLeavesEndsTheWait) {
  auto shards = *TestShards::Start({.shards = 1});
  const TestJob job = *shards->CreateJob(SyncJob());
  auto stays = *shards->Join(job, 0);
  auto leaves = *shards->Join(job, 1);
  Vector w(job.map.size());
  ASSERT_OK(stays->Push(Vector(job.map.size(), 1.0f), {}));
  SessionKey session;
  session.set_job(job.name);
  session.set_worker(1);
  session.set_incarnation(1);
  ASSERT_OK(shards->control(0)->CloseSession(session));
  ASSERT_OK(stays->Fetch(w, nullptr, nullptr));
}

TEST(RoundsTest, AGraceThatCannotBeIsRefused) {
  auto shards = *TestShards::Start({.shards = 1});
  TestJobOptions options = SyncJob();
  options.rounds->set_grace_seconds(-1);
  EXPECT_THAT(std::string(shards->CreateJob(options).status().message()),
              HasSubstr("rounds.grace_seconds: -1 is outside 0 .. 3600 seconds"));
}

}  // namespace
}  // namespace monsoon
