#include "ps_server/client/kept_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "common/model/table_map.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "ps_server/client/row_gradient.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using Rows = std::vector<uint64_t>;
using Floats = std::vector<float>;

TableMap Map(uint64_t rows, uint32_t columns, uint32_t shards) {
  return TableMap::Create(rows, columns, shards).value();
}

// Reads the frames back: (table, row) -> first value. Each stripe in one frame alone.
std::map<std::pair<uint32_t, uint64_t>, float> ReadBack(
    const std::vector<TableMap>& maps, const std::vector<std::shared_ptr<const KeptRows>>& kept) {
  std::map<std::pair<uint32_t, uint64_t>, float> found;
  for (uint32_t shard = 0; shard < kept.size(); ++shard) {
    std::set<std::pair<uint32_t, uint32_t>> earlier;
    size_t end = 0;
    for (const KeptRows::Frame& frame : kept[shard]->frames) {
      EXPECT_EQ(frame.begin, end);
      end = frame.end;
      EXPECT_LE(frame.end - frame.begin, kMaxFramePayloadBytes);
      const std::byte* at = kept[shard]->bytes.data() + frame.begin;
      std::set<std::pair<uint32_t, uint32_t>> stripes;
      for (const TableRows& listed : frame.tables) {
        const TableMap& map = maps[listed.table()];
        std::vector<uint32_t> numbers(listed.rows());
        std::memcpy(numbers.data(), at, numbers.size() * sizeof(uint32_t));
        at += numbers.size() * sizeof(uint32_t);
        for (const uint32_t number : numbers) {
          float first = 0;
          std::memcpy(&first, at, sizeof(first));
          at += map.columns() * sizeof(float);
          EXPECT_LT(number, map.rows_of(shard));
          EXPECT_TRUE(found.emplace(std::pair(listed.table(), map.first_row(shard) + number), first)
                          .second);
          stripes.emplace(listed.table(), number / map.stripe_rows());
        }
      }
      EXPECT_EQ(at, kept[shard]->bytes.data() + frame.end);
      for (const auto& stripe : stripes) {
        EXPECT_TRUE(earlier.insert(stripe).second) << "a stripe in two frames";
      }
    }
    EXPECT_EQ(end, kept[shard]->bytes.size());
  }
  return found;
}

TEST(KeptRowsTest, EachRowGoesToItsShardOnceAndNoStripeIsCut) {
  const std::vector<TableMap> maps{Map(100000, 16, 3), Map(40, 3, 3), Map(5, 60000, 3)};
  std::vector<Rows> rows(3);
  std::vector<Floats> values(3);
  std::vector<RowGradient> gradients;
  for (uint32_t table = 0; table < 3; ++table) {
    for (uint64_t row = table; row < maps[table].rows(); row += table == 0 ? 1 : 2) {
      rows[table].push_back(row);
      values[table].resize(values[table].size() + maps[table].columns(),
                           static_cast<float>(row) + 0.25f);
    }
    gradients.push_back({table, rows[table], values[table]});
  }
  ASSERT_OK(CheckRows(maps, gradients));
  const auto found = ReadBack(maps, EncodeRows(maps, gradients, 3));
  size_t count = 0;
  for (uint32_t table = 0; table < 3; ++table) {
    for (const uint64_t row : rows[table]) {
      const auto at = found.find({table, row});
      ASSERT_NE(at, found.end());
      EXPECT_EQ(at->second, static_cast<float>(row) + 0.25f);
      ++count;
    }
  }
  EXPECT_EQ(found.size(), count);
}

TEST(KeptRowsTest, WithoutRowsThereIsAnEmptyFrame) {
  const std::vector<TableMap> maps{Map(10, 2, 2)};
  for (const auto& kept : EncodeRows(maps, {}, 2)) {
    ASSERT_EQ(kept->frames.size(), 1u);
    EXPECT_TRUE(kept->frames[0].tables.empty());
    EXPECT_EQ(kept->size(), 0u);
  }
}

