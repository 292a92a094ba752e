// Real parameter servers that write checkpoints while a client pushes.

#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/process/subprocess.h"
#include "common/storage/storage.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/ps_process.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

std::string Folder() {
  const std::string path = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

CheckpointRequest OrderOf(const std::string& job, uint64_t generation) {
  CheckpointRequest order;
  order.set_job(job);
  order.set_generation(generation);
  order.mutable_context()->set_reason("asked for");
  return order;
}

// Polls until the shard has the generation; its status then.
ShardJobStatus AwaitGeneration(ShardControl* control, uint64_t generation) {
  const absl::Duration end = Clock::Real()->Now() + kPatience;
  ShardJobStatus job;
  while (job.generation() < generation && Clock::Real()->Now() < end) {
    const absl::StatusOr<ShardStatusReply> status = control->GetStatus("");
    EXPECT_OK(status);
    if (status.ok() && status->job_size() == 1) {
      job = status->job(0);
    }
  }
  EXPECT_EQ(job.generation(), generation) << job.checkpoint_error();
  return job;
}

TEST(CheckpointProcessTest, ShardsWriteWhatTheyHoldWhileAClientPushes) {
  const std::string state_dir = Folder();
  ASSERT_OK_AND_ASSIGN(const auto shards, TestShards::Start({.shards = 2, .state_dir = state_dir}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(const auto client, shards->Join(job, 0));
  const std::vector<float> gradient(job.layout.size(), 1.0f);
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    for (int push = 0; push < 5; ++push) {
      ASSERT_OK(client->Push(gradient, {}));
    }
    for (uint32_t shard = 0; shard < 2; ++shard) {
      ASSERT_OK(shards->control(shard)->Checkpoint(OrderOf(job.name, generation)));
      ASSERT_OK(client->Push(gradient, {}));
    }
    for (uint32_t shard = 0; shard < 2; ++shard) {
      EXPECT_GT(AwaitGeneration(shards->control(shard), generation).disk_bytes(), 0u);
    }
  }
  ASSERT_OK(shards->control(0)->Checkpoint(OrderOf(job.name, 4)));
  ASSERT_OK(shards->control(1)->Checkpoint(OrderOf(job.name, 4)));
  AwaitGeneration(shards->control(0), 4);
  AwaitGeneration(shards->control(1), 4);
  // Nothing was pushed since.
  std::vector<float> live(job.layout.size());
  ASSERT_OK(client->Fetch(live, nullptr, nullptr));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded,
                       LoadNewest(PosixStorage(), JobFolder(state_dir, job.name, 0), nullptr));
  EXPECT_EQ(loaded.content.generation(), 4u);
  EXPECT_EQ(loaded.parameters, live);
  EXPECT_EQ(loaded.versions[0][0], 21u);

  ASSERT_OK(shards->control(0)->DeleteJob(job.name));
  ASSERT_OK(shards->control(1)->DeleteJob(job.name));
  EXPECT_FALSE(std::filesystem::exists(JobFolder(state_dir, job.name, 0)));
  // That this life has written something is known all the same.
  for (uint32_t shard = 0; shard < 2; ++shard) {
    ASSERT_OK_AND_ASSIGN(const std::string written,
                         PosixStorage()->ReadAll(LastWriterPath(state_dir, shard), 64));
    EXPECT_EQ(written, absl::StrCat(shards->server(shard)->shard_epoch(), "\n"));
  }
}

TEST(CheckpointProcessTest, AServerInMemoryOnlyRefusesByName) {
  ASSERT_OK_AND_ASSIGN(const auto shards, TestShards::Start({}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  EXPECT_THAT(shards->control(0)->Checkpoint(OrderOf(job.name, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no state folder")));
}

TEST(CheckpointProcessTest, EachLifeHasAHigherEpoch) {
  ASSERT_OK_AND_ASSIGN(const auto shards, TestShards::Start({.state_dir = Folder()}));
  const uint64_t first = shards->server(0)->shard_epoch();
  ASSERT_OK(shards->Restart(0));
  EXPECT_GT(shards->server(0)->shard_epoch(), first);
}

// What it was told last before it ended in order, and not what it knew when it last wrote a part.
TEST(CheckpointProcessTest, AServerThatIsStoppedRemembersTheNewestJournal) {
  ASSERT_OK_AND_ASSIGN(const auto shards, TestShards::Start({.state_dir = Folder()}));
  JournalMark mark;
  mark.set_id(7);
  mark.set_life(2);
  for (const uint64_t commits : {20, 30}) {
    mark.set_commits(commits);
    ASSERT_OK(shards->control(0)->GetStatus("", mark));
  }
  shards->server(0)->Drain(absl::Seconds(5));
  ASSERT_OK(shards->Restart(0));
  ASSERT_OK_AND_ASSIGN(const ShardStatusReply status, shards->control(0)->GetStatus(""));
  EXPECT_EQ(status.journal().commits(), 30u);
}

// Of a real process: one job of one slice, gradients that count themselves.
constexpr size_t kFloats = 64 * 64;
constexpr uint64_t kStripeBytes = 1024;

CreateShardJobRequest MakeCreate() {
  CreateShardJobRequest create;
  create.set_job("test-1");
  *create.mutable_model() = TestModel(64, 64);
  *create.mutable_optimizer() = TestSgd(1.0);
  create.set_shards(1);
  create.set_max_stripe_bytes(kStripeBytes);
  create.set_written_by_client(true);
  create.set_layout_hash(ParameterLayout::Create(create.model())->Hash());
  return create;
}

SessionKey Session() {
  SessionKey session;
  session.set_job("test-1");
  session.set_incarnation(1);
  return session;
}

absl::StatusOr<std::unique_ptr<ParameterClient>> Client(const PsProcess& process, uint64_t epoch,
                                                        uint32_t worker = 0) {
  ASSIGN_OR_RETURN(const ShardMap map, ShardMap::Create(kFloats, 1, kStripeBytes));
  return ParameterClient::Create({.job = "test-1",
                                  .worker = worker,
                                  .incarnation = 1,
                                  .layout_hash = MakeCreate().layout_hash(),
                                  .map = map,
                                  .addresses = {process.address},
                                  .shard_epochs = {epoch}});
}

void PushTimes(ParameterClient* client, int times) {
  for (int push = 0; push < times; ++push) {
    ASSERT_OK(client->Push(std::vector<float>(kFloats, -1.0f), {}));
  }
}

// SIGTERM: what was applied after the newest generation is written before the end.
TEST(CheckpointProcessTest, AServerThatIsToldToStopWritesWhatIsNewer) {
  const std::string folder = Folder();
  const std::string state_dir = absl::StrCat(folder, "/state");
  ASSERT_OK_AND_ASSIGN(PsProcess process,
                       StartPsProcess(folder, "", {absl::StrCat("--state_dir=", state_dir)}));
  const auto control = ShardControl::Create(process.address, kPatience);
  const CreateShardJobRequest create = MakeCreate();
  ASSERT_OK(control->CreateJob(create));
  ASSERT_OK(control->Checkpoint(OrderOf("test-1", 1)));
  AwaitGeneration(control.get(), 1);
  ASSERT_OK_AND_ASSIGN(const OpenSessionReply opened, control->OpenSession(Session()));
  ASSERT_OK_AND_ASSIGN(const auto client, Client(process, opened.shard_epoch()));
  PushTimes(client.get(), 7);
  process.process.Signal(SIGTERM);
  EXPECT_TRUE(process.process.Wait().ok());
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded,
                       LoadNewest(PosixStorage(), JobFolder(state_dir, "test-1", 0), nullptr));
  EXPECT_EQ(loaded.content.generation(), 2u);
  EXPECT_EQ(loaded.content.context().reason(), "the server stops");
  EXPECT_EQ(loaded.parameters, std::vector<float>(kFloats, 7.0f));
}

// SIGKILL: the next life of the server gets its slice back from the disk, and what the
// newest part did not hold from who has pushed it.
TEST(CheckpointProcessTest, AKilledServerGetsItsSliceBack) {
  const std::string folder = Folder();
  const std::string flag = absl::StrCat("--state_dir=", folder, "/state");
  uint64_t first_epoch = 0;
  {
    ASSERT_OK_AND_ASSIGN(PsProcess process, StartPsProcess(folder, "", {flag}));
    const auto control = ShardControl::Create(process.address, kPatience);
    ASSERT_OK(control->CreateJob(MakeCreate()));
    ASSERT_OK_AND_ASSIGN(const OpenSessionReply opened, control->OpenSession(Session()));
    first_epoch = opened.shard_epoch();
    ASSERT_OK_AND_ASSIGN(const auto client, Client(process, first_epoch));
    for (uint64_t generation = 1; generation <= 2; ++generation) {
      PushTimes(client.get(), 3);
      ASSERT_OK(control->Checkpoint(OrderOf("test-1", generation)));
      AwaitGeneration(control.get(), generation);
    }
    PushTimes(client.get(), 2);
    // A worker that is lost before its pushes are written.
    SessionKey gone = Session();
    gone.set_worker(1);
    ASSERT_OK(control->OpenSession(gone));
    ASSERT_OK_AND_ASSIGN(const auto other, Client(process, first_epoch, 1));
    PushTimes(other.get(), 4);
    ASSERT_OK(control->CloseSession(gone));
    process.process.Signal(SIGKILL);
    (void)process.process.Wait();
  }
  ASSERT_OK_AND_ASSIGN(const PsProcess process, StartPsProcess(folder, "", {flag}));
  const auto control = ShardControl::Create(process.address, kPatience);
  RestoreShardJobRequest request;
  *request.mutable_create() = MakeCreate();
  request.set_least_generation(1);
  SessionKey foreign = Session();
  foreign.set_job("test-2");
  *request.add_session() = foreign;
  EXPECT_THAT(control->RestoreJob(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                                     HasSubstr("a session of job \"test-2\"")));
  *request.mutable_session(0) = Session();
  ASSERT_OK_AND_ASSIGN(const RestoreShardJobReply restored, control->RestoreJob(request));
  EXPECT_GT(restored.shard_epoch(), first_epoch);
  EXPECT_EQ(restored.generation(), 2u);
  EXPECT_EQ(restored.parent_epoch(), first_epoch);
  EXPECT_EQ(AwaitGeneration(control.get(), 2).generation(), 2u);
  ASSERT_EQ(restored.lost_size(), 1);
  EXPECT_EQ(restored.lost(0).worker(), 1u);
  EXPECT_EQ(restored.lost(0).from(), 1u);
  EXPECT_EQ(restored.lost(0).to(), 4u);
  EXPECT_EQ(restored.lost(0).records(), 4u * kFloats * sizeof(float) / kStripeBytes);

  ASSERT_OK_AND_ASSIGN(const auto client, Client(process, restored.shard_epoch()));
  ASSERT_OK_AND_ASSIGN(
      const LoadedCheckpoint loaded,
      LoadNewest(PosixStorage(), JobFolder(absl::StrCat(folder, "/state"), "test-1", 0), nullptr));
  std::vector<float> live(kFloats);
  ASSERT_OK(client->Fetch(live, nullptr, nullptr));
  EXPECT_EQ(live, loaded.parameters);
  // It sends all of its eleven pushes again, six of which are there.
  PushTimes(client.get(), 11);
  ASSERT_OK(client->Fetch(live, nullptr, nullptr));
  EXPECT_EQ(live, std::vector<float>(kFloats, 11.0f));
  ASSERT_OK_AND_ASSIGN(const ShardStatusReply status, control->GetStatus(""));
  EXPECT_EQ(status.job(0).duplicates(), 6u * kFloats * sizeof(float) / kStripeBytes);
}

TEST(CheckpointProcessTest, AServerInMemoryOnlyRestoresNothing) {
  ASSERT_OK_AND_ASSIGN(const auto shards, TestShards::Start({}));
  RestoreShardJobRequest request;
  *request.mutable_create() = MakeCreate();
  EXPECT_THAT(shards->control(0)->RestoreJob(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no state folder")));
}

TEST(CheckpointProcessTest, ASecondServerOnTheSameFolderEndsWithTheReason) {
  const std::string first = Folder();
  const std::string flag = absl::StrCat("--state_dir=", first, "/state");
  ASSERT_OK_AND_ASSIGN(const PsProcess process, StartPsProcess(first, "", {flag}));
  const std::string second = absl::StrCat(first, "/second");
  std::filesystem::create_directories(second);
  EXPECT_THAT(StartPsProcess(second, "", {flag}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("exited with code 2")));
}

}  // namespace
}  // namespace monsoon
