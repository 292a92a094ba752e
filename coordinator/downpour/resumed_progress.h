// ResumedProgress: what a job that goes on from a checkpoint takes over of what was done.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"

namespace monsoon {

struct ResumedProgress {
  DownpourProgress progress;
  // What is done once more, and why; "": nothing.
  std::string note;
};

// For a job with `examples` samples in blocks of `block_examples`. Blocks count where the
// data is cut as it was in the checkpoint's job; else whole epochs alone do.
// INVALID_ARGUMENT for what no job can have come to: it is read from files.
absl::StatusOr<ResumedProgress> ResumeProgress(const CheckpointContext& context, uint64_t examples,
                                               uint64_t block_examples);

}  // namespace monsoon
