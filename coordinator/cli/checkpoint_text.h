// What people read of a checkpoint, in a few words.
//
// Thread safety: pure functions.
#pragma once

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
// "12 s", "3.5 min", "2.0 h", "9.1 days".
std::string AgeText(absl::Duration age);
// "512 bytes", "1.7 MiB".
std::string SizeText(uint64_t bytes);

}  // namespace monsoon
