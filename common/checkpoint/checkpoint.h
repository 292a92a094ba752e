// A checkpoint on the disk (docs/checkpoint_format.md): of one job, in one folder, the
// parts of its generations; a part is what one shard holds, as a safetensors file of
// pieces of tensors, with a manifest beside it that was written last.
//
//   STATE_DIR/jobs/JOB@TERM/ps-I-of-S.gG.eE.safetensors
//   STATE_DIR/jobs/JOB@TERM/ps-I-of-S.gG.eE.manifest
//
// Parts of all shards may lie in one folder (one host, or copied together).
// Nothing here changes a good part. Errors name the file.
//
// Thread safety: functions and const members may run at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/storage/storage.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

// STATE_DIR/jobs, and a job's folder in it.
std::string JobsFolder(const std::string& state_dir);
std::string JobFolder(const std::string& state_dir, const std::string& job, uint64_t job_term);

// STATE_DIR/ps-I/written: the epoch of the shard's newest life that has written a part, as
// decimal digits. It outlives the part, whose job may be deleted.
std::string LastWriterPath(const std::string& state_dir, uint32_t shard);

// Writes one part. Stripes are added in order; then Finish.
class PartWriter {
 public:
  // `content` has everything but stripes; `layout` is that of content.create.model.
  // Makes the folder. AlreadyExists where a good part has the name that this would get.
  static absl::StatusOr<std::unique_ptr<PartWriter>> Create(Storage* storage,
                                                            const std::string& folder,
                                                            const ParameterLayout& layout,
                                                            ShardCheckpoint content);
  virtual ~PartWriter() = default;
  // The next stripe: its floats and optimizer state (state_slots times as many; state
  // of slot 0 first), its part of each vector that the content's context names, in that
  // order, and what else it holds. After an error the part cannot be finished.
  virtual absl::Status AddStripe(std::span<const float> parameters, std::span<const float> state,
                                 std::span<const std::span<const float>> vectors,
                                 StripeRecord record) = 0;
  // Of a part without vectors.
  absl::Status AddStripe(std::span<const float> parameters, std::span<const float> state,
                         StripeRecord record) {
    return AddStripe(parameters, state, {}, std::move(record));
  }
  // After all stripes, of a job with tables: the next stripe of rows, in the order of
  // SetTableFloats, its values and then its sums.
  virtual absl::Status AddRowStripe(std::span<const float> floats, RowStripeRecord record) = 0;
  // Before those: of each table how many floats they have in all.
  virtual void SetTableFloats(std::vector<uint64_t> floats) = 0;
  // What Finish is to store beside the stripes, if it became known meanwhile.
  virtual ShardCheckpoint* content() = 0;
  // Syncs the file, renames it, reads it back with all checksums, writes the manifest.
  // `still_owner` is asked right before each rename: its error ends it. After an error
  // nothing of the part is left, unless the disk takes no removal either. At most once.
  virtual absl::StatusOr<CheckpointManifest> Finish(
      const std::function<absl::Status()>& still_owner) = 0;
};

