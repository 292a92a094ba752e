#include "coordinator/sandblaster/vector_shards.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/thread.h"

namespace monsoon {
namespace {

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

absl::StatusOr<std::vector<VectorReply>> VectorShards::Run(VectorRequest request) {
  request.set_job(options_.job);
  request.set_job_term(options_.job_term);
  request.set_term(options_.term);
  request.set_attempt(options_.attempt);
  for (VectorRequest& first : *request.mutable_before()) {
    first.set_op_id(++op_id_);
  }
  request.set_op_id(++op_id_);
  ++rounds_;
  std::vector<absl::StatusOr<VectorReply>> replies(size(), absl::UnknownError("not asked"));
  // An operation on a shard passes over its whole slice, which dwarfs a thread.
  std::vector<Thread> others;
  others.reserve(size() - 1);
  for (size_t shard = 1; shard < size(); ++shard) {
    others.emplace_back([&, shard] { replies[shard] = RunOn(shard, request); });
  }
  replies[0] = RunOn(0, request);
  for (Thread& thread : others) {
    thread.Join();
  }
  std::vector<VectorReply> result;
  result.reserve(size());
  for (absl::StatusOr<VectorReply>& reply : replies) {
    if (!reply.ok()) {
      return reply.status();
    }
    result.push_back(*std::move(reply));
  }
  return result;
}

absl::StatusOr<VectorReply> VectorShards::RunOn(size_t shard, VectorRequest request) {
  request.set_shard_epoch(options_.shard_epochs[shard]);
  const uint64_t bytes = request.ByteSizeLong();
  Backoff backoff({}, shard);
  while (true) {
    if (options_.stopped()) {
      return absl::CancelledError(absl::StrCat("job ", options_.job, " has ended"));
    }
    ++commands_;
    bytes_ += bytes;
    uint64_t largest = largest_;
    while (bytes > largest && !largest_.compare_exchange_weak(largest, bytes)) {
    }
    absl::StatusOr<VectorReply> reply = options_.calls[shard](request);
    if (reply.ok()) {
      return reply;
    }
    if (!IsTransient(reply.status())) {
      return absl::Status(reply.status().code(),
                          absl::StrCat("ps/", shard, ": ", reply.status().message()));
    }
    Thread::SleepFor(backoff.Next());
  }
}

VectorShards::Statistics VectorShards::statistics() const {
  return {rounds_, commands_, bytes_, largest_};
}

}  // namespace monsoon
