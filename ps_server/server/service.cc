#include "ps_server/server/service.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/security/identity.h"
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

// Nobody else says who is thrown out.
absl::Status CheckIsCoordinator(const Caller& caller) {
  const bool is_it = caller.open || (caller.member.has_value() &&
                                     caller.member->identity.role == Role::kCoordinator);
  return is_it
             ? absl::OkStatus()
             : absl::PermissionDeniedError(absl::StrCat(
                   caller.member.has_value() ? MemberName(caller.member->identity) : caller.address,
                   " tells of members that were thrown out, and is not the coordinator"));
}

}  // namespace

template <typename Request, typename Serve>
void ParameterServerService::Add(const char* method, Serve serve, CallTable* calls) {
  calls->Add<Request>(absl::StrCat("/monsoon.ParameterServer/", method), parts_.frames->faults(),
                      [this, serve](const Caller& caller, const Request& request) {
                        const InFlight::Scope scope(parts_.frames->in_flight());
                        if constexpr (std::is_invocable_v<Serve, const Caller&, const Request&>) {
                          return serve(caller, request);
                        } else {
                          return serve(request);
                        }
                      });
}

CallTable ParameterServerService::Calls() {
  CallTable calls;
  Add<ShardStatusRequest>(
      "GetStatus",
      [this](const Caller& caller, const ShardStatusRequest& request) {
        return GetStatus(caller, request);
      },
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
        return parts_.shard->OpenSession(request.session(), request.term(), request.call(),
                                         request.member());
      },
      &calls);
  Add<CloseSessionRequest>(
      "CloseSession",
      [this](const CloseSessionRequest& request) {
        return parts_.shard->CloseSession(request.session(), request.term(), request.call());
      },
      &calls);
  Add<CheckpointRequest>(
      "Checkpoint", [this](const CheckpointRequest& request) { return Checkpoint(request); },
      &calls);
  Add<ReduceRateRequest>(
      "ReduceRate",
      [this](const ReduceRateRequest& request) { return parts_.shard->ReduceRate(request); },
      &calls);
  Add<AdoptRequest>(
      "Adopt",
      [this](const AdoptRequest& request) {
        absl::StatusOr<AdoptReply> result = parts_.shard->Adopt(request);
        MONSOON_FAIL_POINT("state.adopted");
        return result;
      },
      &calls);
  Add<ChangeSettingsRequest>(
      "ChangeSettings",
      [this](const ChangeSettingsRequest& request) {
        return parts_.shard->ChangeSettings(request);
      },
      &calls);
  Add<VectorRequest>(
      "Vector", [this](const VectorRequest& request) { return Vector(request); }, &calls);
  return calls;
}

absl::StatusOr<ShardStatusReply> ParameterServerService::GetStatus(
    const Caller& caller, const ShardStatusRequest& request) const {
  ASSIGN_OR_RETURN(ShardStatusReply reply, parts_.shard->GetStatus(request));
  if (parts_.keeper != nullptr) {
    parts_.keeper->FillStatus(&reply);
  }
  if (request.has_journal()) {
    *reply.mutable_journal() = parts_.journal->Hear(request.journal());
  } else if (const std::optional<JournalMark> newest = parts_.journal->newest()) {
    *reply.mutable_journal() = *newest;
  }
  if (request.has_revoked()) {
    RETURN_IF_ERROR(CheckIsCoordinator(caller));
    parts_.revoked->Hear(request.revoked(), Clock::Real()->WallTime());
  }
  reply.set_revoked_version(parts_.revoked->version());
  reply.set_pid(static_cast<uint32_t>(getpid()));
  reply.set_rss_bytes(ResidentBytes());
  reply.set_message_memory_bytes(parts_.message_memory_bytes);
  reply.set_trouble(parts_.trouble->Get());
  if (SharedMemoryOffer offer = parts_.shared_memory(); !offer.socket().empty()) {
    *reply.mutable_shared_memory() = std::move(offer);
  }
  return reply;
}

absl::StatusOr<CreateShardJobReply> ParameterServerService::CreateJob(
    const CreateShardJobRequest& request) {
  MONSOON_FAIL_POINT_STATUS("slice.before_create");
  absl::StatusOr<CreateShardJobReply> result = parts_.shard->CreateJob(request);
  MONSOON_FAIL_POINT_STATUS("slice.created");
  return result;
}

absl::StatusOr<CheckpointKeeper*> ParameterServerService::Keeper() const {
  if (parts_.keeper == nullptr) {
    return absl::FailedPreconditionError("this parameter server has no state folder");
  }
  return parts_.keeper;
}

absl::StatusOr<RestoreShardJobReply> ParameterServerService::RestoreJob(
    const RestoreShardJobRequest& request) {
  ASSIGN_OR_RETURN(CheckpointKeeper* const keeper, Keeper());
  return keeper->Restore(parts_.shard, request);
}

absl::Status ParameterServerService::DeleteJob(const DeleteShardJobRequest& request) {
  RETURN_IF_ERROR(
      parts_.shard->DeleteJob(request.job(), request.job_term(), request.term(), request.call()));
  return parts_.keeper == nullptr ? absl::OkStatus()
                                  : parts_.keeper->Delete(request.job(), request.job_term());
}

absl::StatusOr<CheckpointReply> ParameterServerService::Checkpoint(
    const CheckpointRequest& request) {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job, parts_.shard->StartCheckpoint(request));
  ASSIGN_OR_RETURN(CheckpointKeeper* const keeper, Keeper());
  parts_.journal->Keep();
  RETURN_IF_ERROR(keeper->Order(std::move(job), request));
  CheckpointReply reply;
  reply.set_shard_epoch(parts_.shard->shard_epoch());
  return reply;
}

absl::StatusOr<VectorReply> ParameterServerService::Vector(const VectorRequest& request) {
  MONSOON_FAIL_POINT_STATUS("vector.before_apply");
  absl::StatusOr<VectorReply> result = parts_.shard->Vector(request);
  MONSOON_FAIL_POINT_STATUS("vector.applied");
  return result;
}

}  // namespace monsoon
