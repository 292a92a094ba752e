// KeptRows: the rows of one push for one shard, as they are sent: payloads of frames, none of
// which has a part of a stripe's rows (proto/tensor.proto, RowPushRequest).
//
// Thread safety: immutable once made.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/table_map.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/row_gradient.h"

namespace monsoon {

struct KeptRows {
  struct Frame {
    std::vector<TableRows> tables;
    size_t begin = 0;  // in bytes
    size_t end = 0;
  };
  std::vector<Frame> frames;  // one at least, which may be empty
  std::vector<std::byte> bytes;

  size_t size() const { return bytes.size(); }
};

// InvalidArgument names the table, and the row that is not there, does not rise, or whose values
// are not finite.
absl::Status CheckRows(std::span<const TableMap> tables, std::span<const RowGradient> gradients);

// [shard]. What CheckRows takes.
std::vector<std::shared_ptr<const KeptRows>> EncodeRows(std::span<const TableMap> tables,
                                                        std::span<const RowGradient> gradients,
                                                        uint32_t shards);

// One frame of rows that are written.
struct KeptRowWrite {
  uint32_t shard = 0;
  uint32_t first_row = 0;  // of the shard's run
  uint32_t rows = 0;
  std::vector<float> floats;  // values, then sums
};
// InvalidArgument for rows that are not there, or values that are not finite.
absl::StatusOr<std::vector<KeptRowWrite>> CutRowWrite(std::span<const TableMap> tables,
                                                      const RowWrite& write, uint32_t shards);

}  // namespace monsoon
