// RestoreNewestPart: makes a job's slice what the newest good part of it on the disk
// holds, or that of one generation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/storage/storage.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/checkpoint/kept_parts.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {

struct RestoredPart {
  // Of the part; 0: there is none, and the slice has its initial parameters.
  uint64_t generation = 0;
  uint64_t shard_epoch = 0;  // the life that wrote it
  uint64_t applied = 0;
  CheckpointContext context;
  std::vector<LostPushes> lost;      // of sessions that are not open any more
  std::vector<std::string> skipped;  // a line for each newer part that was read and is damaged
  // All that is on the disk: of good parts those that are kept, the others to be removed
  // with the next one.
  KeptParts parts;
};

// `job` is new, of empty stripes, and nobody else has it; its floats are read straight to
// where they belong. `folder` is its folder, `open` as in SliceCheckpoint::Restore. A part is
// good that holds against all its checksums and is of the request's job; the one before
// it, whose floats are not read, tells what is durable. NotFound where none is good,
// naming those that are not, unless the request lets the slice begin anew. Where it names
// a generation only that one's part counts; newer ones are to be removed with the next
// part, but those of this life, whose names the next parts may get, right away.
// Unavailable where the disk does not let a part be read that would count, or the folder be
// listed, naming file and reason: to be asked again, since the part may be good.
// ResourceExhausted without room for what it holds. Cancelled once `go_on` says false.
// `job` is of no use after an error.
absl::StatusOr<RestoredPart> RestoreNewestPart(Storage* storage, const std::string& folder,
                                               const RestoreShardJobRequest& request,
                                               std::span<const SessionId> open,
                                               absl::FunctionRef<bool()> go_on, ShardJob* job);

}  // namespace monsoon
