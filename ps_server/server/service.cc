#include "ps_server/server/service.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/transport/frame/faulty_call.h"
#include "common/transport/grpc/status_conversion.h"
#include "proto/parameter_server.grpc.pb.h"

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

class GrpcService final : public ParameterServerService, public ParameterServer::Service {
 public:
  GrpcService(Shard* shard, CheckpointKeeper* keeper, FrameServer* frames,
              uint64_t message_memory_bytes, const SharedMemoryOffer& shared_memory);

  grpc::Service* service() override { return this; }

  grpc::Status GetStatus(grpc::ServerContext* context, const ShardStatusRequest* request,
                         ShardStatusReply* reply) override;
  grpc::Status CreateJob(grpc::ServerContext* context, const CreateShardJobRequest* request,
                         CreateShardJobReply* reply) override;
  grpc::Status RestoreJob(grpc::ServerContext* context, const RestoreShardJobRequest* request,
                          RestoreShardJobReply* reply) override;
  grpc::Status DeleteJob(grpc::ServerContext* context, const DeleteShardJobRequest* request,
                         DeleteShardJobReply* reply) override;
  grpc::Status OpenSession(grpc::ServerContext* context, const OpenSessionRequest* request,
                           OpenSessionReply* reply) override;
  grpc::Status CloseSession(grpc::ServerContext* context, const CloseSessionRequest* request,
                            CloseSessionReply* reply) override;
  grpc::Status Checkpoint(grpc::ServerContext* context, const CheckpointRequest* request,
                          CheckpointReply* reply) override;
  grpc::Status ReduceRate(grpc::ServerContext* context, const ReduceRateRequest* request,
                          ReduceRateReply* reply) override;
  grpc::Status Vector(grpc::ServerContext* context, const VectorRequest* request,
                      VectorReply* reply) override;

 private:
  // Runs `serve` with the faults asked for.
  template <typename Serve>
  grpc::Status Control(Serve serve);

  absl::Status DeleteJob(const DeleteShardJobRequest& request);
  absl::Status OrderCheckpoint(const CheckpointRequest& request);
  // The keeper; FailedPrecondition for a server in memory only.
  absl::StatusOr<CheckpointKeeper*> Keeper() const;

  Shard* const shard_;
  CheckpointKeeper* const keeper_;  // null: in memory only
  FrameServer* const frames_;
  const uint64_t message_memory_bytes_;
  const SharedMemoryOffer shared_memory_;
};

GrpcService::GrpcService(Shard* shard, CheckpointKeeper* keeper, FrameServer* frames,
                         uint64_t message_memory_bytes, const SharedMemoryOffer& shared_memory)
    : shard_(shard),
      keeper_(keeper),
      frames_(frames),
      message_memory_bytes_(message_memory_bytes),
      shared_memory_(shared_memory) {}

template <typename Serve>
grpc::Status GrpcService::Control(Serve serve) {
  const InFlight::Scope scope(frames_->in_flight());
  return ToGrpcStatus(CallWithFaults(frames_->faults(), serve));
}

grpc::Status GrpcService::GetStatus(grpc::ServerContext*, const ShardStatusRequest* request,
                                    ShardStatusReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<ShardStatusReply> result = shard_->GetStatus(*request);
    if (result.ok()) {
      *reply = *std::move(result);
      if (keeper_ != nullptr) {
        keeper_->FillStatus(reply);
      }
      reply->set_pid(static_cast<uint32_t>(getpid()));
      reply->set_rss_bytes(ResidentBytes());
      reply->set_message_memory_bytes(message_memory_bytes_);
      if (!shared_memory_.socket().empty()) {
        *reply->mutable_shared_memory() = shared_memory_;
      }
    }
    return result.status();
  });
}

grpc::Status GrpcService::CreateJob(grpc::ServerContext*, const CreateShardJobRequest* request,
                                    CreateShardJobReply* reply) {
  return Control([&]() -> absl::Status {
    MONSOON_FAIL_POINT_STATUS("slice.before_create");
    absl::StatusOr<CreateShardJobReply> result = shard_->CreateJob(*request);
    MONSOON_FAIL_POINT_STATUS("slice.created");
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

absl::StatusOr<CheckpointKeeper*> GrpcService::Keeper() const {
  if (keeper_ == nullptr) {
    return absl::FailedPreconditionError("this parameter server has no state folder");
  }
  return keeper_;
}

grpc::Status GrpcService::RestoreJob(grpc::ServerContext*, const RestoreShardJobRequest* request,
                                     RestoreShardJobReply* reply) {
  return Control([&]() -> absl::Status {
    ASSIGN_OR_RETURN(CheckpointKeeper* const keeper, Keeper());
    absl::StatusOr<RestoreShardJobReply> result = keeper->Restore(shard_, *request);
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

grpc::Status GrpcService::DeleteJob(grpc::ServerContext*, const DeleteShardJobRequest* request,
                                    DeleteShardJobReply*) {
  return Control([&] { return DeleteJob(*request); });
}

absl::Status GrpcService::DeleteJob(const DeleteShardJobRequest& request) {
  RETURN_IF_ERROR(
      shard_->DeleteJob(request.job(), request.job_term(), request.term(), request.call()));
  return keeper_ == nullptr ? absl::OkStatus() : keeper_->Delete(request.job(), request.job_term());
}

absl::Status GrpcService::OrderCheckpoint(const CheckpointRequest& request) {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job, shard_->StartCheckpoint(request));
  ASSIGN_OR_RETURN(CheckpointKeeper* const keeper, Keeper());
  return keeper->Order(std::move(job), request);
}

grpc::Status GrpcService::Checkpoint(grpc::ServerContext*, const CheckpointRequest* request,
                                     CheckpointReply* reply) {
  return Control([&]() -> absl::Status {
    reply->set_shard_epoch(shard_->shard_epoch());
    return OrderCheckpoint(*request);
  });
}

grpc::Status GrpcService::OpenSession(grpc::ServerContext*, const OpenSessionRequest* request,
                                      OpenSessionReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<OpenSessionReply> result =
        shard_->OpenSession(request->session(), request->term());
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

grpc::Status GrpcService::CloseSession(grpc::ServerContext*, const CloseSessionRequest* request,
                                       CloseSessionReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<CloseSessionReply> result =
        shard_->CloseSession(request->session(), request->term());
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

grpc::Status GrpcService::ReduceRate(grpc::ServerContext*, const ReduceRateRequest* request,
                                     ReduceRateReply*) {
  return Control([&] { return shard_->ReduceRate(*request); });
}

grpc::Status GrpcService::Vector(grpc::ServerContext*, const VectorRequest* request,
                                 VectorReply* reply) {
  return Control([&]() -> absl::Status {
    MONSOON_FAIL_POINT_STATUS("vector.before_apply");
    absl::StatusOr<VectorReply> result = shard_->Vector(*request);
    MONSOON_FAIL_POINT_STATUS("vector.applied");
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

}  // namespace

std::unique_ptr<ParameterServerService> ParameterServerService::Create(
    Shard* shard, CheckpointKeeper* keeper, FrameServer* frames, uint64_t message_memory_bytes,
    const SharedMemoryOffer& shared_memory) {
  return std::make_unique<GrpcService>(shard, keeper, frames, message_memory_bytes, shared_memory);
}

}  // namespace monsoon