TEST(KeptRowsTest, SaysWhatIsWrong) {
  const std::vector<TableMap> maps{Map(10, 2, 1)};
  const auto error = [&](const Rows& rows, const Floats& values, uint32_t table = 0) {
    const std::vector<RowGradient> gradients{{table, rows, values}};
    return std::string(CheckRows(maps, gradients).message());
  };
  EXPECT_EQ(error({1, 2}, {1, 2, 3, 4}), "");
  EXPECT_EQ(error({1, 1}, {1, 2, 3, 4}), "table 0: row 1 comes after row 1; rows must rise");
  EXPECT_EQ(error({10}, {1, 2}), "table 0: row 10 of 10");
  EXPECT_EQ(error({1}, {1}), "table 0: 1 values for 1 rows of 2");
  EXPECT_THAT(error({1, 3}, {1, 2, NAN, 4}), HasSubstr("of row 3, column 0, is nan"));
  EXPECT_THAT(error({1}, {1, 2}, 1), HasSubstr("the model has not so many"));
  const Rows one{1};
  const Floats values{1, 2};
  const std::vector<RowGradient> twice{{0, one, values}, {0, one, values}};
  EXPECT_THAT(std::string(CheckRows(maps, twice).message()), HasSubstr("it comes after table 0"));
}

// Rows 5 to 20 of 30, of which the shards have 0 to 11, 12 to 19 and 20 to 29.
TEST(KeptRowsTest, WritesAreCutAtShardsAndFrames) {
  const std::vector<TableMap> maps{Map(3, 1, 3), Map(30, 60000, 3)};
  ASSERT_EQ(maps[1].first_row(1), 8u);
  ASSERT_EQ(maps[1].first_row(2), 20u);
  Floats values(16 * 60000), sums(16);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 60000 + 5);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i + 105);
  const RowWrite write{.table = 1, .first_row = 5, .values = values, .sums = sums};
  ASSERT_OK_AND_ASSIGN(const std::vector<KeptRowWrite> frames, CutRowWrite(maps, write, 3));
  uint64_t next = 5;
  for (const KeptRowWrite& frame : frames) {
    ASSERT_EQ(maps[1].first_row(frame.shard) + frame.first_row, next);
    EXPECT_LE(frame.first_row + frame.rows, maps[1].rows_of(frame.shard));
    ASSERT_EQ(frame.floats.size(), frame.rows * 60001u);
    EXPECT_LE(frame.floats.size() * sizeof(float), kMaxFramePayloadBytes);
    for (uint32_t i = 0; i < frame.rows; ++i, ++next) {
      EXPECT_EQ(frame.floats[i * 60000], static_cast<float>(next));
      EXPECT_EQ(frame.floats[i * 60000 + 59999], static_cast<float>(next));
      EXPECT_EQ(frame.floats[frame.rows * 60000 + i], static_cast<float>(next + 100));
    }
  }
  EXPECT_EQ(next, 21u);
  EXPECT_EQ(frames.front().shard, 0u);
  EXPECT_EQ(frames.back().shard, 2u);
}

TEST(KeptRowsTest, AWriteSaysWhatIsWrong) {
  const std::vector<TableMap> maps{Map(10, 2, 1)};
  const auto error = [&](uint32_t table, uint64_t first, const Floats& values, const Floats& sums) {
    return std::string(
        CutRowWrite(maps, {.table = table, .first_row = first, .values = values, .sums = sums}, 1)
            .status()
            .message());
  };
  EXPECT_EQ(error(0, 9, {1, 2}, {3}), "");
  EXPECT_EQ(error(0, 10, {1, 2}, {3}), "a write of 2 values to 1 rows from row 10 of table 0");
  EXPECT_THAT(error(0, UINT64_MAX, {1, 2}, {3}), HasSubstr("from row 18446744073709551615"));
  EXPECT_THAT(error(0, 9, {1, 2, 3, 4}, {3, 4}), HasSubstr("to 2 rows from row 9"));
  EXPECT_THAT(error(0, 0, {1}, {3}), HasSubstr("a write of 1 values to 1 rows"));
  EXPECT_THAT(error(1, 0, {1, 2}, {3}), HasSubstr("of table 1"));
  EXPECT_THAT(error(0, 0, {1, NAN}, {3}), HasSubstr("not finite"));
  EXPECT_THAT(error(0, 0, {1, 2}, {INFINITY}), HasSubstr("not finite"));
}

}  // namespace
}  // namespace monsoon
