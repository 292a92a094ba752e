// Rows of tables of a generation: what was touched, and what was not, from any number of parts.
#include "common/checkpoint/stored_rows.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr char kFolder[] = "/s/jobs/words-1@7";
constexpr uint64_t kSeed = 5;
constexpr char kModel[] = R"pb(
  tensor { name: "w" shape: 80 }
  table { name: "words" rows: 50000 columns: 16 }
  table {
    name: "users"
    rows: 101
    columns: 3
    initializer { normal: 1 }
  }
)pb";
// (table, shard, stripe).
using Touched = std::vector<std::pair<uint32_t, std::pair<uint32_t, uint32_t>>>;

float ValueOf(uint32_t table, uint64_t row, uint32_t column) {
  return static_cast<float>(100000 * table + row) + static_cast<float>(column) / 32.0f;
}
float SumOf(uint32_t table, uint64_t row) { return static_cast<float>(2 * row + table) + 0.5f; }

class StoredRowsTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    Model model;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kModel, &model));
    ASSERT_OK_AND_ASSIGN(layout_, ParameterLayout::Create(model));
    ASSERT_OK_AND_ASSIGN(maps_, TableMaps(layout_.tables(), GetParam()));
    create_.set_job("words-1");
    create_.set_job_term(7);
    *create_.mutable_model() = model;
    create_.mutable_optimizer()->mutable_sgd()->set_rate(1);
    create_.set_seed(kSeed);
    create_.set_shards(GetParam());
    create_.set_max_stripe_bytes(64);
    create_.set_layout_hash(layout_.Hash());
    // Of each shard the last stripe of words; of users those of every other shard.
    for (uint32_t shard = 0; shard < GetParam(); ++shard) {
      if (maps_[0].stripes_of(shard) > 0) {
        touched_.push_back({0, {shard, maps_[0].stripes_of(shard) - 1}});
      }
      if (shard % 2 == 0 && maps_[1].stripes_of(shard) > 0) {
        touched_.push_back({1, {shard, 0}});
      }
    }
    std::ranges::sort(touched_);
  }

  std::pair<uint64_t, uint64_t> RowsOf(uint32_t table, uint32_t shard, uint32_t stripe) const {
    const TableMap& map = maps_[table];
    const uint64_t begin = map.first_row(shard) + uint64_t{stripe} * map.stripe_rows();
    return {begin, std::min(begin + map.stripe_rows(), map.first_row(shard + 1))};
  }

  void WriteGeneration(uint64_t generation) {
    const ShardMap map = *ShardMap::Create(layout_.size(), GetParam(), 64);
    for (uint32_t shard = 0; shard < GetParam(); ++shard) {
      ShardCheckpoint content;
      *content.mutable_create() = create_;
      content.mutable_create()->set_shard(shard);
      content.set_generation(generation);
      content.set_shard_epoch(3);
      ASSERT_OK_AND_ASSIGN(const auto writer,
                           PartWriter::Create(&storage_, kFolder, layout_, content));
      for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
        const std::vector<float> floats(map.stripe(shard, stripe).size());
        ASSERT_OK(writer->AddStripe(floats, {}, StripeRecord()));
      }
      std::vector<uint64_t> sizes(2, 0);
      std::vector<std::pair<RowStripeRecord, std::vector<float>>> stripes;
      for (const auto& [table, place] : touched_) {
        if (place.first != shard) {
          continue;
        }
        std::vector<float> floats;
        const auto [begin, end] = RowsOf(table, shard, place.second);
        for (uint64_t row = begin; row < end; ++row) {
          for (uint32_t column = 0; column < maps_[table].columns(); ++column) {
            floats.push_back(ValueOf(table, row, column));
          }
        }
        for (uint64_t row = begin; row < end; ++row) {
          floats.push_back(SumOf(table, row));
        }
        sizes[table] += floats.size();
        RowStripeRecord record;
        record.set_table(table);
        record.set_stripe(place.second);
        stripes.emplace_back(record, std::move(floats));
      }
      writer->SetTableFloats(sizes);
      for (const auto& [record, floats] : stripes) {
        ASSERT_OK(writer->AddRowStripe(floats, record));
      }
      ASSERT_OK(writer->Finish([] { return absl::OkStatus(); }).status());
    }
  }

  std::string File(uint32_t shard, uint64_t generation, const char* ending) const {
    return absl::StrCat(kFolder, "/ps-", shard, "-of-", GetParam(), ".g", generation, ".e3.",
                        ending);
  }

  SimulatedStorage storage_;
  ParameterLayout layout_;
  std::vector<TableMap> maps_;
  CreateShardJobRequest create_;
  Touched touched_;
};

