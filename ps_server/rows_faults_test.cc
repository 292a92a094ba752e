// Pushes whose rows take several frames to a shard, over links that lose frames and to servers
// that are started anew while they write: every row counts each push once.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/testing/equal_rows.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(20);

class RowsFaultsTest : public ::testing::TestWithParam<Transport> {
 protected:
  void Start(const FaultOptions& fault) {
    std::string folder = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(folder, '/', '_');
    folder = ::testing::TempDir() + "/" + folder;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    ASSERT_OK_AND_ASSIGN(
        shards_, TestShards::Start(
                     {.shards = 2, .fault = fault, .transport = GetParam(), .state_dir = folder}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(EqualRows::Job()));
  }

  const EqualRows rows_;
  std::unique_ptr<TestShards> shards_;
  TestJob job_;
};

TEST_P(RowsFaultsTest, FramesThatAreLostComeAgain) {
  Start({.drop = 0.05, .seed = 3});
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards_->OpenSession(job_, 0));
  options.fault = {.drop = 0.05, .seed = 4};
  options.deadline = kPatience;
  ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(std::move(options)));
  uint32_t retries = 0;
  for (uint64_t push = 1; push <= 10; ++push) {
    ASSERT_OK_AND_ASSIGN(const auto result, rows_.Push(client.get()));
    EXPECT_EQ(result.sequence, push);
    retries += result.retries;
  }
  EXPECT_GT(retries, 0u);
  EXPECT_OK(rows_.Check(client.get(), 10));
}

TEST_P(RowsFaultsTest, ServersThatAreStartedAnewHaveEachPushOnce) {
  Start({});
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards_->OpenSession(job_, 0));
  options.keep_bytes = uint64_t{512} << 20;
  options.deadline = kPatience;
  ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(std::move(options)));
  uint64_t pushes = 0;
  const auto push = [&] {
    ASSERT_OK(rows_.Push(client.get()));
    ++pushes;
  };
  push();
  for (uint64_t generation = 1; generation <= 6; ++generation) {
    for (uint32_t shard = 0; shard < 2; ++shard) {
      CheckpointRequest order;
      order.set_job(job_.name);
      order.set_generation(generation);
      ASSERT_OK(shards_->control(shard)->Checkpoint(order));
    }
    push();  // while they write
    push();
    const auto anew = static_cast<uint32_t>(generation % 2);
    if (generation > 2) {  // it has some generation
      ASSERT_OK(shards_->Restart(anew));
      push();  // kept for it
      ASSERT_OK_AND_ASSIGN(const auto reply, shards_->Restore(EqualRows::Job(), anew));
      EXPECT_GT(reply.generation(), 0u);
      client->NameEpoch(anew, reply.shard_epoch());
      ASSERT_OK(client->BringBack(kPatience));
      ASSERT_EQ(client->away(), std::nullopt);
    }
    ASSERT_OK(rows_.Check(client.get(), pushes));
    // Whatever of the last one was written, by both.
    ASSERT_OK(shards_->Checkpoint(job_.name, generation));
  }
  EXPECT_GT(client->kept().replayed, 0u);
}

TEST_P(RowsFaultsTest, ARefusalTellsThatRowsWereRefused) {
  Start({});
  ASSERT_OK_AND_ASSIGN(const auto client, shards_->Join(job_, 0));
  ASSERT_OK(rows_.Push(client.get()));
  ASSERT_OK(shards_->OpenSession(job_, 0, /*incarnation=*/2));
  const absl::Status refused = rows_.Push(client.get()).status();
  EXPECT_TRUE(IsSessionLost(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(": rows: the session of worker/0#1 is not open"));
  ASSERT_OK_AND_ASSIGN(const auto reader, shards_->Reader(job_));
  EXPECT_OK(rows_.Check(reader.get(), 1));
}

TEST_P(RowsFaultsTest, RowsFillTheWindow) {
  Start({});
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards_->OpenSession(job_, 0));
  options.keep_bytes = 8 << 20;
  options.deadline = absl::Seconds(1);
  ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(std::move(options)));
  ASSERT_OK(rows_.Push(client.get()));
  EXPECT_EQ(client->kept().bytes, EqualRows::push_bytes());  // 5.6 MB
  EXPECT_TRUE(client->kept().wants_checkpoint);
  const auto no_room =
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no room for a push"));
  EXPECT_THAT(rows_.Push(client.get()), no_room);
  EXPECT_OK(rows_.Check(client.get(), 1));
  ASSERT_OK(shards_->Checkpoint(job_.name, 1));
  EXPECT_THAT(rows_.Push(client.get()), no_room);
  ASSERT_OK(shards_->Checkpoint(job_.name, 2));
  ASSERT_OK_AND_ASSIGN(const auto result, rows_.Push(client.get()));
  EXPECT_EQ(result.sequence, 2u);
  EXPECT_OK(rows_.Check(client.get(), 2));
}

INSTANTIATE_TEST_SUITE_P(, RowsFaultsTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace monsoon
