// Rows of tables of `submit --resume` and `export`, on real shards: a job goes on from
// its checkpoint on another number of shards as if nothing had been.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/stored_rows.h"
#include "common/storage/storage.h"
#include "common/testing/status_matchers.h"
#include "coordinator/cli/resume_source.h"
#include "coordinator/cli/shard_transfer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using Vector = std::vector<float>;

constexpr absl::Duration kPatience = absl::Seconds(20);
const auto kStillThere = [] { return absl::OkStatus(); };

TestJobOptions TableJob() {
  TestJobOptions job;
  ModelTensor* const tensor = job.model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(200);
  Table* table = job.model.add_table();
  table->set_name("words");
  table->set_rows(60000);  // in four stripes
  table->set_columns(16);
  table->mutable_optimizer()->set_learning_rate(0.1);
  table = job.model.add_table();
  table->set_name("users");
  table->set_rows(101);  // in as many as there are shards, of other sizes each time
  table->set_columns(3);
  table->mutable_initializer()->set_normal(1);
  table->mutable_optimizer()->set_learning_rate(0.5);
  table->mutable_optimizer()->set_initial_sum(0.25);
  job.optimizer.mutable_adagrad()->set_rate(0.1);
  job.optimizer.mutable_adagrad()->set_epsilon(1e-8);
  job.seed = 9;
  return job;
}

std::string Folder() {
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ranges::replace(name, '/', '_');
  const std::string path = ::testing::TempDir() + "/resume_rows_" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

class ResumeRowsTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    state_dir_ = Folder();
    ASSERT_OK_AND_ASSIGN(old_, TestShards::Start({.shards = 2, .state_dir = state_dir_}));
    ASSERT_OK_AND_ASSIGN(old_job_, old_->CreateJob(TableJob()));
    ASSERT_OK_AND_ASSIGN(old_client_, old_->Join(old_job_, 0));
  }

  // Push `number` of rows that are spread over the first half of words, so that stripes stay
  // untouched, and over users.
  static void Push(const TestJob& job, ParameterClient* client, uint64_t number) {
    std::mt19937_64 random(number);
    Vector dense(job.map.size());
    for (uint64_t i = 0; i < 200; ++i) dense[i] = static_cast<float>(random() % 100) / 50.0f - 1;
    std::vector<std::vector<uint64_t>> rows(2);
    std::vector<Vector> values(2);
    std::vector<RowGradient> gradients;
    for (uint32_t table = 0; table < 2; ++table) {
      std::set<uint64_t> chosen;
      for (int i = 0; i < 40; ++i) chosen.insert(random() % (table == 0 ? 30000 : 101));
      rows[table].assign(chosen.begin(), chosen.end());
      for (size_t i = 0; i < rows[table].size() * job.tables[table].columns(); ++i) {
        values[table].push_back(static_cast<float>(random() % 1000) / 500.0f - 1);
      }
      gradients.push_back({table, rows[table], values[table]});
    }
    GradientView view(dense);
    view.rows = gradients;
    ASSERT_OK(client->Push(view, {}));
  }
  static JobLocation LocationOf(TestShards* shards) {
    const TestJobOptions options = TableJob();
    JobLocation location;
    location.set_job(options.name);
    *location.mutable_model() = options.model;
    location.set_layout_hash(ParameterLayout::Create(options.model)->Hash());
    location.set_max_stripe_bytes(options.max_stripe_bytes);
    for (size_t shard = 0; shard < shards->addresses().size(); ++shard) {
      location.add_address(shards->addresses()[shard]);
      location.add_shard_epoch(
          shards->control(static_cast<uint32_t>(shard))->GetStatus("test")->shard_epoch());
    }
    return location;
  }
  // All rows of both tables, as `export` gets them.
  absl::StatusOr<std::vector<Vector>> Rows(TestShards* shards) {
    std::vector<Vector> rows(2);
    for (uint32_t table = 0; table < 2; ++table) {
      const absl::Status fetched = transfer_->FetchTable(
          LocationOf(shards), old_job_.layout, table,
          [&](const RowRun& run) {
            EXPECT_EQ(run.table, table);
            EXPECT_EQ(run.first_row * old_job_.tables[table].columns(), rows[table].size());
            rows[table].insert(rows[table].end(), run.values.begin(), run.values.end());
            return absl::OkStatus();
          },
          kStillThere);
      if (!fetched.ok()) return fetched;
    }
    return rows;
  }
  static uint64_t Touched(TestShards* shards) {
    uint64_t touched = 0;
    for (uint32_t shard = 0; shard < shards->addresses().size(); ++shard) {
      touched += shards->control(shard)->GetStatus("test")->job(0).touched_table_stripes();
    }
    return touched;
  }
  absl::StatusOr<LoadedCheckpoint> Load() const {
    return LoadNewest(PosixStorage(), JobFolder(state_dir_, "test-1", 0), nullptr);
  }

  std::string state_dir_;
  std::unique_ptr<TestShards> old_;
  TestJob old_job_;
  std::unique_ptr<ParameterClient> old_client_;
  const std::unique_ptr<ModelTransfer> transfer_ = MakeShardTransfer(kPatience);
};

