// WritePart: this shard's part of one generation, cut stripe by stripe while the job
// trains on: each stripe is copied under its lock, and written after that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/storage/storage.h"
#include "proto/parameter_server.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "ps_server/shard/shard_job.h"

namespace monsoon {

// Left free on the disk whatever is written.
inline constexpr uint64_t kFreeBytesKept = uint64_t{64} << 20;

// What its file will take, about: floats, optimizer state, so many vectors, and what is
// beside them.
uint64_t PartBytes(const ShardJob& job, int vectors);

struct WrittenPart {
  CheckpointManifest manifest;
  // What it holds of each, beside floats and what sums of gradients need.
  std::vector<StripeRecord> stripes;
  ShardCheckpoint rows;  // what it says of sessions that push rows
};

// Writes it to the job's folder under `state_dir`, with the vectors that the order's
// context names, and then what the job's sums of gradients need: whoever orders that
// lets nobody change either meanwhile. Where the context says that it is to be tested,
// its parameters are the job's vector kTestedVector after that. On the disk and read back when it
// returns OK. ResourceExhausted where there is no room for it, before anything is
// written; Cancelled when `go_on`, asked before each stripe, says false; else what
// Storage or `check_owner` say. FailedPrecondition names a vector that is not there.
// Holds memory for one stripe and its state, and with vectors for a float of each line.
absl::StatusOr<WrittenPart> WritePart(Storage* storage, const std::string& state_dir, ShardJob& job,
                                      const CheckpointRequest& order,
                                      absl::FunctionRef<absl::Status()> check_owner,
                                      absl::FunctionRef<bool()> go_on);

}  // namespace monsoon
