// All that lies in a checkpoint's folder, read to the last byte, for `inspect`.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_place.h"
#include "common/model/parameter_layout.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

// What a part holds of one table: stripes of rows that were touched, of those of its shard.
struct TableReport {
  uint64_t touched = 0;
  uint64_t stripes = 0;
};

// One shard's part.
struct PartReport {
  uint32_t shard = 0;
  std::string path;     // of the manifest
  absl::Status status;  // OK: it could be opened, and all checksums hold
  // Where it could be opened:
  std::optional<CheckpointManifest> manifest;
  uint64_t version_min = 0;  // over its stripes
  uint64_t version_max = 0;
  std::vector<TableReport> tables;  // of the layout's
  uint64_t rows_applied = 0;
};

struct GenerationReport {
  uint64_t generation = 0;
  uint32_t shards = 0;
  std::vector<PartReport> parts;  // those that are there
  std::vector<uint32_t> missing;  // shards; those of `gone` too
  // Of these shards a manifest is left alone, beside good newer parts: they were deleted,
  // and a power cut has brought the manifest back, which is removed first.
  std::vector<uint32_t> gone;
  std::optional<ShardCheckpoint>
      content;  // of the first part that could be opened, without stripes

  bool complete() const { return missing.empty(); }
  bool good() const;       // of the parts that are there
  uint64_t bytes() const;  // of the parts that could be opened
  // Of the same all together.
  TableReport table(size_t index) const;
  uint64_t rows_applied() const;
};

struct CheckpointReport {
  std::string folder;
  std::vector<GenerationReport> generations;  // newest first
  // Of the newest part that could be opened.
  std::optional<ShardCheckpoint> content;
  std::optional<CheckpointManifest> manifest;
  std::optional<ParameterLayout> layout;

  // The first part that is there and not good, or OK: of a newer format
  // FailedPrecondition, else DataLoss.
  absl::Status status() const;
};

// Reads everything at `place`: of a part that was named, that part alone. Parts that
// are deleted meanwhile are left out. NotFound: no part is there any more.
absl::StatusOr<CheckpointReport> ReadCheckpoint(const Storage* storage,
                                                const CheckpointPlace& place);

// {"schema_version":1,"job":...}; null where nothing could be opened. `now` is the
// calendar's, for ages: those of the order, which a generation holds all before.
std::string CheckpointJson(const CheckpointReport& report, absl::Time now);
std::string CheckpointReportText(const CheckpointReport& report, absl::Time now);

}  // namespace monsoon