TEST_P(ResumeRowsTest, GoOnAsIfNothingHadBeen) {
  for (uint64_t push = 1; push <= 10; ++push) {
    Push(old_job_, old_client_.get(), push);
  }
  ASSERT_OK(old_->Checkpoint("test-1", 1));
  ASSERT_OK_AND_ASSIGN(LoadedCheckpoint checkpoint, Load());
  Job job;
  *job.mutable_model() = TableJob().model;
  job.set_seed(TableJob().seed);
  *job.mutable_downpour()->mutable_optimizer() = TableJob().optimizer;
  std::vector<std::string> notes;
  ASSERT_OK_AND_ASSIGN(const ResumeSource source,
                       MakeResumeSource(std::move(checkpoint), job, old_job_.layout, &notes));
  EXPECT_THAT(notes, ElementsAre());

  ASSERT_OK_AND_ASSIGN(const auto shards, TestShards::Start({.shards = GetParam()}));
  TestJobOptions written = TableJob();
  written.written_by_client = true;
  ASSERT_OK_AND_ASSIGN(const TestJob new_job, shards->CreateJob(written));
  ASSERT_OK(transfer_->Write(LocationOf(shards.get()), new_job.layout, source.values));
  // No stripe is made but those of rows that were touched: of words, two stripes of four.
  EXPECT_EQ(Touched(shards.get()), 2 + std::min<uint64_t>(GetParam(), 101));
  ASSERT_OK_AND_ASSIGN(const auto client, shards->Join(new_job, 0));
  const auto compare = [&] {
    ASSERT_OK_AND_ASSIGN(const std::vector<Vector> here, Rows(shards.get()));
    ASSERT_OK_AND_ASSIGN(const std::vector<Vector> there, Rows(old_.get()));
    EXPECT_TRUE(here == there);
    Vector dense(new_job.map.size()), dense_there(new_job.map.size());
    ASSERT_OK(client->Fetch(dense, nullptr, nullptr));
    ASSERT_OK(old_client_->Fetch(dense_there, nullptr, nullptr));
    EXPECT_EQ(dense, dense_there);
  };
  compare();
  // Of rows whose sums are not the same the next step is not either.
  for (uint64_t push = 11; push <= 20; ++push) {
    Push(old_job_, old_client_.get(), push);
    Push(new_job, client.get(), push);
  }
  compare();
}

TEST_P(ResumeRowsTest, ACheckpointsRowsAreThoseOfItsMoment) {
  for (uint64_t push = 1; push <= 5; ++push) {
    Push(old_job_, old_client_.get(), push);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<Vector> before, Rows(old_.get()));
  ASSERT_OK(old_->Checkpoint("test-1", 1));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint checkpoint, Load());
  Push(old_job_, old_client_.get(), 6);
  const StoredRows stored(checkpoint);
  for (uint32_t table = 0; table < 2; ++table) {
    Vector rows;
    ASSERT_OK(stored.ReadTable(table, [&](const RowRun& run) {
      rows.insert(rows.end(), run.values.begin(), run.values.end());
      return absl::OkStatus();
    }));
    EXPECT_TRUE(rows == before[table]);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<Vector> after, Rows(old_.get()));
  EXPECT_FALSE(after == before);
}

TEST_P(ResumeRowsTest, RowsOfAnotherLifeAreNotExported) {
  Push(old_job_, old_client_.get(), 1);
  ASSERT_OK(old_->Checkpoint("test-1", 1));
  const JobLocation location = LocationOf(old_.get());
  ASSERT_OK(old_->Restart(1));
  ASSERT_OK(old_->Restore(TableJob(), 1));
  const absl::Status fetched = transfer_->FetchTable(
      location, old_job_.layout, 0, [](const RowRun&) { return absl::OkStatus(); }, kStillThere);
  EXPECT_THAT(fetched, StatusIs(absl::StatusCode::kUnavailable,
                                HasSubstr("ps/1 was started anew while rows were fetched")));
  ASSERT_OK(Rows(old_.get()));  // as of the new one
}

INSTANTIATE_TEST_SUITE_P(Shards, ResumeRowsTest, ::testing::Values(1, 3));

}  // namespace
}  // namespace monsoon
