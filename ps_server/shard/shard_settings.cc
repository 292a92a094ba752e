// Shard: what the coordinator changes of a job while it trains.
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

absl::Status Shard::ReduceRate(const ReduceRateRequest& request) {
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(Fence(request.term()));
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(request.job(), request.job_term()));
  return job->stripes()->ReduceRate(request.reductions());
}

absl::StatusOr<ChangeSettingsReply> Shard::ChangeSettings(const ChangeSettingsRequest& request) {
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(Fence(request.term()));
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(request.job(), request.job_term()));
  absl::StatusOr<uint64_t> version = job->stripes()->ChangeSettings(request);
  if (!version.ok()) {
    return Annotate(version.status(), absl::StrCat("ps/", options_.task, ": job ", request.job()));
  }
  ChangeSettingsReply reply;
  reply.set_shard_epoch(options_.shard_epoch);
  reply.set_version(*version);
  return reply;
}

absl::StatusOr<AdoptReply> Shard::Adopt(const AdoptRequest& request) {
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(Fence(request.term()));
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(request.job(), request.job_term()));
  if (job->spare() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", request.job(), ": its slice is none that only stores"));
  }
  RETURN_IF_ERROR(job->spare()->Adopt(request.write()));
  AdoptReply reply;
  reply.set_shard_epoch(options_.shard_epoch);
  return reply;
}

}  // namespace monsoon
