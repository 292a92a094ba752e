// Frames of rows for a TableSlice, an oracle that applies them one row after the other, and a
// checkpoint of the slice in memory. For tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/memory/aligned_floats.h"
#include "common/model/shard_map.h"
#include "common/model/table_info.h"
#include "common/model/table_map.h"
#include "common/optimizer/row_adagrad.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "gtest/gtest.h"
#include "ps_server/shard/table_slice.h"

namespace monsoon {

inline constexpr uint64_t kRowSeed = 5;
inline constexpr uint64_t kRowEpoch = 77;
inline constexpr uint64_t kRowLayout = 0x123;

inline TableInfo MakeTable(const std::string& name, uint64_t rows, uint32_t columns) {
  TableInfo table{name, rows, columns, {}, {}};
  table.initializer.set_uniform(0.5);
  table.optimizer.set_learning_rate(0.5);
  table.optimizer.set_epsilon(0.25);
  table.optimizer.set_initial_sum(2);
  return table;
}

// Rows of one table; value j of row r has the gradient `scale` (1 + r % 5 + j % 3).
struct RowPart {
  uint32_t table = 0;
  std::vector<uint32_t> rows;
  float scale = 1;

  float At(uint32_t row, uint32_t column) const {
    return scale * static_cast<float>(1 + row % 5 + column % 3);
  }
};

struct RowFrame {
  uint64_t push = 0;
  uint32_t frame = 0;
  bool last = true;
  std::vector<RowPart> parts;
  uint32_t worker = 1;
};

// A frame as it comes, which a test may spoil.
struct SentRows {
  RowPushRequest request;
  std::string payload;
};

inline SentRows Encode(const RowFrame& frame, const std::vector<TableInfo>& tables) {
  SentRows sent;
  sent.request.mutable_session()->set_worker(frame.worker);
  sent.request.mutable_session()->set_incarnation(1);
  sent.request.set_layout_hash(kRowLayout);
  sent.request.set_shard_epoch(kRowEpoch);
  sent.request.set_push(frame.push);
  sent.request.set_frame(frame.frame);
  sent.request.set_last(frame.last);
  const auto append = [&](auto value) {
    sent.payload.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const RowPart& part : frame.parts) {
    TableRows* const listed = sent.request.add_table();
    listed->set_table(part.table);
    listed->set_rows(static_cast<uint32_t>(part.rows.size()));
    for (const uint32_t row : part.rows) append(row);
    for (const uint32_t row : part.rows) {
      for (uint32_t j = 0; j < tables[part.table].columns; ++j) append(part.At(row, j));
    }
  }
  return sent;
}

// The rows of one shard's runs, each by itself.
class RowOracle {
 public:
  RowOracle(std::vector<TableInfo> tables, uint32_t shard, uint32_t shards)
      : tables_(std::move(tables)), shard_(shard), maps_(TableMaps(tables_, shards).value()) {}

  void Apply(const RowFrame& frame) {
    for (const RowPart& part : frame.parts) {
      const auto constants = RowAdagradConstants::Of(tables_[part.table].optimizer);
      std::vector<float> gradient(tables_[part.table].columns);
      for (const uint32_t row : part.rows) {
        for (uint32_t j = 0; j < gradient.size(); ++j) gradient[j] = part.At(row, j);
        Row& state = RowOf(part.table, row);
        StepRow(constants, gradient.data(), gradient.size(), state.values.data(), &state.sum);
      }
    }
  }
  const std::vector<float>& Values(uint32_t table, uint32_t row) {
    return RowOf(table, row).values;
  }
  float Sum(uint32_t table, uint32_t row) { return RowOf(table, row).sum; }
  uint32_t rows(uint32_t table) const { return maps_[table].rows_of(shard_); }

 private:
  struct Row {
    std::vector<float> values;
    float sum = 0;
  };
  Row& RowOf(uint32_t table, uint32_t row) {
    auto [found, is_new] = rows_.try_emplace({table, row});
    if (is_new) {
      found->second.values.resize(tables_[table].columns);
      InitializeRows(tables_[table], table, kRowSeed, maps_[table].first_row(shard_) + row,
                     found->second.values);
      found->second.sum = static_cast<float>(tables_[table].optimizer.initial_sum());
    }
    return found->second;
  }

  std::vector<TableInfo> tables_;
  uint32_t shard_;
  std::vector<TableMap> maps_;
  std::map<std::pair<uint32_t, uint32_t>, Row> rows_;
};

// What a part holds of a slice.
struct RowCut {
  ShardCheckpoint content;
  std::vector<std::vector<float>> floats;  // of each row_stripe
};

// A slice of one shard, whose sessions are of workers 1, 2, ... with incarnation 1.
class RowSlice {
 public:
  RowSlice(const std::vector<TableInfo>& tables, uint32_t shard, uint32_t shards)
      : facts_{"job-1", kRowLayout, ShardMap::Create(16 * shards, shards, 64).value(), shard,
               kRowEpoch},
        slice_(&facts_, kRowSeed, tables) {}

  TableSlice* operator->() { return &slice_; }

