// A real parameter server that is killed in the midst of frames of rows and of writing its parts,
// while a client pushes on: every row counts each push once.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/model/table_info.h"
#include "common/process/subprocess.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/equal_rows.h"
#include "ps_server/testing/ps_process.h"

namespace monsoon {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr int kKills = 12;
constexpr uint64_t kPushesBetween = 4;

CreateShardJobRequest MakeCreate() {
  CreateShardJobRequest create;
  create.set_job("test-1");
  *create.mutable_model() = EqualRows::Job().model;
  *create.mutable_optimizer() = EqualRows::Job().optimizer;
  create.set_shards(1);
  create.set_max_stripe_bytes(1024);
  create.set_layout_hash(ParameterLayout::Create(create.model())->Hash());
  return create;
}

SessionKey Session() {
  SessionKey session;
  session.set_job("test-1");
  session.set_incarnation(1);
  return session;
}

// Lives of one server at one address.
class RowsProcessTest : public ::testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/rows_process_", NameOf(GetParam()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  // Returns when it serves.
  void NextLife() {
    ASSERT_OK_AND_ASSIGN(
        Subprocess process,
        Subprocess::Start(
            {PsServerBinary(), absl::StrCat("--cluster=", WriteClusterFile(folder_, address_, "")),
             "--task=0", absl::StrCat("--address=", address_), "--die_with_parent", "--insecure",
             absl::StrCat("--state_dir=", folder_, "/state")},
            {}));
    process_ = std::make_unique<Subprocess>(std::move(process));
    control_ = ShardControl::Create(address_, kPatience);
    const absl::Duration end = Clock::Real()->Now() + kPatience;
    absl::Status status;
    do {
      status = control_->GetStatus("").status();
    } while (!status.ok() && Clock::Real()->Now() < end);
    ASSERT_OK(status);
  }
  absl::Status Order(uint64_t generation) {
    CheckpointRequest order;
    order.set_job("test-1");
    order.set_generation(generation);
    return control_->Checkpoint(order).status();
  }

  const std::string address_ = testing::UniqueSocketAddress();
  std::string folder_;
  std::unique_ptr<Subprocess> process_;
  std::unique_ptr<ShardControl> control_;
};

TEST_P(RowsProcessTest, WhereverItIsKilledEachPushCountsOnce) {
  NextLife();
  const CreateShardJobRequest create = MakeCreate();
  ASSERT_OK(control_->CreateJob(create));
  ASSERT_OK_AND_ASSIGN(const OpenSessionReply opened, control_->OpenSession(Session()));
  const ParameterLayout layout = *ParameterLayout::Create(create.model());
  ASSERT_OK_AND_ASSIGN(const auto client,
                       ParameterClient::Create({.job = "test-1",
                                                .incarnation = 1,
                                                .layout_hash = create.layout_hash(),
                                                .map = *ShardMap::Create(layout.size(), 1, 1024),
                                                .tables = *TableMaps(layout.tables(), 1),
                                                .addresses = {address_},
                                                .shard_epochs = {opened.shard_epoch()},
                                                .deadline = kPatience,
                                                .keep_bytes = uint64_t{1} << 30,
                                                .transport = GetParam()}));
  const EqualRows rows;
  std::atomic<uint64_t> pushes{0};
  std::atomic<bool> stops{false};
  std::thread pusher([&] {
    while (!stops) {
      const auto pushed = rows.Push(client.get());
      EXPECT_OK(pushed);
      EXPECT_OK(client->BringBack(kPatience));
      if (!pushed.ok()) return;
      pushes = pushed->sequence;
    }
  });
  const auto await = [&](uint64_t until) {
    const absl::Duration end = Clock::Real()->Now() + kPatience;
    while (pushes < until && Clock::Real()->Now() < end) std::this_thread::yield();
    EXPECT_GE(pushes, until);
  };
  std::mt19937 random(7);
  uint64_t generation = 0;
  int restored_older = 0;
  for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
    await(pushes + kPushesBetween);
    ASSERT_OK(Order(++generation));
    // At any moment of the next two pushes, and of the part: 5 MB each.
    const absl::Duration moment = Clock::Real()->Now() + absl::Microseconds(random() % 40000);
    while (Clock::Real()->Now() < moment) std::this_thread::yield();
    process_->Signal(SIGKILL);
    (void)process_->Wait();
    NextLife();
    RestoreShardJobRequest request;
    *request.mutable_create() = create;
    *request.add_session() = Session();
    ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply reply, control_->RestoreJob(request));
    restored_older += reply.generation() < generation ? 1 : 0;
    client->NameEpoch(0, reply.shard_epoch());
    const absl::Duration end = Clock::Real()->Now() + kPatience;
    while (client->away().has_value() && Clock::Real()->Now() < end) std::this_thread::yield();
    EXPECT_EQ(client->away(), std::nullopt);
    generation = std::max(generation, reply.generation());
  }
  await(pushes + kPushesBetween);
  stops = true;
  pusher.join();
  EXPECT_OK(rows.Check(client.get(), pushes));
  EXPECT_GT(client->kept().replayed, 0u);
  RecordProperty("restored_older", restored_older);
}

INSTANTIATE_TEST_SUITE_P(, RowsProcessTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace monsoon
