// Rows of tables through clients and servers: every row equals a scalar oracle's, whatever the
// transport, the shards and the servers' deaths.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/model/table_info.h"
#include "common/model/table_map.h"
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
using Rows = std::vector<uint64_t>;

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr uint64_t kSeed = 1;

std::string Folder() {
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ranges::replace(name, '/', '_');
  const std::string path = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

TestJobOptions TableJob() {
  TestJobOptions job;
  ModelTensor* const tensor = job.model.add_tensor();
  tensor->set_name("w");
  tensor->add_shape(64);
  Table* table = job.model.add_table();
  table->set_name("words");
  table->set_rows(50000);  // in four stripes
  table->set_columns(16);
  table->mutable_optimizer()->set_learning_rate(0.1);
  table = job.model.add_table();
  table->set_name("users");
  table->set_rows(101);
  table->set_columns(3);
  table->mutable_initializer()->set_normal(1);
  table->mutable_optimizer()->set_learning_rate(0.5);
  table->mutable_optimizer()->set_initial_sum(0.25);
  job.optimizer = TestSgd(0.5);
  job.seed = kSeed;
  return job;
}

// What rows are, in double.
class Oracle {
 public:
  explicit Oracle(std::vector<TableInfo> tables) : tables_(std::move(tables)) {}

  void Push(uint32_t table, uint64_t row, const float* gradient) {
    Row& state = RowOf(table, row);
    double squares = 0;
    for (size_t i = 0; i < state.values.size(); ++i) {
      squares += double{gradient[i]} * gradient[i];
    }
    state.sum += squares / static_cast<double>(state.values.size());
    const RowAdagrad& optimizer = tables_[table].optimizer;
    for (size_t i = 0; i < state.values.size(); ++i) {
      state.values[i] -=
          optimizer.learning_rate() * gradient[i] / (std::sqrt(state.sum) + optimizer.epsilon());
    }
  }
  const std::vector<double>& At(uint32_t table, uint64_t row) { return RowOf(table, row).values; }

 private:
  struct Row {
    std::vector<double> values;
    double sum = 0;
  };
  Row& RowOf(uint32_t table, uint64_t row) {
    auto [found, is_new] = rows_.try_emplace({table, row});
    if (is_new) {
      Vector first(tables_[table].columns);
      InitializeRows(tables_[table], table, kSeed, row, first);
      found->second.values.assign(first.begin(), first.end());
      found->second.sum = tables_[table].optimizer.initial_sum();
    }
    return found->second;
  }
  const std::vector<TableInfo> tables_;
  std::map<std::pair<uint32_t, uint64_t>, Row> rows_;
};

// Rows of one push, made from its number.
struct Gradient {
  Gradient(const TestJob& job, uint32_t worker, uint64_t push) {
    std::mt19937_64 random(push * 1000 + worker);
    dense.assign(job.map.size(), 0.0f);
    for (uint32_t table = 0; table < job.tables.size(); ++table) {
      Rows some;
      const size_t count = random() % 40;  // also none
      for (size_t i = 0; i < count; ++i) {
        some.push_back(random() % job.tables[table].rows());
      }
      std::ranges::sort(some);
      some.erase(std::ranges::unique(some).begin(), some.end());
      Vector some_values(some.size() * job.tables[table].columns());
      for (float& value : some_values) {
        value = static_cast<float>(random() % 2001) / 1000 - 1;
      }
      rows.push_back(std::move(some));
      values.push_back(std::move(some_values));
    }
    for (uint32_t table = 0; table < rows.size(); ++table) {
      gradients.push_back({table, rows[table], values[table]});
    }
  }
  Gradient(const Gradient&) = delete;

  GradientView View() const {
    GradientView view(dense);
    view.rows = gradients;
    return view;
  }
  void AddTo(Oracle* oracle) const {
    for (uint32_t table = 0; table < rows.size(); ++table) {
      const size_t columns = rows[table].empty() ? 0 : values[table].size() / rows[table].size();
      for (size_t i = 0; i < rows[table].size(); ++i) {
        oracle->Push(table, rows[table][i], &values[table][i * columns]);
      }
    }
  }

  Vector dense;
  std::vector<Rows> rows;
  std::vector<Vector> values;
  std::vector<RowGradient> gradients;
};

struct Variant {
  Transport transport;
  uint32_t shards;
};

class RowsTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(shards_, TestShards::Start({.shards = GetParam().shards,
                                                     .transport = GetParam().transport,
                                                     .state_dir = folder_}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(TableJob()));
    oracle_ = std::make_unique<Oracle>(job_.layout.tables());
  }
  std::unique_ptr<ParameterClient> Join(uint32_t worker, uint64_t keep_bytes = 0) {
    ParameterClientOptions options = *shards_->OpenSession(job_, worker);
    options.keep_bytes = keep_bytes;
    options.deadline = kPatience;
    return *ParameterClient::Create(std::move(options));
  }
  void Push(ParameterClient* client, uint32_t worker, uint64_t push) {
    const Gradient gradient(job_, worker, push);
    ASSERT_OK_AND_ASSIGN(const auto result, client->Push(gradient.View(), {}));
    EXPECT_EQ(result.sequence, push);
    gradient.AddTo(oracle_.get());
  }
  // One row of the large table, with a gradient of ones.
  absl::Status PushRow(ParameterClient* client, uint64_t row) {
    const Vector dense(job_.map.size()), values(16, 1.0f);
    const Rows rows{row};
    const std::vector<RowGradient> gradients{{0, rows, values}};
    GradientView view(dense);
    view.rows = gradients;
    return client->Push(view, {}).status();
  }
  // All rows of the small table, and each seventh of the large one, backwards.
  void Compare(ParameterClient* client) {
    std::vector<Rows> rows(2);
    for (uint64_t row = 0; row < 101; ++row) rows[1].push_back(row);
    for (uint64_t row = 50000; row >= 7; row -= 7) rows[0].push_back(row - 1);
    std::vector<Vector> values{Vector(rows[0].size() * 16), Vector(rows[1].size() * 3)};
    const std::vector<RowRequest> wanted{{1, rows[1], values[1]}, {0, rows[0], values[0]}};
    ASSERT_OK(client->FetchRows(wanted, nullptr));
    for (uint32_t table = 0; table < 2; ++table) {
      const size_t columns = job_.tables[table].columns();
      for (size_t i = 0; i < rows[table].size(); ++i) {
        const std::vector<double>& expected = oracle_->At(table, rows[table][i]);
        for (size_t j = 0; j < columns; ++j) {
          ASSERT_NEAR(values[table][i * columns + j], expected[j], 2e-5)
              << "table " << table << ", row " << rows[table][i];
        }
      }
    }
  }
  ShardJobStatus Status(uint32_t shard) {
    return shards_->control(shard)->GetStatus("test")->job(0);
  }
  // The coordinator's part.
  void Restore(ParameterClient* client, uint32_t shard) {
    ASSERT_OK_AND_ASSIGN(const auto reply, shards_->Restore(TableJob(), shard));
    client->NameEpoch(shard, reply.shard_epoch());
    ASSERT_OK(client->BringBack(kPatience));
    ASSERT_EQ(client->away(), std::nullopt);
  }

  const std::string folder_ = Folder();
  std::unique_ptr<TestShards> shards_;
  TestJob job_;
  std::unique_ptr<Oracle> oracle_;
};

