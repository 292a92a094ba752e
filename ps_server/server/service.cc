#include "ps_server/server/service.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/transport/frame/in_flight.h"

namespace monsoon {
namespace {

// Resident memory of this process, from /proc/self/statm; 0 if unknown.
uint64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) {
    return 0;
  }
  unsigned long long size = 0, resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

template <typename Request, typename Serve>
void ParameterServerService::Add(const char* method, Serve serve, CallTable* calls) {
  calls->Add<Request>(absl::StrCat("/monsoon.ParameterServer/", method), frames_->faults(),
                      [this, serve](const Request& request) {
                        const InFlight::Scope scope(frames_->in_flight());
                        return serve(request);
                      });
}

CallTable ParameterServerService::Calls() {
  CallTable calls;
  Add<ShardStatusRequest>(
      "GetStatus", [this](const ShardStatusRequest& request) { return GetStatus(request); },
      &calls);
  Add<CreateShardJobRequest>(
      "CreateJob", [this](const CreateShardJobRequest& request) { return CreateJob(request); },
      &calls);
  Add<RestoreShardJobRequest>(
      "RestoreJob", [this](const RestoreShardJobRequest& request) { return RestoreJob(request); },
      &calls);
  Add<DeleteShardJobRequest>(
      "DeleteJob", [this](const DeleteShardJobRequest& request) { return DeleteJob(request); },
      &calls);
  Add<OpenSessionRequest>(
      "OpenSession",
      [this](const OpenSessionRequest& request) {
        return shard_->OpenSession(request.session(), request.term(), request.call());
      },
      &calls);
  Add<CloseSessionRequest>(
      "CloseSession",
      [this](const CloseSessionRequest& request) {
        return shard_->CloseSession(request.session(), request.term(), request.call());
      },
      &calls);
  Add<CheckpointRequest>(
      "Checkpoint", [this](const CheckpointRequest& request) { return Checkpoint(request); },
      &calls);
  Add<ReduceRateRequest>(
      "ReduceRate",
      [this](const ReduceRateRequest& request) { return shard_->ReduceRate(request); }, &calls);
  Add<VectorRequest>(
      "Vector", [this](const VectorRequest& request) { return Vector(request); }, &calls);
  return calls;
}

absl::StatusOr<ShardStatusReply> ParameterServerService::GetStatus(
    const ShardStatusRequest& request) const {
  ASSIGN_OR_RETURN(ShardStatusReply reply, shard_->GetStatus(request));
  if (keeper_ != nullptr) {
    keeper_->FillStatus(&reply);
  }
  if (request.has_journal()) {
    *reply.mutable_journal() = journal_->Hear(request.journal());
  } else if (const std::optional<JournalMark> newest = journal_->newest()) {
    *reply.mutable_journal() = *newest;
  }
  reply.set_pid(static_cast<uint32_t>(getpid()));
  reply.set_rss_bytes(ResidentBytes());
  reply.set_message_memory_bytes(message_memory_bytes_);
  reply.set_trouble(trouble_->Get());
  if (!shared_memory_.socket().empty()) {
    *reply.mutable_shared_memory() = shared_memory_;
  }
  return reply;
}

absl::StatusOr<CreateShardJobReply> ParameterServerService::CreateJob(
    const CreateShardJobRequest& request) {
  MONSOON_FAIL_POINT_STATUS("slice.before_create");
  absl::StatusOr<CreateShardJobReply> result = shard_->CreateJob(request);
  MONSOON_FAIL_POINT_STATUS("slice.created");
  return result;
}

absl::StatusOr<CheckpointKeeper*> ParameterServerService::Keeper() const {
  if (keeper_ == nullptr) {
    return absl::FailedPreconditionError("this parameter server has no state folder");
  }
  return keeper_;
}

absl::StatusOr<RestoreShardJobReply> ParameterServerService::RestoreJob(
    const RestoreShardJobRequest& request) {
  ASSIGN_OR_RETURN(CheckpointKeeper* const keeper, Keeper());
  return keeper->Restore(shard_, request);
}

absl::Status ParameterServerService::DeleteJob(const DeleteShardJobRequest& request) {
  RETURN_IF_ERROR(
      shard_->DeleteJob(request.job(), request.job_term(), request.term(), request.call()));
  return keeper_ == nullptr ? absl::OkStatus() : keeper_->Delete(request.job(), request.job_term());
}

absl::StatusOr<CheckpointReply> ParameterServerService::Checkpoint(
    const CheckpointRequest& request) {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job, shard_->StartCheckpoint(request));
  ASSIGN_OR_RETURN(CheckpointKeeper* const keeper, Keeper());
  journal_->Keep();
  RETURN_IF_ERROR(keeper->Order(std::move(job), request));
  CheckpointReply reply;
  reply.set_shard_epoch(shard_->shard_epoch());
  return reply;
}

absl::StatusOr<VectorReply> ParameterServerService::Vector(const VectorRequest& request) {
  MONSOON_FAIL_POINT_STATUS("vector.before_apply");
  absl::StatusOr<VectorReply> result = shard_->Vector(request);
  MONSOON_FAIL_POINT_STATUS("vector.applied");
  return result;
}

}  // namespace monsoon
