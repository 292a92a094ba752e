// Pushes whose rows take several frames to a shard, over links that lose frames and to servers
// that die while they write: every row counts each push once. All rows of a table begin alike and
// get the same gradient, so that one row that moves otherwise is seen.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/model/table_map.h"
#include "common/optimizer/row_adagrad.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/row_gradient.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;
using Vector = std::vector<float>;

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr float kGradient = 0.5f;

struct TestTable {
  const char* name;
  uint64_t rows;
  uint32_t columns;
};
// On two shards each takes two frames of the first at least, and two of the second.
constexpr TestTable kTables[] = {{"words", 50000, 16}, {"wide", 9, 60000}};

TestJobOptions TableJob() {
  TestJobOptions job;
  ModelTensor* const tensor = job.model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(64);
  for (const TestTable& test : kTables) {
    Table* const table = job.model.add_table();
    table->set_name(test.name);
    table->set_rows(test.rows);
    table->set_columns(test.columns);
    table->mutable_initializer()->set_constant(1);
    table->mutable_optimizer()->set_learning_rate(0.5);
    table->mutable_optimizer()->set_epsilon(0.125);
  }
  job.optimizer = TestSgd(0.5);
  return job;
}

// What every row of the table is after so many pushes.
Vector RowAfter(uint32_t columns, uint64_t pushes) {
  Vector row(columns, 1.0f);
  const Vector gradient(columns, kGradient);
  float sum = 0;
  for (uint64_t i = 0; i < pushes; ++i) {
    StepRow({.learning_rate = 0.5f, .epsilon = 0.125f}, gradient.data(), columns, row.data(), &sum);
  }
  return row;
}

class RowsFaultsTest : public ::testing::TestWithParam<Transport> {
 protected:
  RowsFaultsTest() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    folder_ = ::testing::TempDir() + "/" + name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (const TestTable& table : kTables) {
      std::vector<uint64_t>& rows = rows_.emplace_back();
      for (uint64_t row = 0; row < table.rows; ++row) rows.push_back(row);
      values_.emplace_back(table.rows * table.columns, kGradient);
    }
    for (uint32_t table = 0; table < rows_.size(); ++table) {
      gradients_.push_back({table, rows_[table], values_[table]});
    }
  }
  void Start(const FaultOptions& fault) {
    ASSERT_OK_AND_ASSIGN(
        shards_, TestShards::Start(
                     {.shards = 2, .fault = fault, .transport = GetParam(), .state_dir = folder_}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(TableJob()));
  }
  absl::StatusOr<ParameterClient::PushResult> Push(ParameterClient* client) {
    const Vector dense(job_.map.size());
    GradientView view(dense);
    view.rows = gradients_;
    return client->Push(view, {});
  }
  void ExpectRows(ParameterClient* client, uint64_t pushes) {
    for (uint32_t table = 0; table < rows_.size(); ++table) {
      Vector values(values_[table].size());
      const std::vector<RowRequest> wanted{{table, rows_[table], values}};
      ASSERT_OK(client->FetchRows(wanted, nullptr));
      const uint32_t columns = kTables[table].columns;
      const Vector expected = RowAfter(columns, pushes);
      for (uint64_t row = 0; row < kTables[table].rows; ++row) {
        const auto begin = values.begin() + static_cast<ptrdiff_t>(row * columns);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), begin))
            << kTables[table].name << " row " << row << " is " << *begin << ", expected "
            << expected[0] << " after " << pushes << " pushes";
      }
    }
  }

  std::string folder_;
  std::vector<std::vector<uint64_t>> rows_;
  std::vector<Vector> values_;
  std::vector<RowGradient> gradients_;
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
    ASSERT_OK_AND_ASSIGN(const auto result, Push(client.get()));
    EXPECT_EQ(result.sequence, push);
    retries += result.retries;
  }
  EXPECT_GT(retries, 0u);
  ExpectRows(client.get(), 10);
}

TEST_P(RowsFaultsTest, ServersThatDieWhileTheyWriteHaveEachPushOnce) {
  Start({});
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards_->OpenSession(job_, 0));
  options.keep_bytes = uint64_t{512} << 20;
  options.deadline = kPatience;
  ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(std::move(options)));
  uint64_t pushes = 0;
  const auto push = [&] {
    ASSERT_OK(Push(client.get()));
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
    const auto dies = static_cast<uint32_t>(generation % 2);
    if (generation > 2) {  // it has some generation
      ASSERT_OK(shards_->Restart(dies));
      push();  // kept for it
      ASSERT_OK_AND_ASSIGN(const auto reply, shards_->Restore(TableJob(), dies));
      EXPECT_GT(reply.generation(), 0u);
      client->NameEpoch(dies, reply.shard_epoch());
      ASSERT_OK(client->BringBack(kPatience));
      ASSERT_EQ(client->away(), std::nullopt);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRows(client.get(), pushes));
    // Whatever of the last one was written, by both.
    ASSERT_OK(shards_->Checkpoint(job_.name, generation));
  }
  EXPECT_GT(client->kept().replayed, 0u);
}

TEST_P(RowsFaultsTest, RowsFillTheWindow) {
  Start({});
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards_->OpenSession(job_, 0));
  options.keep_bytes = 8 << 20;
  options.deadline = absl::Seconds(1);
  ASSERT_OK_AND_ASSIGN(const auto client, ParameterClient::Create(std::move(options)));
  ASSERT_OK(Push(client.get()));
  // Numbers and values of all rows, and the vector.
  EXPECT_EQ(client->kept().bytes, 50000u * 17 * 4 + 9 * 60001 * 4 + 64 * 4);
  EXPECT_TRUE(client->kept().wants_checkpoint);
  EXPECT_THAT(Push(client.get()).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no room for a push")));
  ExpectRows(client.get(), 1);
  ASSERT_OK(shards_->Checkpoint(job_.name, 1));
  EXPECT_THAT(Push(client.get()).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("no room for a push")));
  ASSERT_OK(shards_->Checkpoint(job_.name, 2));
  ASSERT_OK_AND_ASSIGN(const auto result, Push(client.get()));
  EXPECT_EQ(result.sequence, 2u);
  ExpectRows(client.get(), 2);
}

INSTANTIATE_TEST_SUITE_P(, RowsFaultsTest,
                         ::testing::Values(Transport::GRPC, Transport::SHARED_MEMORY),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace monsoon
