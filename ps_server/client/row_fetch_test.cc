#include "ps_server/client/row_fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/model/table_map.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/exchange.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/row_gradient.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<uint64_t>;
using Floats = std::vector<float>;

constexpr uint32_t kShards = 3;

std::vector<TableMap> Maps() {
  return {TableMap::Create(100000, 16, kShards).value(),
          TableMap::Create(30, 60000, kShards).value(),
          TableMap::Create(2, 1, kShards).value()};  // the last shard has none of the last
}

// Of row r of table t the value j.
float ValueOf(uint32_t table, uint64_t row, uint32_t column) {
  return static_cast<float>(table * 1000000 + row * 8 + column % 8);
}

// What the shard answers, as bytes.
std::string AnswerTo(const RowFetch::Request& request, const std::vector<TableMap>& maps,
                     uint32_t shard) {
  std::string bytes;
  size_t at = 0;
  for (const TableRows& listed : request.tables) {
    const TableMap& map = maps[listed.table()];
    for (uint32_t i = 0; i < listed.rows(); ++i) {
      const uint32_t number = request.numbers[at++];
      EXPECT_LT(number, map.rows_of(shard));
      for (uint32_t j = 0; j < map.columns(); ++j) {
        const float value = ValueOf(listed.table(), map.first_row(shard) + number, j);
        bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
  }
  EXPECT_EQ(at, request.numbers.size());
  return bytes;
}

absl::StatusOr<Answer> Take(RowFetch* fetch, uint32_t shard, size_t i, const std::string& bytes,
                            uint64_t epoch) {
  DataHeader header;
  header.mutable_row_fetch_reply()->set_shard_epoch(epoch);
  const ByteChunk chunk = std::as_bytes(std::span(bytes));
  ChunkCursor cursor({&chunk, 1});
  return fetch->Take(shard, i, header, &cursor);
}

TEST(RowFetchTest, EachRowComesToItsPlace) {
  const std::vector<TableMap> maps = Maps();
  std::vector<Rows> rows(3);
  for (uint64_t row = 99999; row >= 3; row -= 3) rows[0].push_back(row);  // 2.1 MB of values
  rows[0].push_back(99999);                                               // once more
  rows[1] = {29, 0, 14, 15, 1, 28, 13, 2, 3, 12, 11, 10, 9, 4};
  rows[2] = {1, 0};
  std::vector<Floats> values;
  for (uint32_t table = 0; table < 3; ++table) {
    values.emplace_back(rows[table].size() * maps[table].columns(), -1.0f);
  }
  const std::vector<RowRequest> wanted{
      {1, rows[1], values[1]}, {2, rows[2], values[2]}, {0, rows[0], values[0]}};
  ASSERT_OK_AND_ASSIGN(RowFetch fetch, RowFetch::Create(maps, wanted, kShards));
  ASSERT_EQ(fetch.requests().size(), kShards);
  uint64_t bytes = 0;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    EXPECT_GT(fetch.requests()[shard].size(), 1u);
    for (size_t i = 0; i < fetch.requests()[shard].size(); ++i) {
      const std::string answer = AnswerTo(fetch.requests()[shard][i], maps, shard);
      EXPECT_LE(answer.size(), kMaxFramePayloadBytes);
      ASSERT_OK_AND_ASSIGN(const Answer taken, Take(&fetch, shard, i, answer, 5));
      EXPECT_EQ(taken, Answer::kDone);
      bytes += answer.size();
    }
  }
  EXPECT_EQ(fetch.bytes(), bytes);
  EXPECT_EQ(bytes, 4 * (rows[0].size() * 16 + rows[1].size() * 60000 + 2));
  for (uint32_t table = 0; table < 3; ++table) {
    const uint32_t columns = maps[table].columns();
    for (size_t i = 0; i < rows[table].size(); ++i) {
      for (uint32_t j = 0; j < columns; ++j) {
        ASSERT_EQ(values[table][i * columns + j], ValueOf(table, rows[table][i], j))
            << "table " << table << ", row " << rows[table][i];
      }
    }
  }
}

// A header has room for some thousand runs.
TEST(RowFetchTest, ATableMayBeAskedForManyTimes) {
  const std::vector<TableMap> maps = Maps();
  constexpr size_t kTimes = 20000;
  Rows rows(kTimes);
  Floats values(kTimes * 16);
  std::vector<RowRequest> wanted;
  for (size_t i = 0; i < kTimes; ++i) {
    rows[i] = 7 * i % 30000;
    wanted.push_back({0, std::span(rows).subspan(i, 1), std::span(values).subspan(16 * i, 16)});
  }
  ASSERT_OK_AND_ASSIGN(RowFetch fetch, RowFetch::Create(maps, wanted, kShards));
  for (size_t i = 0; i < fetch.requests()[0].size(); ++i) {
    const RowFetch::Request& request = fetch.requests()[0][i];
    DataHeader header;
    header.mutable_row_fetch()->mutable_table()->Assign(request.tables.begin(),
                                                        request.tables.end());
    EXPECT_LT(header.ByteSizeLong(), kMaxFrameHeaderBytes / 2);
    ASSERT_OK(Take(&fetch, 0, i, AnswerTo(request, maps, 0), 5));
  }
  for (size_t i = 0; i < kTimes; ++i) {
    ASSERT_EQ(values[16 * i + 3], ValueOf(0, rows[i], 3));
  }
}

TEST(RowFetchTest, TellsOfWhichLifeItIs) {
  const std::vector<TableMap> maps = Maps();
  Rows rows;
  for (uint64_t row = 0; row < 30000; ++row) rows.push_back(row);  // of shard 0, in two frames
  Floats values(rows.size() * 16);
  const std::vector<RowRequest> wanted{{0, rows, values}};
  for (const uint64_t last : {5u, 6u}) {
    ASSERT_OK_AND_ASSIGN(RowFetch fetch, RowFetch::Create(maps, wanted, kShards));
    ASSERT_EQ(fetch.requests()[0].size(), 2u);
    EXPECT_THAT(fetch.epochs(), ElementsAre(0, 0, 0));
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_OK(Take(&fetch, 0, i, AnswerTo(fetch.requests()[0][i], maps, 0), i == 1 ? last : 5));
    }
    EXPECT_THAT(fetch.epochs(), ElementsAre(last == 5 ? 5 : UINT64_MAX, 0, 0));
  }
}

