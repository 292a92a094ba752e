#include "ps_server/client/kept_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/finite.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {
namespace {

// Rows [begin, end) of one of the gradients.
struct Run {
  const RowGradient* gradient = nullptr;
  size_t begin = 0;
  size_t end = 0;
};

// The rows of one shard, as runs that each frame has.
std::vector<std::vector<Run>> CutFrames(std::span<const TableMap> tables,
                                        std::span<const RowGradient> gradients, uint32_t shard) {
  std::vector<std::vector<Run>> frames(1);
  size_t bytes = 0;  // of the last of them
  for (const RowGradient& gradient : gradients) {
    const TableMap& map = tables[gradient.table];
    const uint64_t first = map.first_row(shard);
    const auto begin = gradient.rows.begin();
    const auto at = [&](auto from, uint64_t row) {
      return std::lower_bound(from, gradient.rows.end(), row);
    };
    const auto end = at(begin, map.first_row(shard + 1));
    for (auto next = at(begin, first); next != end;) {
      // All of one stripe: shards remember of a stripe the last push alone.
      const uint64_t stripe = (*next - first) / map.stripe_rows();
      const auto stop = std::min(end, at(next, first + (stripe + 1) * map.stripe_rows()));
      const size_t run_bytes = static_cast<size_t>(stop - next) * map.row_bytes();
      if (bytes + run_bytes > kMaxFramePayloadBytes) {
        frames.emplace_back();
        bytes = 0;
      }
      bytes += run_bytes;
      std::vector<Run>& runs = frames.back();
      const auto from = static_cast<size_t>(next - begin), to = static_cast<size_t>(stop - begin);
      if (!runs.empty() && runs.back().gradient == &gradient) {
        runs.back().end = to;
      } else {
        runs.push_back({&gradient, from, to});
      }
      next = stop;
    }
  }
  return frames;
}

KeptRows Encode(std::span<const TableMap> tables, std::span<const RowGradient> gradients,
                uint32_t shard) {
  KeptRows kept;
  for (const std::vector<Run>& runs : CutFrames(tables, gradients, shard)) {
    KeptRows::Frame frame{{}, kept.bytes.size(), 0};
    for (const Run& run : runs) {
      const TableMap& map = tables[run.gradient->table];
      const size_t count = run.end - run.begin;
      TableRows& listed = frame.tables.emplace_back();
      listed.set_table(run.gradient->table);
      listed.set_rows(static_cast<uint32_t>(count));
      size_t at = kept.bytes.size();
      kept.bytes.resize(at + count * map.row_bytes());
      const uint64_t first = map.first_row(shard);
      for (size_t i = run.begin; i < run.end; ++i, at += sizeof(uint32_t)) {
        const auto number = static_cast<uint32_t>(run.gradient->rows[i] - first);
        std::memcpy(&kept.bytes[at], &number, sizeof(number));
      }
      std::memcpy(&kept.bytes[at], run.gradient->values.data() + run.begin * map.columns(),
                  count * map.columns() * sizeof(float));
    }
    frame.end = kept.bytes.size();
    kept.frames.push_back(std::move(frame));
  }
  return kept;
}

}  // namespace

absl::Status CheckRows(std::span<const TableMap> tables, std::span<const RowGradient> gradients) {
  const RowGradient* before = nullptr;
  for (const RowGradient& gradient : gradients) {
    const auto wrong = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("table ", gradient.table, ": ", what...));
    };
    if (gradient.table >= tables.size()) {
      return wrong("the model has not so many");
    }
    if (before != nullptr && before->table >= gradient.table) {
      return wrong("it comes after table ", before->table, "; tables must rise");
    }
    before = &gradient;
    const TableMap& map = tables[gradient.table];
    if (gradient.values.size() != gradient.rows.size() * map.columns()) {
      return wrong(gradient.values.size(), " values for ", gradient.rows.size(), " rows of ",
                   map.columns());
    }
    for (size_t i = 0; i < gradient.rows.size(); ++i) {
      if (gradient.rows[i] >= map.rows()) {
        return wrong("row ", gradient.rows[i], " of ", map.rows());
      }
      if (i > 0 && gradient.rows[i] <= gradient.rows[i - 1]) {
        return wrong("row ", gradient.rows[i], " comes after row ", gradient.rows[i - 1],
                     "; rows must rise");
      }
    }
    if (const std::optional<uint64_t> bad = FirstNonFinite(gradient.values)) {
      return wrong("the gradient of row ", gradient.rows[*bad / map.columns()], ", column ",
                   *bad % map.columns(), ", is ", gradient.values[*bad]);
    }
  }
  return absl::OkStatus();
}

std::vector<std::shared_ptr<const KeptRows>> EncodeRows(std::span<const TableMap> tables,
                                                        std::span<const RowGradient> gradients,
                                                        uint32_t shards) {
  std::vector<std::shared_ptr<const KeptRows>> rows;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    rows.push_back(std::make_shared<const KeptRows>(Encode(tables, gradients, shard)));
  }
  return rows;
}

absl::StatusOr<std::vector<KeptRowWrite>> CutRowWrite(std::span<const TableMap> tables,
                                                      const RowWrite& write, uint32_t shards) {
  const uint64_t rows = write.sums.size();
  if (write.table >= tables.size() || rows > tables[write.table].rows() ||
      write.first_row > tables[write.table].rows() - rows ||
      write.values.size() != rows * tables[write.table].columns()) {
    return absl::InvalidArgumentError(absl::StrCat("a write of ", write.values.size(),
                                                   " values to ", rows, " rows from row ",
                                                   write.first_row, " of table ", write.table));
  }
  if (FirstNonFinite(write.values).has_value() || FirstNonFinite(write.sums).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a write to rows of table ", write.table, " with values that are not finite"));
  }
  const TableMap& map = tables[write.table];
  const size_t most = kMaxFramePayloadBytes / (sizeof(float) * (map.columns() + size_t{1}));
  std::vector<KeptRowWrite> frames;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    const uint64_t first = map.first_row(shard);
    const uint64_t end = std::min(map.first_row(shard + 1), write.first_row + rows);
    for (uint64_t row = std::max(first, write.first_row); row < end;) {
      const uint64_t count = std::min<uint64_t>(end - row, most);
      const size_t at = row - write.first_row;
      const auto values = write.values.subspan(at * map.columns(), count * map.columns());
      const auto sums = write.sums.subspan(at, count);
      KeptRowWrite& frame = frames.emplace_back();
      frame.shard = shard;
      frame.first_row = static_cast<uint32_t>(row - first);
      frame.rows = static_cast<uint32_t>(count);
      frame.floats.assign(values.begin(), values.end());
      frame.floats.insert(frame.floats.end(), sums.begin(), sums.end());
      row += count;
    }
  }
  return frames;
}

}  // namespace monsoon
