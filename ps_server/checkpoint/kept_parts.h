// KeptParts: which parts of one job this shard has on the disk, and which of them may
// go. Two generations are kept, and two that the coordinator has ordered, so that a set
// that is whole on all shards is always there: it orders none before the last one is held
// by all. Of one that a shard has given itself when it stopped no other may have a part.
// Beside them the one is kept that is the job's best.
//
// A pure state machine, beside RemoveOldJobs. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/storage/storage.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

// A part's two files.
struct PartFiles {
  std::string manifest;
  std::string file;
};
PartFiles FilesOf(const std::string& folder, const CheckpointManifest& manifest);
// The reason of a generation that a shard has given itself (CheckpointContext).
inline constexpr char kServerStops[] = "the server stops";

// What lies in a job's folder of one shard's parts.
struct OwnPart {
  PartName name;
  PartFiles files;
  bool whole = false;        // else what a life left that died while it wrote, or
  bool passed_over = false;  // what was whole once (SetPartAside)
};
// The newest generation first, and of one generation the newest epoch. Not opened. Empty
// without the folder.
absl::StatusOr<std::vector<OwnPart>> ListOwnParts(const Storage& storage, const std::string& folder,
                                                  uint32_t shard);

// The manifest first: without it the rest is no part.
absl::Status RemovePart(Storage* storage, const PartFiles& files);

// Gives the manifest another name: the files still tell that their generation was written here, and
// are no part any more. `files` are what they are called then.
absl::Status SetPartAside(Storage* storage, PartFiles* files);

class KeptParts {
 public:
  static constexpr size_t kGenerations = 2;

  // `folder` is the job's.
  explicit KeptParts(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }

  // The newest; 0: none.
  uint64_t generation() const { return parts_.empty() ? 0 : parts_.back().generation; }
  bool Has(uint64_t generation) const;
  uint64_t bytes() const;
  // How much the job had applied when it was cut.
  uint64_t applied() const { return parts_.empty() ? 0 : parts_.back().applied; }

  // A newer one is on the disk; `ordered`: by the coordinator. `best` is the best generation
  // so far, 0: none is kept for that. What is to be removed now.
  std::vector<PartFiles> Add(const CheckpointManifest& manifest, uint64_t applied, bool ordered,
                             uint64_t best);
  // It is there, and not one of those: the next Add says it again.
  void NotRemoved(PartFiles files) { leftover_.push_back(std::move(files)); }

  // It is damaged, and the slice has gone on from an older part. Such are set aside before the
  // next part is on the disk: they must not count as damaged beside that one, should it be damaged
  // too.
  void PassOver(PartFiles files) { passed_over_.push_back(std::move(files)); }
  std::vector<PartFiles> TakePassedOver() { return std::exchange(passed_over_, {}); }

 private:
  struct Part {
    uint64_t generation = 0;
    uint64_t bytes = 0;
    uint64_t applied = 0;
    bool ordered = false;
    PartFiles files;
  };

  std::string folder_;
  std::deque<Part> parts_;  // rising
  std::vector<PartFiles> leftover_;
  std::vector<PartFiles> passed_over_;
};

// Removes this task's parts of all but the newest `keep` jobs in `state_dir` that are
// not in `present`, the folders of those that stay and do not count. What cannot be read or
// removed is passed over, with a line in *log.
void RemoveOldJobs(Storage* storage, const std::string& state_dir, uint32_t task, size_t keep,
                   const std::vector<std::string>& present, std::vector<std::string>* log);

}  // namespace monsoon