TEST(RowFetchTest, RefusesOtherAnswers) {
  const std::vector<TableMap> maps = Maps();
  const Rows rows{0, 1};
  Floats values(32);
  const std::vector<RowRequest> wanted{{0, rows, values}};
  ASSERT_OK_AND_ASSIGN(RowFetch fetch, RowFetch::Create(maps, wanted, kShards));
  const std::string good = AnswerTo(fetch.requests()[0][0], maps, 0);
  EXPECT_THAT(Take(&fetch, 0, 0, good.substr(4), 5).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("124 bytes, expected 128")));
  EXPECT_THAT(Take(&fetch, 0, 0, good + "abcd", 5).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("132 bytes, expected 128")));
  EXPECT_THAT(Take(&fetch, 0, 1, good, 5).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("another kind")));
  EXPECT_THAT(Take(&fetch, 1, 0, good, 5).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("another kind")));
  DataHeader other;
  other.mutable_marks_reply();
  ChunkCursor none({});
  EXPECT_THAT(fetch.Take(0, 0, other, &none).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("another kind")));
  EXPECT_EQ(values, Floats(32));
  EXPECT_EQ(fetch.bytes(), 0u);
}

TEST(RowFetchTest, SaysWhatIsWrong) {
  const std::vector<TableMap> maps = Maps();
  Floats values(16);
  const auto error = [&](uint32_t table, const Rows& rows, std::span<float> room) {
    const std::vector<RowRequest> wanted{{table, rows, room}};
    return RowFetch::Create(maps, wanted, kShards).status();
  };
  EXPECT_OK(error(0, {99999}, values));
  EXPECT_THAT(error(0, {100000}, values),
              StatusIs(absl::StatusCode::kInvalidArgument, "table 0: row 100000 of 100000"));
  EXPECT_THAT(error(3, {0}, values),
              StatusIs(absl::StatusCode::kInvalidArgument, "table 3: the model has 3"));
  EXPECT_THAT(error(0, {0, 1}, values),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("room for 16 values")));
}

}  // namespace
}  // namespace monsoon