TEST_P(RowsTest, EqualTheOracleAndUntouchedStripesTakeNothing) {
  const auto client = Join(0);
  Compare(client.get());  // as they begin
  uint64_t touched = 0, stripes = 0;
  for (uint32_t shard = 0; shard < GetParam().shards; ++shard) {
    touched += Status(shard).touched_table_stripes();
    stripes += Status(shard).table_stripes();
  }
  EXPECT_EQ(touched, 0u);
  EXPECT_GT(stripes, 3u);
  for (uint64_t push = 1; push <= 30; ++push) {
    Push(client.get(), 0, push);
  }
  Compare(client.get());
  const auto reader = *shards_->Reader(job_);
  Compare(reader.get());
}

TEST_P(RowsTest, OneRowTouchesOneStripe) {
  const auto client = Join(0);
  ASSERT_OK(PushRow(client.get(), 20000));
  ASSERT_OK(client->Push(Vector(job_.map.size()), {}));  // and without rows
  uint64_t touched = 0, applied = 0;
  for (uint32_t shard = 0; shard < GetParam().shards; ++shard) {
    touched += Status(shard).touched_table_stripes();
    applied += Status(shard).rows_applied();
  }
  EXPECT_EQ(touched, 1u);
  EXPECT_EQ(applied, 1u);
}

TEST_P(RowsTest, TwoWorkersAtOnceLoseNothing) {
  // Rates that are the same in any order: the sum alone decides, of one gradient for all.
  const auto one = Join(0), two = Join(1);
  const Vector dense(job_.map.size());
  Rows rows;
  for (uint64_t row = 0; row < 50000; row += 50) rows.push_back(row);
  const Vector values(rows.size() * 16, 0.5f);
  const std::vector<RowGradient> gradients{{0, rows, values}};
  constexpr int kPushes = 25;
  const auto push_all = [&](ParameterClient* client) {
    GradientView view(dense);
    view.rows = gradients;
    for (int i = 0; i < kPushes; ++i) {
      EXPECT_OK(client->Push(view, {}));
    }
  };
  std::thread other([&] { push_all(two.get()); });
  push_all(one.get());
  other.join();
  for (int i = 0; i < 2 * kPushes; ++i) {
    for (size_t j = 0; j < rows.size(); ++j) oracle_->Push(0, rows[j], &values[j * 16]);
  }
  Compare(one.get());
}

