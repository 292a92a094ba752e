// The job that a checkpoint was made of, as if its file were there: to evaluate it, and
// to go on with it.
//
// Thread safety: pure functions. They block on the disk as LoadJob does.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job.h"
#include "proto/job.pb.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

// LoadJob on the job in `content`'s context, with options.overrides and checks; its
// `contents` must be null. The paths of data are absolute in it: the data must be where
// they were, or be named anew by an override (relative to the working folder). Errors
// name the job and the generation in place of a file. FailedPrecondition where the
// checkpoint does not say what its job was.
absl::StatusOr<Job> LoadStoredJob(const ShardCheckpoint& content, LoadOptions options,
                                  std::vector<Diagnostic>* warnings = nullptr);

// Numbers the classes of `job`, which goes on with the model of `content`, as the job in its
// context has numbered them: by its class_name where `job` lists none, and in an order that nobody
// knows where it does not say one either (Dataset.UNTOLD: whoever reads the data refuses it where
// that matters). InvalidArgument where `job` lists the same classes in another order.
absl::Status KeepClassOrder(const ShardCheckpoint& content, Job* job);

}  // namespace monsoon
