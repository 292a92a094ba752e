// What a part is made of: everything that follows from the job's description, so that
// a writer and a reader derive the same.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/model/table_map.h"
#include "common/safetensors/safetensors_file.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

inline constexpr char kShardTensor[] = "monsoon/shard";
inline constexpr char kChecksumTensor[] = "monsoon/checksums";

// Of state, behind the optimizer's, the names of what a job's shards keep beside it: where
// differences are averaged in rounds (downpour.proto) the sum of the round that is open, an int64
// of each parameter as its low and high 32 bits; and where replicas get changes (fetch_changes)
// the public copy.
std::vector<std::string> StateBehindOptimizer(const CreateShardJobRequest& create);

// Far more than a minimiser keeps: a record must not cost memory for nothing.
inline constexpr int kMaxPartVectors = 4096;

// The part of one tensor that lies in the slice.
struct PartPiece {
  std::string name;  // "conv1/weight[100:250)"
  Slice range;       // in the flat vector
};

struct PartPlan {
  ParameterLayout layout;
  ShardMap map;
  uint32_t shard = 0;
  uint32_t state_slots = 0;          // the optimizer's, then those behind it
  std::vector<std::string> behind;   // names of those
  std::vector<std::string> vectors;  // names
  Slice slice;
  std::vector<PartPiece> pieces;  // in the order of the layout
  std::vector<TableMap> tables;   // of the layout's

  // Of `content` counts what it says of the job, of optimizer state and of vectors.
  // InvalidArgument says what is wrong with that. It may come from anybody.
  static absl::StatusOr<PartPlan> Create(const ShardCheckpoint& content);

  // Copies of the pieces, one after the other: the parameters, each slot of the
  // state, then each vector. The first tensor of such a copy:
  size_t StateTensor(size_t slot) const { return pieces.size() * (1 + slot); }
  size_t VectorTensor(size_t vector) const {
    return pieces.size() * (1 + size_t{state_slots} + vector);
  }
  // After all pieces one for each table: of its stripes that were touched, one after the other,
  // the values and sums.
  size_t TableTensor(size_t table) const { return VectorTensor(vectors.size()) + table; }
  // Floats of each of these, as the content's row stripes say. InvalidArgument where those are
  // not rising stripes of this slice.
  absl::StatusOr<std::vector<uint64_t>> TableFloats(const ShardCheckpoint& content) const;
  uint64_t RowStripeFloats(const RowStripeRecord& stripe) const;
  // Then kShardTensor; kChecksumTensor is the last.
  size_t RecordTensor() const { return TableTensor(tables.size()); }
  // Of which the sizes are known late.
  size_t LateTensors() const { return tables.size() + 2; }
  // All tensors in the order of the file; of the late ones the sizes are 0.
  std::vector<TensorSpec> Tensors() const;
};

// What the header of a part says beside its tensors.
std::map<std::string, std::string> PartMetadata(const CheckpointManifest& manifest);

// What `content` says of its part: all of the manifest but format_version, written_ms
// and what is known of the file.
CheckpointManifest ManifestOf(const ShardCheckpoint& content);

}  // namespace monsoon