  absl::StatusOr<RowPushReply> Push(const SentRows& sent, bool draining = false,
                                    size_t chunk_bytes = SIZE_MAX) {
    const auto bytes = std::as_bytes(std::span(sent.payload));
    std::vector<ByteChunk> chunks;
    for (size_t begin = 0; begin < bytes.size(); begin += chunk_bytes) {
      chunks.push_back(bytes.subspan(begin, std::min(chunk_bytes, bytes.size() - begin)));
    }
    ChunkCursor cursor(chunks);
    return slice_.Push(sent.request, &cursor, &scratch_, draining);
  }
  // An error is VERDICT_UNSPECIFIED.
  Verdict Push(const RowFrame& frame) {
    const absl::StatusOr<RowPushReply> reply = Push(Encode(frame, slice_.tables()));
    EXPECT_OK(reply);
    return reply.ok() ? reply->verdict() : VERDICT_UNSPECIFIED;
  }

  absl::StatusOr<TableSlice::Rows> Fetch(const std::vector<RowPart>& parts,
                                         std::optional<uint32_t> worker = std::nullopt) {
    RowFetchRequest request;
    request.set_layout_hash(kRowLayout);
    request.set_read_only(!worker.has_value());
    request.mutable_session()->set_worker(worker.value_or(0));
    request.mutable_session()->set_incarnation(1);
    std::vector<uint32_t> numbers;
    for (const RowPart& part : parts) {
      TableRows* const listed = request.add_table();
      listed->set_table(part.table);
      listed->set_rows(static_cast<uint32_t>(part.rows.size()));
      numbers.insert(numbers.end(), part.rows.begin(), part.rows.end());
    }
    return FetchNumbers(request, numbers);
  }
  absl::StatusOr<TableSlice::Rows> FetchNumbers(const RowFetchRequest& request,
                                                const std::vector<uint32_t>& numbers) {
    const std::vector<ByteChunk> chunks = {std::as_bytes(std::span(numbers))};
    ChunkCursor cursor(chunks);
    return slice_.Fetch(request, &cursor);
  }
  std::vector<float> Row(uint32_t table, uint32_t row) {
    const absl::StatusOr<TableSlice::Rows> rows = Fetch({{table, {row}}});
    EXPECT_OK(rows);
    return rows.ok() ? std::vector<float>(rows->values->span().begin(), rows->values->span().end())
                     : std::vector<float>();
  }

  // `between` is called before the stripes are found, and after each that was cut.
  RowCut Cut(const std::function<void()>& between = [] {}) {
    RowCut cut;
    slice_.CutSessions(&cut.content);
    between();
    const TableSlice::Touched touched = slice_.FindTouched();
    EXPECT_OK(slice_.CutStripes(
        touched, [&](RowStripeRecord record, std::span<const float> floats) -> absl::Status {
          *cut.content.add_row_stripe() = std::move(record);
          cut.floats.emplace_back(floats.begin(), floats.end());
          between();
          return absl::OkStatus();
        }));
    return cut;
  }
  // Everything there is of it but what was fetched.
  std::string Snapshot() {
    const RowCut cut = Cut();
    std::string all = cut.content.SerializeAsString();
    for (const std::vector<float>& floats : cut.floats) {
      all.append(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
    }
    for (const SessionWindowRecord& session : cut.content.row_session()) {
      all += slice_.Marks({session.worker(), session.incarnation()}).SerializeAsString();
    }
    return all;
  }
  // A new slice becomes what was cut, with sessions of these workers.
  void Restore(const RowCut& cut, const std::vector<uint32_t>& workers,
               const ShardCheckpoint* older = nullptr) {
    std::vector<SessionId> open;
    for (const uint32_t worker : workers) {
      open.push_back({worker, 1});
      slice_.Open(open.back(), nullptr);
    }
    for (int i = 0; i < cut.content.row_stripe_size(); ++i) {
      std::ranges::copy(cut.floats[static_cast<size_t>(i)],
                        slice_.RestoredFloats(cut.content.row_stripe(i)).begin());
    }
    slice_.Restore(cut.content, older, open);
  }

  // All rows and sums, to the bit.
  void ExpectEquals(RowOracle* oracle) {
    for (uint32_t table = 0; table < slice_.tables().size(); ++table) {
      for (uint32_t row = 0; row < oracle->rows(table); ++row) {
        ASSERT_EQ(Row(table, row), oracle->Values(table, row))
            << "table " << table << ", row " << row;
      }
    }
    const std::vector<TableMap> maps = TableMaps(slice_.tables(), facts_.map.shards()).value();
    const RowCut cut = Cut();
    for (int i = 0; i < cut.content.row_stripe_size(); ++i) {
      const uint32_t table = cut.content.row_stripe(i).table();
      const TableMap& map = maps[table];
      const uint32_t first = cut.content.row_stripe(i).stripe() * map.stripe_rows();
      const std::vector<float>& floats = cut.floats[static_cast<size_t>(i)];
      const size_t rows = floats.size() / (map.columns() + 1);
      for (uint32_t row = 0; row < rows; ++row) {
        ASSERT_EQ(floats[rows * map.columns() + row], oracle->Sum(table, first + row))
            << "table " << table << ", the sum of row " << first + row;
      }
    }
  }

  AlignedFloats* scratch() { return &scratch_; }

 private:
  const JobFacts facts_;
  TableSlice slice_;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

}  // namespace monsoon