TEST_P(RowsTest, WhatIsWrongIsSaidBeforeAnythingLeaves) {
  const auto client = Join(0);
  const Rows beyond{50000};
  EXPECT_THAT(PushRow(client.get(), 50000),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 50000 of 50000")));
  Vector out(16);
  const std::vector<RowRequest> wanted{{0, beyond, out}};
  EXPECT_THAT(client->FetchRows(wanted, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 50000 of 50000")));
  Push(client.get(), 0, 1);  // no number was used
}

TEST_P(RowsTest, AClosedSessionMovesNothingMore) {
  const auto client = Join(0);
  Push(client.get(), 0, 1);
  const auto later = *ParameterClient::Create(*shards_->OpenSession(job_, 0, /*incarnation=*/2));
  const Gradient gradient(job_, 0, 2);
  const auto refused = client->Push(gradient.View(), {});
  EXPECT_TRUE(IsSessionLost(refused.status())) << refused.status();
  Compare(later.get());
  ASSERT_OK_AND_ASSIGN(const auto result, later->Push(gradient.View(), {}));
  EXPECT_EQ(result.sequence, 1u);  // its own
  gradient.AddTo(oracle_.get());
  Compare(later.get());
}

TEST_P(RowsTest, AShardThatWasStartedAnewHasEachPushOnce) {
  const auto client = Join(0, uint64_t{64} << 20);
  uint64_t push = 0, generation = 0;
  for (; push < 6;) Push(client.get(), 0, ++push);
  ASSERT_OK(shards_->Checkpoint(job_.name, ++generation));
  for (; push < 12;) Push(client.get(), 0, ++push);
  for (uint32_t shard = 0; shard < GetParam().shards; ++shard) {
    ASSERT_OK(shards_->Restart(shard));
    Push(client.get(), 0, ++push);  // kept for it
    Restore(client.get(), shard);
    Push(client.get(), 0, ++push);
    Compare(client.get());
    ASSERT_OK(shards_->Checkpoint(job_.name, ++generation));
  }
  EXPECT_GT(client->kept().replayed, 0u);
  // Twice without a generation between, and from the newest alone.
  ASSERT_OK(shards_->Checkpoint(job_.name, ++generation));
  Push(client.get(), 0, ++push);
  for (int death = 0; death < 2; ++death) {
    ASSERT_OK(shards_->Restart(0));
    Restore(client.get(), 0);
    Push(client.get(), 0, ++push);
  }
  Compare(client.get());
  ASSERT_OK(client->AwaitDurable(absl::ZeroDuration()).ok()
                ? absl::OkStatus()
                : shards_->Checkpoint(job_.name, ++generation));
  ASSERT_OK(client->AwaitDurable(kPatience));
}

TEST_P(RowsTest, AreWrittenBeforeTheFirstSessionAlone) {
  const auto writer = *shards_->Reader(job_);
  // Of the large table, over more than one stripe and frame.
  const size_t count = 40000;
  Vector values(count * 16), sums(count), out(16);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  for (size_t i = 0; i < count; ++i) sums[i] = static_cast<float>(i % 7);
  const RowWrite write{.table = 0, .first_row = 9000, .values = values, .sums = sums};
  ASSERT_OK(writer->WriteRows(write, {}));
  RowWrite beyond = write;
  beyond.first_row = 10001;
  EXPECT_THAT(writer->WriteRows(beyond, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a write of")));
  const auto client = Join(0);
  for (const uint64_t row : {9000, 20000, 48999}) {
    const Rows rows{row};
    const std::vector<RowRequest> wanted{{0, rows, out}};
    ASSERT_OK(client->FetchRows(wanted, nullptr));
    const size_t at = row - 9000;
    EXPECT_EQ(out, Vector(values.begin() + at * 16, values.begin() + (at + 1) * 16));
    ASSERT_OK(PushRow(client.get(), row));
    ASSERT_OK(client->FetchRows(wanted, nullptr));
    EXPECT_NEAR(out[3], values[at * 16 + 3] - 0.1 / std::sqrt(sums[at] + 1), 1e-4);
  }
  EXPECT_THAT(writer->WriteRows(write, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("session")));
}

// The window empties only when two generations hold what was pushed.
TEST_P(RowsTest, WhatIsDurableIsForgotten) {
  const auto client = Join(0, uint64_t{64} << 20);
  for (uint64_t push = 1; push <= 5; ++push) Push(client.get(), 0, push);
  const uint64_t kept = client->kept().bytes;
  EXPECT_GT(kept, 5 * 3 * 64u);
  ASSERT_OK(shards_->Checkpoint(job_.name, 1));
  Push(client.get(), 0, 6);
  EXPECT_GT(client->kept().bytes, kept);
  ASSERT_OK(shards_->Checkpoint(job_.name, 2));
  Push(client.get(), 0, 7);
  EXPECT_LT(client->kept().bytes, kept);
  Compare(client.get());
}

INSTANTIATE_TEST_SUITE_P(, RowsTest,
                         ::testing::Values(Variant{Transport::GRPC, 1}, Variant{Transport::GRPC, 3},
                                           Variant{Transport::SHARED_MEMORY, 2}),
                         [](const auto& info) {
                           return NameOf(info.param.transport) + std::to_string(info.param.shards);
                         });

}  // namespace
}  // namespace monsoon
