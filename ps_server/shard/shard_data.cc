// Shard: the data plane. Each call finds the job, and has one of its parts serve the frame.
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "ps_server/shard/shard.h"

namespace monsoon {
namespace {

absl::Status NoTables(const std::string& job) {
  return absl::InvalidArgumentError(
      absl::StrCat("job \"", Shorten(job, kMaxJobName), "\" has no tables"));
}

}  // namespace

template <typename Request>
PushReply Shard::RefuseUnknownJob(const Request& request) const {
  PushReply reply;
  for (const auto& record : request.record()) {
    PushVerdict* verdict = reply.add_verdict();
    verdict->set_stripe(record.stripe());
    if constexpr (std::is_same_v<Request, PushRequest>) {
      verdict->set_sequence(record.sequence());
    }
    verdict->set_staleness(-1);
    // A shard that was started anew knows neither the job nor the session.
    verdict->set_verdict(record.shard_epoch() == options_.shard_epoch ? REFUSED_SESSION
                                                                      : REFUSED_EPOCH);
    verdict->set_message("no such job on this shard");
  }
  return reply;
}

absl::StatusOr<PushReply> Shard::Push(const PushRequest& request, ChunkCursor* payload,
                                      AlignedFloats* scratch) {
  RETURN_IF_ERROR(ValidatePushFrame(request, payload->remaining()));
  const std::shared_ptr<ShardJob> job =
      FindJob(request.session().job(), request.session().job_term());
  return job == nullptr ? RefuseUnknownJob(request)
                        : job->pushes()->Push(request, payload, scratch, draining_);
}

absl::StatusOr<RowPushReply> Shard::PushRows(const RowPushRequest& request, ChunkCursor* payload,
                                             AlignedFloats* scratch) {
  const std::shared_ptr<ShardJob> job =
      FindJob(request.session().job(), request.session().job_term());
  if (job == nullptr) {
    RowPushReply reply;
    reply.set_verdict(request.shard_epoch() == options_.shard_epoch ? REFUSED_SESSION
                                                                    : REFUSED_EPOCH);
    reply.set_message("no such job on this shard");
    return reply;
  }
  if (job->tables() == nullptr) {
    return NoTables(request.session().job());
  }
  return job->tables()->Push(request, payload, scratch, draining_);
}

absl::StatusOr<WriteReply> Shard::WriteRows(const RowWriteRequest& request, ChunkCursor* payload,
                                            AlignedFloats* scratch) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(request.job(), request.job_term()));
  return job->writes()->WriteRows(request, payload, scratch);
}

absl::StatusOr<TableSlice::Rows> Shard::FetchRows(const RowFetchRequest& request,
                                                  ChunkCursor* payload) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(request.session().job(), request.session().job_term()));
  if (job->tables() == nullptr) {
    return NoTables(request.session().job());
  }
  RETURN_IF_ERROR(job->writes()->CheckReadable());
  return job->tables()->Fetch(request, payload);
}

absl::StatusOr<PushReply> Shard::Contribute(const ContributeRequest& request, ChunkCursor* payload,
                                            AlignedFloats* scratch) {
  RETURN_IF_ERROR(ValidateContributeFrame(request, payload->remaining()));
  const std::shared_ptr<ShardJob> job =
      FindJob(request.session().job(), request.session().job_term());
  return job == nullptr ? RefuseUnknownJob(request)
                        : job->pushes()->Contribute(request, payload, scratch, draining_);
}

absl::StatusOr<WriteReply> Shard::Write(const WriteRequest& request, ChunkCursor* payload,
                                        AlignedFloats* scratch) {
  RETURN_IF_ERROR(CheckServing());
  RETURN_IF_ERROR(ValidateWriteFrame(request, payload->remaining()));
  // A session's write is of its session's job, whatever else it says: by that it was let in.
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   request.has_session()
                       ? FindKnown(request.session().job(), request.session().job_term())
                       : FindKnown(request.job(), request.job_term()));
  return job->writes()->Write(request, payload, scratch);
}

absl::StatusOr<MarksReply> Shard::Marks(const MarksRequest& request) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardJob> job,
                   FindKnown(request.session().job(), request.session().job_term()));
  return job->Marks(request);
}

absl::StatusOr<std::shared_ptr<ShardJob>> Shard::StartFetch(const FetchRequest& request) const {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job,
                   FindKnown(request.session().job(), request.session().job_term()));
  RETURN_IF_ERROR(job->fetches()->Validate(request));
  return job;
}

}  // namespace monsoon
