// What people read of a checkpoint, in a few words.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "proto/checkpoint.pb.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

// "lenet-1 generation 7 (epoch 3.2, 1499 steps)".
std::string CheckpointName(const ShardCheckpoint& content);
std::string CheckpointName(const ResumePoint& point);
// "epoch 3.2, 1499 steps", "iteration 12"; both of a chain.
std::string ProgressText(const CheckpointContext& context);
// Epochs trained, parts of them included.
double EpochsOf(const DownpourProgress& progress);
// How long ago the generation was ordered. Nothing where that was by a clock so far ahead of this
// machine's that it tells nothing.
std::optional<absl::Duration> AgeOf(const CheckpointContext& context, absl::Time now);
// "made 12 s ago", "made 3.5 min ago", "made 2.0 h ago", "made 9.1 days ago"; or when, where there
// is no age.
std::string AgeText(const CheckpointContext& context, absl::Time now);
// "512 bytes", "1.7 MiB".
std::string SizeText(uint64_t bytes);

}  // namespace monsoon
