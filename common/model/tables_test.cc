#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/model/parameter_layout.h"
#include "common/model/table_info.h"
#include "common/model/table_map.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

Model ModelOf(const std::string& text) {
  Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model;
}

TEST(TableMapTest, RunsCoverTheRowsInOrderAndOwnersAreFound) {
  for (const uint64_t rows : {1, 2, 5, 7, 1000, 15420, 15421, 100000, 10000000}) {
    for (const uint32_t columns : {1u, 3u, 16u, 4000u}) {
      for (const uint32_t shards : {1u, 2u, 3u, 7u, 40u}) {
        ASSERT_OK_AND_ASSIGN(const TableMap map, TableMap::Create(rows, columns, shards));
        EXPECT_EQ(map.first_row(0), 0u);
        EXPECT_EQ(map.first_row(shards), rows);
        EXPECT_LE(map.stripe_rows() * map.row_bytes(), TableMap::kStripeBytes);
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t shard = 0; shard < shards; ++shard) {
          const uint64_t begin = map.first_row(shard), end = map.first_row(shard + 1);
          ASSERT_LE(begin, end);
          EXPECT_EQ(begin % map.stripe_rows() == 0 || begin == rows, true);
          least = std::min(least, map.stripes_of(shard));
          most = std::max(most, map.stripes_of(shard));
          if (begin < end) {
            EXPECT_EQ(map.ShardOf(begin), shard);
            EXPECT_EQ(map.ShardOf(end - 1), shard);
          }
        }
        EXPECT_LE(most - least, 1u) << rows << " x " << columns << " on " << shards;
      }
    }
  }
}

TEST(TableMapTest, ASmallTableIsSpreadOverTheShards) {
  ASSERT_OK_AND_ASSIGN(const TableMap map, TableMap::Create(100, 8, 4));
  for (uint32_t shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(map.rows_of(shard), 25u);
  }
}

TEST(TableMapTest, RefusesWhatCannotBe) {
  EXPECT_THAT(TableMap::Create(0, 1, 1).status().message(), HasSubstr("0 rows"));
  EXPECT_THAT(TableMap::Create(1, 0, 1).status().message(), HasSubstr("0 columns"));
  EXPECT_THAT(TableMap::Create(1, 65537, 1).status().message(), HasSubstr("65537 columns"));
  EXPECT_THAT(TableMap::Create(uint64_t{1} << 40, 2, 1).status().message(), HasSubstr("2^40"));
  EXPECT_THAT(TableMap::Create(uint64_t{1} << 34, 1, 2).status().message(),
              HasSubstr("a shard holds at most 2^32"));
}

constexpr char kModel[] = R"pb(
  tensor { name: "w" shape: 3 }
  table { name: "words" rows: 50 columns: 4 }
  table {
    name: "users"
    rows: 9
    columns: 3
    initializer { normal: 0.5 }
    optimizer { learning_rate: 0.1 }
  }
)pb";

TEST(TableInfoTest, FillsInDefaults) {
  ASSERT_OK_AND_ASSIGN(const auto tables, ReadTables(ModelOf(kModel)));
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].initializer.uniform(), 0.5);  // 1 / sqrt(4)
  EXPECT_EQ(tables[0].optimizer.learning_rate(), 0.01);
  EXPECT_EQ(tables[1].optimizer.learning_rate(), 0.1);
  EXPECT_EQ(tables[1].optimizer.epsilon(), 1e-8);
}

TEST(TableInfoTest, NamesTheTableThatIsWrong) {
  const auto error = [](const std::string& text) {
    return std::string(ReadTables(ModelOf(text)).status().message());
  };
  EXPECT_EQ(error(R"pb(tensor { name: "w" }
                       table { name: "w" rows: 1 columns: 1 })pb"),
            "table \"w\": the name is used twice");
  EXPECT_THAT(error(R"pb(tensor { name: "w" }
                         table { name: "t" rows: 1 })pb"),
              HasSubstr("table \"t\": 0 columns"));
  EXPECT_THAT(error(R"pb(tensor { name: "w" }
                         table { rows: 1 columns: 1 })pb"),
              HasSubstr("1 to 128 printable"));
  EXPECT_THAT(error(R"pb(table { name: "t" rows: 1 columns: 1 })pb"), HasSubstr("at least one"));
  EXPECT_EQ(error(R"pb(tensor { name: "w" }
                       table { name: "t[0:5)" rows: 1 columns: 1 })pb"),
            "table \"t[0:5)\": a table's name does not end with ')'");
  EXPECT_THAT(error(R"pb(tensor { name: "w" }
                         table { name: "../t" rows: 1 columns: 1 })pb"),
              HasSubstr("no path that leaves its folder"));
  EXPECT_THAT(error(R"pb(tensor { name: "w" }
                         table {
                           name: "t"
                           rows: 1
                           columns: 1
                           initializer { he_normal {} }
                         })pb"),
              HasSubstr("table \"t\": its rows begin with"));
  EXPECT_THAT(error(R"pb(tensor { name: "w" }
                         table {
                           name: "t"
                           rows: 1
                           columns: 1
                           optimizer { learning_rate: -1 }
                         })pb"),
              HasSubstr("must be finite"));
}

TEST(TableInfoTest, AreInTheLayoutsHashAndNotInTheVector) {
  ASSERT_OK_AND_ASSIGN(const auto with, ParameterLayout::Create(ModelOf(kModel)));
  ASSERT_OK_AND_ASSIGN(const auto without,
                       ParameterLayout::Create(ModelOf(R"pb(tensor { name: "w" shape: 3 })pb")));
  EXPECT_NE(with.Hash(), without.Hash());
  EXPECT_EQ(with.size(), without.size());
  EXPECT_EQ(with.tables().size(), 2u);
}

// What is one stripe here is two there: the values do not know it.
TEST(TableInfoTest, RowsBeginAlikeHoweverTheyAreCut) {
  ASSERT_OK_AND_ASSIGN(const auto tables, ReadTables(ModelOf(kModel)));
  for (uint32_t index = 0; index < tables.size(); ++index) {
    const TableInfo& table = tables[index];
    std::vector<float> whole(table.rows * table.columns);
    InitializeRows(table, index, 7, 0, whole);
    for (uint64_t row = 0; row < table.rows; ++row) {
      std::vector<float> one(table.columns);
      InitializeRows(table, index, 7, row, one);
      EXPECT_EQ(one, std::vector<float>(whole.begin() + row * table.columns,
                                        whole.begin() + (row + 1) * table.columns));
    }
    std::vector<float> other(whole.size());
    InitializeRows(table, index, 8, 0, other);
    EXPECT_NE(whole, other);
  }
  // By the definition: word i of the table's stream.
  std::vector<float> first(200);
  InitializeRows(tables[0], 0, 7, 0, first);
  const PhiloxStream stream(7, StreamKind::kInitializer, 16);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i], static_cast<float>(0.5 * (2.0 * stream.Uniform(i) - 1.0))) << i;
  }
}

}  // namespace
}  // namespace monsoon