TEST_P(StoredRowsTest, GivesWhatWasTouchedAsItWas) {
  WriteGeneration(1);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, LoadNewest(&storage_, kFolder, nullptr));
  const StoredRows rows(loaded);
  size_t next = 0;
  ASSERT_OK(rows.ReadTouched([&](const RowRun& run) {
    EXPECT_LT(next, touched_.size());
    const auto& [table, place] = touched_[next++];
    const auto [begin, end] = RowsOf(table, place.first, place.second);
    EXPECT_EQ(run.table, table);
    EXPECT_EQ(run.first_row, begin);
    EXPECT_EQ(run.sums.size(), end - begin);
    const uint32_t columns = maps_[table].columns();
    EXPECT_EQ(run.values.size(), run.sums.size() * columns);
    for (size_t i = 0; i < run.sums.size(); ++i) {
      EXPECT_EQ(run.sums[i], SumOf(table, begin + i));
      EXPECT_EQ(run.values[i * columns + 1], ValueOf(table, begin + i, 1));
    }
    return absl::OkStatus();
  }));
  EXPECT_EQ(next, touched_.size());
}

TEST_P(StoredRowsTest, GivesAllRowsOfATable) {
  WriteGeneration(1);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, LoadNewest(&storage_, kFolder, nullptr));
  // What is removed meanwhile is there as long as it is open.
  for (uint32_t shard = 0; shard < GetParam(); ++shard) {
    ASSERT_OK(storage_.Remove(File(shard, 1, "safetensors")));
  }
  const StoredRows rows(loaded);
  for (uint32_t table = 0; table < 2; ++table) {
    const TableInfo& info = layout_.tables()[table];
    std::vector<float> expected(info.rows * info.columns);
    InitializeRows(info, table, kSeed, 0, expected);
    for (const auto& [of, place] : touched_) {
      const auto [begin, end] = RowsOf(of, place.first, place.second);
      for (uint64_t row = begin; row < end && of == table; ++row) {
        for (uint32_t column = 0; column < info.columns; ++column) {
          expected[row * info.columns + column] = ValueOf(table, row, column);
        }
      }
    }
    std::vector<float> read;
    size_t largest = 0;
    ASSERT_OK(rows.ReadTable(table, [&](const RowRun& run) {
      EXPECT_EQ(run.table, table);
      EXPECT_EQ(run.first_row * info.columns, read.size());
      read.insert(read.end(), run.values.begin(), run.values.end());
      largest = std::max(largest, run.values.size());
      return absl::OkStatus();
    }));
    EXPECT_EQ(read, expected);
    EXPECT_LE(largest, TableMap::kStripeBytes / sizeof(float));
  }
}

TEST_P(StoredRowsTest, TheTakersErrorEndsIt) {
  WriteGeneration(1);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, LoadNewest(&storage_, kFolder, nullptr));
  const StoredRows rows(loaded);
  int calls = 0;
  const auto refuse = [&](const RowRun&) {
    ++calls;
    return absl::UnavailableError("no more");
  };
  EXPECT_THAT(rows.ReadTouched(refuse),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no more")));
  EXPECT_THAT(rows.ReadTable(1, refuse),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no more")));
  EXPECT_EQ(calls, 2);
}

// A generation with a damaged row is passed over; one that is damaged later is noticed.
TEST_P(StoredRowsTest, DamagedRowsAreNotTaken) {
  WriteGeneration(1);
  WriteGeneration(2);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint before, LoadNewest(&storage_, kFolder, nullptr));
  EXPECT_EQ(before.content.generation(), 2u);
  const std::string file = File(0, 2, "safetensors");
  ASSERT_OK_AND_ASSIGN(const std::string bytes, storage_.ReadAll(file, 1 << 24));
  const float last = SumOf(0, RowsOf(0, 0, maps_[0].stripes_of(0) - 1).second - 1);
  const std::string value(reinterpret_cast<const char*>(&last), sizeof(last));
  const size_t at = bytes.rfind(value);
  ASSERT_NE(at, std::string::npos);
  storage_.CorruptByte(file, at, 4);
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint after, LoadNewest(&storage_, kFolder, &skipped));
  EXPECT_EQ(after.content.generation(), 1u);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_THAT(skipped[0], AllOf(HasSubstr(file), HasSubstr("\"table:words\" does not match")));
  EXPECT_THAT(StoredRows(before).ReadTouched([](const RowRun&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file)));
}

INSTANTIATE_TEST_SUITE_P(Shards, StoredRowsTest, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace monsoon