// One part that was opened: its manifest, header and record are checked against their
// checksums; floats are checked by Verify, or as ReadAll reads them.
class PartReader {
 public:
  // By the path of its manifest. DataLoss when a checksum or a length does not hold,
  // FailedPrecondition for a newer format, NotFound where the file is missing.
  static absl::StatusOr<std::unique_ptr<PartReader>> Open(const Storage* storage,
                                                          const std::string& manifest_path);
  virtual ~PartReader() = default;
  virtual const CheckpointManifest& manifest() const = 0;
  virtual const ShardCheckpoint& content() const = 0;
  virtual const ParameterLayout& layout() const = 0;
  // The slice of `layout` that it holds.
  virtual Slice slice() const = 0;
  // Reads all tensors against their checksums.
  virtual absl::Status Verify() const = 0;
  // The slice's floats, padding zero, in `parameters` (slice().size()) and, where `state`
  // is not empty, the optimizer's in `state`: of slot 0, then of slot 1, as many of each as
  // parameters. Checked; DataLoss leaves their content undefined.
  virtual absl::Status ReadAll(std::span<float> parameters, std::span<float> state) const = 0;
  // The same to memory that lies in several pieces: asked where the slice's float `at`
  // goes, and as many of those behind it as lie together, one at least. `state` is
  // asked for each slot of the optimizer's state that the job has.
  using Place = absl::FunctionRef<std::span<float>(uint64_t at)>;
  using StatePlace = absl::FunctionRef<std::span<float>(size_t slot, uint64_t at)>;
  virtual absl::Status ReadTo(Place parameters, StatePlace state) const = 0;
  // Of a job with tables the floats of each stripe of content().row_stripe(): asked where they
  // go. Checked in the end; DataLoss leaves their content undefined.
  using RowPlace = absl::FunctionRef<std::span<float>(const RowStripeRecord& stripe)>;
  virtual absl::Status ReadRows(RowPlace rows) const = 0;
  // Of one table the same, in memory for one stripe: `take` gets each stripe before the next is
  // read, and its error ends it. DataLoss in the end means all that was given.
  using TakeRows =
      absl::FunctionRef<absl::Status(const RowStripeRecord& stripe, std::span<const float> floats)>;
  virtual absl::Status ReadTable(uint32_t table, TakeRows take) const = 0;
  // Reads all tables against their checksums.
  virtual absl::Status VerifyTables() const = 0;
  // The same of the slice's part of one vector, content().context().vector(index).
  virtual absl::Status ReadVector(size_t index, Place floats) const = 0;
};

// Of content.state_slots() those of the optimizer, which are the first; the others are of
// rounds. Of a content that was read from a part.
uint32_t OptimizerSlots(const ShardCheckpoint& content);

// What lies in a job's folder.
struct GenerationParts {
  uint64_t generation = 0;
  uint32_t shards = 0;
  // Manifest paths; [shard], "" where the part is missing. Of several epochs' parts
  // the newest.
  std::vector<std::string> manifest;
  bool complete() const;
};
// Newest first. Files that are no parts are passed over. NotFound without the folder.
absl::StatusOr<std::vector<GenerationParts>> ListGenerations(const Storage* storage,
                                                             const std::string& folder);

// One shard's part among them.
struct ShardPart {
  uint64_t generation = 0;
  std::string manifest;
};
// Those of shard `shard`, newest generation first, as ListGenerations finds them.
absl::StatusOr<std::vector<ShardPart>> ListPartsOf(const Storage* storage,
                                                   const std::string& folder, uint32_t shard);

// A whole job from the parts of a generation, without vectors: for export, evaluation
// and resume.
struct LoadedCheckpoint {
  ShardCheckpoint content;  // of shard 0, without stripes
  ParameterLayout layout;
  std::vector<float> parameters;  // layout.size()
  // Of each slot of the state the same, one after the other: the optimizer's, then with
  // rounds the two of their sum, 32 bits each that are no floats.
  std::vector<float> state;
  // [shard][stripe] of the map that it was written with.
  ShardMap map;
  std::vector<std::vector<uint64_t>> versions;
  // Differences in rounds that were open: of each session as many as the stripe with most.
  uint64_t in_rounds = 0;
  uint64_t bytes = 0;  // of the parts' files
  // [shard], of a model with tables: their rows were checked and are read when they are needed
  // (stored_rows.h), also if the files are removed meanwhile.
  std::vector<std::shared_ptr<const PartReader>> parts;
};
// DataLoss names the part that is damaged, or of which job, description or progress
// are not those of the others; NotFound the parts that are missing.
absl::StatusOr<LoadedCheckpoint> LoadGeneration(const Storage* storage,
                                                const GenerationParts& parts);
// The newest complete one of the folder whose parts are all good; `skipped`, if not
// null, gets a line for each newer one that is not. NotFound where none is complete,
// DataLoss where none of those is good.
absl::StatusOr<LoadedCheckpoint> LoadNewest(const Storage* storage, const std::string& folder,
                                            std::vector<std::string>* skipped);

}  // namespace monsoon
